"""FullNames: names every function in full, and refuses every name and attribute that is not listed."""

import ast

from llmwrappers.sandbox.language import (
    ATTRIBUTES,
    BUILTINS,
    CONSTANTS,
    CONSUMERS,
    DTYPES,
    FUNCTIONS,
    KEYWORDS,
    MAX_NODES,
    MAX_STRING,
    METHODS,
    NUMPY,
    POSITIONAL,
    STRINGS,
    PolicyRejected,
)

# What may be handed to map.
MAPPED = frozenset(("float", "int", "abs", "bool"))
_DTYPE_NAMES = frozenset(("dtype of", *(f"dtype {name}" for name in DTYPES)))


def is_dtype(node: ast.expr) -> bool:
    """Whether an argument is a dtype, as the check leaves them."""
    name = node.func if isinstance(node, ast.Call) else node
    return isinstance(name, ast.Name) and name.id in _DTYPE_NAMES


class FullNames(ast.NodeTransformer):
    """Replaces each name of a function by its full name, and refuses every name and attribute that is not allowed."""

    def __init__(self, aliases: dict[str, str], assigned: set[str], defined: dict[str, ast.FunctionDef]):
        self.aliases, self.assigned, self.defined = aliases, assigned, defined

    def visit_Import(self, node: ast.Import | ast.ImportFrom):
        return ast.copy_location(ast.Pass(), node)

    visit_ImportFrom = visit_Import

    def visit_AnnAssign(self, node: ast.AnnAssign):
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_GeneratorExp(self, node: ast.GeneratorExp):
        # Only where it is used up at once may a generator stay one: else it could hold, and be held by, a list.
        return self.generic_visit(ast.copy_location(ast.ListComp(node.elt, node.generators), node))

    def visit_Expr(self, node: ast.Expr):
        if isinstance(node.value, ast.Constant):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant):
        if isinstance(node.value, str) and len(node.value) > MAX_STRING:  # a docstring is gone already
            raise PolicyRejected(node.lineno, f"a string of more than {MAX_STRING} characters is not allowed")
        return node

    def visit_Name(self, node: ast.Name):
        if isinstance(node.ctx, ast.Store) or node.id in self.assigned:
            return node
        if node.id in self.aliases:
            return self._constant(node, self.aliases[node.id])
        if node.id in self.defined or node.id in BUILTINS:
            raise PolicyRejected(node.lineno, f"the function {node.id!r} may only be called, not used as a value")
        raise PolicyRejected(node.lineno, f"the name {node.id!r} is not defined, or not allowed")

    def visit_Attribute(self, node: ast.Attribute):
        if dotted := self._dotted(node):
            return self._constant(node, dotted)
        if node.attr not in ATTRIBUTES:
            raise PolicyRejected(node.lineno, f"the attribute .{node.attr} is not allowed")
        return self.generic_visit(node)

    def _constant(self, node: ast.expr, dotted: str) -> ast.expr:
        if dotted == "np.newaxis":
            return ast.copy_location(ast.Constant(None), node)
        if dotted not in CONSTANTS:
            reason = "may only be called, not used as a value" if dotted in FUNCTIONS else "is not among what a policy may use"
            raise PolicyRejected(node.lineno, f"{dotted} {reason}")
        return ast.copy_location(ast.Constant(CONSTANTS[dotted]), node)

    def visit_Call(self, node: ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) and node.func.id not in self.aliases else None
        takes_any = called in self.defined or called == "dict"
        for keyword in node.keywords:
            if keyword.arg not in KEYWORDS and not takes_any:
                raise PolicyRejected(node.lineno, f"the argument {keyword.arg}= is not allowed")
            if keyword.arg == "dtype" and not takes_any:
                keyword.value = self._dtype(keyword.value)
        match node.func:
            case ast.Attribute() if dotted := self._dotted(node.func):
                function = self._function(node, dotted)
            case ast.Attribute(attr=method):
                if method not in METHODS:
                    raise PolicyRejected(node.lineno, f"the method .{method}() is not allowed")
                if method == "astype":
                    node.args[:1] = [self._dtype(argument) for argument in node.args[:1]]
                node.func.value = self.visit(node.func.value)
                function = node.func
            case ast.Name(id=name) if name in self.assigned:
                raise PolicyRejected(node.lineno, f"{name!r} is a variable here; only functions can be called")
            case ast.Name(id=name) if name in self.aliases:
                function = self._function(node, self.aliases[name])
            case ast.Name(id=name):
                if name not in self.defined and name not in BUILTINS:
                    raise PolicyRejected(node.lineno, f"the function {name!r} is not defined, or not allowed")
                function = node.func
            case _:
                raise PolicyRejected(node.lineno, "only a function that is named can be called")
        name = function.id if isinstance(function, ast.Name) else ""
        if name in ("np.array", "np.asarray", "np.zeros", "np.ones", "np.empty", "np.full"):
            place = slice(2, 3) if name == "np.full" else slice(1, 2)
            node.args[place] = [self._dtype(argument) for argument in node.args[place]]
        if sum(not is_dtype(argument) for argument in node.args) > POSITIONAL.get(name, MAX_NODES):
            raise PolicyRejected(node.lineno, f"{name} takes at most {POSITIONAL[name]} arguments by position here")
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)) if name in NUMPY else ():
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and (name, argument.value) not in STRINGS:
                raise PolicyRejected(node.lineno, f"{name} takes no string here")
            if isinstance(argument, ast.Starred):
                raise PolicyRejected(node.lineno, f"{name} takes no starred arguments; pass a list")
        arguments = [argument if is_dtype(argument) else None for argument in node.args]
        if name == "map" and node.args:
            match node.args[0]:
                case ast.Name(id=mapped) if mapped in self.defined or mapped in MAPPED - self.assigned - self.aliases.keys():
                    arguments[0] = node.args[0]
        for position, (kept, argument) in enumerate(zip(arguments, node.args, strict=True)):
            if isinstance(argument, ast.GeneratorExp) and name in CONSUMERS:
                self.generic_visit(argument)
            elif kept is None:
                node.args[position] = self.visit(argument)
        for keyword in node.keywords:
            if not is_dtype(keyword.value):
                keyword.value = self.visit(keyword.value)
        node.func = function
        return node

    def _function(self, node: ast.Call, dotted: str) -> ast.Name:
        if dotted not in FUNCTIONS:
            raise PolicyRejected(node.lineno, f"{dotted} is not among the functions that a policy may use")
        return ast.copy_location(ast.Name(dotted, ast.Load()), node)

    def _dotted(self, node: ast.expr) -> str | None:
        """The full name of an attribute of an imported module, or None if it is not one."""
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.aliases and node.id not in self.assigned:
            return ".".join([self.aliases[node.id], *reversed(names)])
        return None

    def _dtype(self, node: ast.expr) -> ast.expr:
        """A dtype is one of a few, whichever way it is written, or that of a variable."""
        match node:
            case ast.Attribute(attr="dtype", value=ast.Name(id=name) as array) if name in self.assigned:
                return ast.copy_location(ast.Call(ast.Name("dtype of", ast.Load()), [array], []), node)
            case ast.Constant(value=str(name)) | ast.Name(id=name) if name in DTYPES and name not in self.assigned:
                pass
            case ast.Attribute(attr=name) if (dotted := self._dotted(node)) and dotted.startswith("np."):
                name = dotted.removeprefix("np.").removesuffix("_")
            case ast.Constant(value=None):
                name = "float"
            case _:
                name = None
        if name not in DTYPES:
            raise PolicyRejected(node.lineno, f"the dtype must be one of {', '.join(DTYPES)}, or that of a variable")
        return ast.copy_location(ast.Name(f"dtype {name}", ast.Load()), node)
