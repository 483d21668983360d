"""let_import: a trusted file imports what lies beside it, and no other module of that name."""

import ast
import importlib.util
import sys
from pathlib import Path

from llmwrappers.containment.errors import PolicyRejected
from llmwrappers.files import make_importable


def let_import(path: Path) -> None:
    """Lets a trusted file import what lies beside it.

    Raises:
        PolicyRejected: it would get another module of that name, one that is loaded or that Python finds first
    """
    make_importable(path.parent)
    folder = path.parent.resolve()
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):  # is reported where the file is executed
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported = [node.module]
        else:
            continue
        for name in (module.split(".")[0] for module in imported):
            if not ((folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()):
                continue
            loaded = sys.modules.get(name)
            spec = loaded.__spec__ if loaded else importlib.util.find_spec(name)
            found = str(spec and spec.origin)
            if not Path(found).resolve().is_relative_to(folder):
                reason = f"import of {name} finds {found} and not the {name} beside this file: rename the latter"
                raise PolicyRejected(node.lineno, reason)
