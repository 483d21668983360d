"""Strips a MuJoCo model of what only a picture needs: half of what a kitchen's is, and nothing that a policy could use."""

import xml.etree.ElementTree as ET

ELEMENTS = {"asset", "camera", "light", "size", "statistic", "visual"}
ATTRIBUTES = {"group", "material", "rgba", "user"}
COLLISIONS = ("contype", "conaffinity")
MAIN = "main"


def bare_model(xml: str) -> str:
    """Returns a model without assets, cameras, lights and colours, and without the meshes that nothing collides with.

    Example:
        >>> print(bare_model('<mujoco><asset/><worldbody><light/><geom size="1" rgba="1 0 0 1"/></worldbody></mujoco>'))
        <mujoco>
          <worldbody>
            <geom size="1" />
          </worldbody>
        </mujoco>
    """
    root = ET.fromstring(xml)
    classes: dict[str, dict[str, str]] = {MAIN: dict.fromkeys(COLLISIONS, "1")}
    for default in root.findall("default"):
        _read_classes(default, classes[MAIN], classes)
    _strip(root, classes, MAIN)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")


def _read_classes(default: ET.Element, inherited: dict[str, str], classes: dict[str, dict[str, str]]) -> None:
    """Notes what the geoms of a class and of those within it collide with."""
    geom = default.find("geom")
    own = inherited | {name: geom.get(name, inherited[name]) for name in COLLISIONS} if geom is not None else inherited
    classes[default.get("class", MAIN)] = own
    for child in default.findall("default"):
        _read_classes(child, own, classes)


def _strip(element: ET.Element, classes: dict[str, dict[str, str]], childclass: str) -> None:
    for child in list(element):
        collides = {**classes[child.get("class", childclass)], **child.attrib} if child.tag == "geom" else {}
        is_decoration = "mesh" in child.attrib and [collides.get(name) for name in COLLISIONS] == ["0", "0"]
        if child.tag in ELEMENTS or is_decoration:
            element.remove(child)
            continue
        for name in ATTRIBUTES & set(child.attrib):
            del child.attrib[name]
        _strip(child, classes, child.get("childclass", childclass))
        if element.tag == "default" and len(child) == 0 and not child.attrib:
            element.remove(child)
    if len(element) == 0:
        element.text = None  # the line ends between what was there
