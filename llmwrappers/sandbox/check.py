"""parse_policy: holds a program to the language of policies, and names every function in full.

Each ``np.sin`` becomes one name that leads to the function itself, so that no module is ever in reach of what will run.
"""

import ast

from llmwrappers.sandbox.full_names import FullNames
from llmwrappers.sandbox.language import (
    ANNOTATIONS,
    BUILTINS,
    CONSTANTS,
    FUNCTIONS,
    INSTEAD,
    MAX_CALLS,
    MAX_INTEGER,
    MODULES,
    NODES,
    PolicyRejected,
    syntax_tree,
)


def parse_policy(source: str) -> ast.Module:
    """Returns the syntax tree of a program after the check, with every function of NumPy, math or Python named in full.

    Raises:
        PolicyRejected: the program is not written in this part of Python
    """
    return ast.fix_missing_locations(_Checker(syntax_tree(source)).tree)


class _Checker:
    """Checks a syntax tree against the allow-list and leaves in ``tree`` what will run.

    Annotations, imports and docstrings are gone from it, ``name = lambda`` has become a def, and each name of a function of
    NumPy, math or the builtins has become one Name with the full name that a program cannot write as an identifier: "np.sin".
    """

    def __init__(self, tree: ast.Module):
        for node in ast.walk(tree):
            for field, value in ast.iter_fields(node):
                if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                    setattr(node, field, [self._lambda_to_def(statement) for statement in value])
        self._drop_annotations(tree)
        self.tree = tree
        self.aliases: dict[str, str] = {}
        self.defined: dict[str, ast.FunctionDef] = {}
        self.assigned: set[str] = set()
        self.in_an_index: set[int] = set()
        for node in ast.walk(tree):
            self._collect(node)
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) if name in self.aliases:
                    raise PolicyRejected(node.lineno, f"the function {name!r} is also the name of an import")
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in self.aliases or name in self.defined:
                    raise PolicyRejected(
                        node.lineno, f"{name!r} is assigned, but it is also the name of a function or an import"
                    )
        self._top_level(tree)
        for number, node in enumerate(ast.walk(tree)):
            self._check(node)
            if isinstance(node, ast.ListComp | ast.GeneratorExp):
                _give_own_names(node, number)
        self.assigned |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self._rename_namesakes(tree)
        self.tree = FullNames(self.aliases, self.assigned, self.defined).visit(tree)
        self._no_recursion()

    @staticmethod
    def _lambda_to_def(node: ast.stmt) -> ast.stmt:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda(args=args, body=body)):
                statement = ast.FunctionDef(name, args, [ast.copy_location(ast.Return(body), node)], [], None, None)
                return ast.fix_missing_locations(ast.copy_location(statement, node))
        return node

    @staticmethod
    def _drop_annotations(tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                node.annotation = None
            elif isinstance(node, ast.FunctionDef):
                node.returns = None
            elif isinstance(node, ast.AnnAssign):
                node.annotation = ast.copy_location(ast.Constant(None), node)

    def _collect(self, node: ast.AST) -> None:
        """Notes what a node defines, imports or assigns."""
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name in ANNOTATIONS:
                        continue  # the names stay unknown
                    if alias.name not in MODULES or ("." in alias.name and alias.asname is None):
                        raise PolicyRejected(node.lineno, f"import of {alias.name!r}; only numpy and math are allowed")
                    self._import(node, alias.asname or alias.name, MODULES[alias.name])
            case ast.ImportFrom(module=module, level=0) if module in ANNOTATIONS:
                pass
            case ast.ImportFrom(module=module, names=names, level=level):
                if module not in MODULES or level:
                    raise PolicyRejected(node.lineno, f"import of {module!r}; only numpy and math are allowed")
                for alias in names:
                    self._import(node, alias.asname or alias.name, f"{MODULES[module]}.{alias.name}")
            case ast.FunctionDef(name=name):
                if name in BUILTINS:
                    raise PolicyRejected(node.lineno, f"{name!r} is the name of a builtin; give your function another one")
                if name in self.defined:
                    raise PolicyRejected(node.lineno, f"the function {name!r} is defined twice; give each a name of its own")
                self.defined[name] = node
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                self.assigned.add(name)

    def _rename_namesakes(self, tree: ast.Module) -> None:
        """Renames variables that are called like a builtin, so that the builtin is never found in their place."""
        namesakes = self.assigned & set(BUILTINS)
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in namesakes:
                    raise PolicyRejected(node.lineno, f"{name!r} is also a variable of this program; give that another name")
                case ast.Call(func=ast.Name(id=name)) if name in self.defined:
                    for keyword in node.keywords:
                        keyword.arg = f"own {keyword.arg}" if keyword.arg in namesakes else keyword.arg
                case ast.Name(id=name) if name in namesakes:
                    node.id = f"own {name}"
                case ast.arg(arg=name) if name in namesakes:
                    node.arg = f"own {name}"
        self.assigned |= {f"own {name}" for name in namesakes}

    def _import(self, node: ast.stmt, name: str, meaning: str) -> None:
        if meaning not in (*MODULES.values(), *FUNCTIONS, *CONSTANTS):
            raise PolicyRejected(node.lineno, f"{meaning} is not among the functions that a policy may use")
        if self.aliases.setdefault(name, meaning) != meaning:
            raise PolicyRejected(node.lineno, f"{name!r} is imported twice with different meanings")

    def _top_level(self, tree: ast.Module) -> None:
        tree.body = [node for node in tree.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
        for node in tree.body:
            if not isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.Assign | ast.AnnAssign | ast.AugAssign):
                raise PolicyRejected(
                    node.lineno, "outside functions only imports, constants and function definitions are allowed"
                )
        policy = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "policy"), None)
        if policy is None:
            raise PolicyRejected(None, "there is no function policy(obs)")
        arguments = [*policy.args.posonlyargs, *policy.args.args]
        required = len(arguments) - len(policy.args.defaults)
        if required > 1 or not arguments or any(default is None for default in policy.args.kw_defaults):
            raise PolicyRejected(policy.lineno, "policy must take one argument, the observation")

    def _check(self, node: ast.AST) -> None:
        line = getattr(node, "lineno", None)
        if not isinstance(node, NODES):
            default = f"{type(node).__name__} is not allowed"
            raise PolicyRejected(line, INSTEAD.get(type(node), default))
        match node:
            case ast.FunctionDef(args=arguments, decorator_list=decorators):
                self._check_name(node.name, line)
                if decorators:
                    raise PolicyRejected(line, "decorators are not allowed")
                if arguments.vararg or arguments.kwarg:
                    raise PolicyRejected(line, "*args and **kwargs are not allowed")
                for default in (*arguments.defaults, *(value for value in arguments.kw_defaults if value)):
                    if not all(map(self._is_constant, default.elts if isinstance(default, ast.Tuple) else (default,))):
                        raise PolicyRejected(line, "default values must be constants, or tuples of them")
            case ast.Name(id=name) | ast.arg(arg=name):
                self._check_name(name, line)
            case ast.Constant(value=value):
                if isinstance(value, bytes | complex) or (value is Ellipsis and id(node) not in self.in_an_index):
                    raise PolicyRejected(line, f"the constant {value!r} is not allowed")
                if isinstance(value, int) and abs(value) > MAX_INTEGER:
                    raise PolicyRejected(line, "an integer this large is not allowed; write it as a float")
            case ast.Attribute(ctx=ast.Store()):
                raise PolicyRejected(line, "attributes cannot be assigned")
            case ast.BinOp(op=ast.LShift() | ast.RShift() as op) | ast.AugAssign(op=ast.LShift() | ast.RShift() as op):
                raise PolicyRejected(line, f"{'<<' if isinstance(op, ast.LShift) else '>>'} is not allowed")
            case ast.Assert(msg=message):
                if not (message is None or isinstance(message, ast.Constant)):
                    raise PolicyRejected(line, "the message of an assert must be a constant")
            case ast.Dict(keys=keys):
                if None in keys:
                    raise PolicyRejected(line, "** in a dict is not allowed")
            case ast.Subscript(slice=index):  # met before what is in it
                self.in_an_index |= {id(part) for part in (index.elts if isinstance(index, ast.Tuple) else (index,))}
            case ast.comprehension(is_async=1):
                raise PolicyRejected(None, "async is not allowed")
            case ast.For(target=target) | ast.comprehension(target=target):
                if any(isinstance(inner, ast.Subscript | ast.Attribute | ast.Starred) for inner in ast.walk(target)):
                    raise PolicyRejected(target.lineno, "a loop must run over plain names")
            case ast.keyword(arg=None):
                raise PolicyRejected(line, "**arguments are not allowed")
            case ast.Assign(targets=targets):
                if any(isinstance(target, ast.Starred) for target in targets):
                    raise PolicyRejected(line, "a starred name needs others beside it")

    def _is_constant(self, node: ast.expr) -> bool:
        match node:
            case ast.UnaryOp(operand=operand):
                return self._is_constant(operand)
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                return f"{self.aliases.get(module)}.{name}" in CONSTANTS
            case ast.Name(id=name):
                return self.aliases.get(name) in CONSTANTS
        return isinstance(node, ast.Constant)

    def _check_name(self, name: str, line: int | None) -> None:
        if not name.isascii():
            raise PolicyRejected(line, f"the name {name!r} is not ASCII")
        if name.startswith("__"):
            raise PolicyRejected(line, f"the name {name!r} begins with two underscores")

    def _no_recursion(self) -> None:
        calls = {
            name: [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and inner.id in self.defined]
            for name, node in self.defined.items()
        }
        finished: set[str] = set()

        def visit(name: str, path: tuple[str, ...]) -> None:
            if len(path) > MAX_CALLS:
                raise PolicyRejected(
                    self.defined[name].lineno, f"functions call each other {MAX_CALLS} deep; at most that is allowed"
                )
            if name in path:
                raise PolicyRejected(self.defined[name].lineno, f"{name!r} calls itself; recursion is not allowed")
            if name not in finished:
                for callee in calls[name]:
                    visit(callee, (*path, name))
                finished.add(name)

        for name in self.defined:
            visit(name, ())


def _give_own_names(node: ast.ListComp | ast.GeneratorExp, number: int) -> None:
    """Renames the variables of a comprehension, which is a scope of its own, so that they are no others' namesakes."""
    first = node.generators[0].iter  # evaluated outside
    inside = [child for child in ast.walk(node) if isinstance(child, ast.Name)]
    outside = {id(child) for child in ast.walk(first)}
    stores = (ast.walk(generator.target) for generator in node.generators)
    targets = {child.id for children in stores for child in children if isinstance(child, ast.Name)}
    for child in inside:
        if child.id in targets and id(child) not in outside:
            child.id = f"own {child.id} of {number}"
