"""Tests of local_llm.prompting.bare_model: what collides and moves stays, what only a picture needs goes."""

import re

import mujoco
import numpy as np

from local_llm.prompting.bare_model import bare_model
from local_llm.prompting.render import render_prompt

MODEL = """
<mujoco>
  <visual><quality shadowsize="2048"/></visual>
  <default>
    <geom rgba="1 0 0 1"/>
    <default class="arm">
      <joint damping="3"/>
      <default class="looks"><geom contype="0" conaffinity="0" group="2"/></default>
    </default>
  </default>
  <asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/><material name="red" rgba="1 0 0 1"/></asset>
  <worldbody>
    <light pos="0 0 3"/>
    <body name="arm" childclass="arm">
      <joint name="hinge" axis="0 1 0" range="-1 1"/>
      <geom name="link" type="capsule" size="0.1 0.5" material="red"/>
      <geom name="collides" type="mesh" mesh="m"/>
      <geom name="decoration" class="looks" type="mesh" mesh="m"/>
      <geom name="marker" class="looks" size="0.1"/>
      <body name="hand" childclass="looks">
        <geom name="glove" type="mesh" mesh="m"/>
        <geom name="palm" size="0.1" contype="1"/>
      </body>
      <camera name="eye"/>
    </body>
  </worldbody>
</mujoco>
"""


def test_what_a_policy_may_need_stays():
    mujoco.MjModel.from_xml_string(MODEL)
    bare = bare_model(MODEL)
    assert re.findall(r'name="(\w+)"', bare) == ["arm", "hinge", "link", "collides", "marker", "hand", "palm"]
    for gone in ("rgba", "material", "light", "asset", "visual", "camera", "group"):
        assert gone not in bare
    assert '<joint damping="3" />' in bare
    assert "\n\n" not in bare


def test_a_model_without_meshes_moves_as_it_did():
    xml = re.sub(r"<geom[^>]*mesh[^>]*>", "", MODEL)
    states = []
    for text in (xml, bare_model(xml)):
        model = mujoco.MjModel.from_xml_string(text)
        data = mujoco.MjData(model)
        data.qvel[:] = 1.0
        for _ in range(100):
            mujoco.mj_step(model, data)
        states.append(np.concatenate([data.qpos, data.qvel]))
    np.testing.assert_allclose(states[0], states[1], rtol=1e-9)


def test_models_of_environments_without_facts_are_bare_and_others_as_they_are():
    pusher, hopper = render_prompt("Pusher-v5"), render_prompt("Hopper-v4")
    assert '<geom name="e1' in pusher
    assert "rgba" not in pusher
    assert "rgba" in hopper
