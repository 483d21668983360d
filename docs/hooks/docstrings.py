"""Griffe extension: docstrings, which are written to be read in a terminal, as mkdocstrings wants them."""

import re

import griffe


class Docstrings(griffe.Extension):
    """Makes examples code, the keys of an info a list, and what stands indented after "::" a block of code."""

    def on_object(self, *, obj: griffe.Object, **kwargs) -> None:
        if obj.docstring is None:
            return
        text = re.sub(r"^(\s*)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
        text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
        obj.docstring.value = re.sub(r"^(    )(``\w+``.*: )", r"\1- \2", text, flags=re.MULTILINE)
