"""with_tests: puts into a checked program the tests by which it ends.

Whatever could grow without end, or work for long, is replaced by its tested form, a method of ``Meter``. Left as it is what
cannot, whatever its values are: an operation with a float that is written out, a number that is written out as an index.
"""

import ast
from collections.abc import Iterable

from llmwrappers.sandbox.full_names import is_dtype
from llmwrappers.sandbox.language import (
    CONVERSIONS,
    CREATIONS,
    ELEMENTWISE,
    FLAT_METHODS,
    GROWING_METHODS,
    MATH,
    PRODUCTS,
    REDUCTIONS,
    ROUNDINGS,
    SLOW,
    TESTS,
)
from llmwrappers.sandbox.meter import MAX_LIGHT

MAX_UNCOUNTED_WORK = 1000
"""A helper function with more work than this counts it at each call; that of a smaller one is part of its caller's."""
OWN_FORM = ("range", "int", "round", "pow", "sum", "map", "enumerate", "zip", "reversed", *ROUNDINGS)
LAZY_FORMS = {f"tested {name}": f"tested lazy {name}" for name in ("map", "enumerate", "zip", "reversed")}
# As large as their arguments say.
SIZED = {*CREATIONS, "np.eye", "np.identity", "np.broadcast_to", "np.diag", "np.repeat", "np.tile", "np.select"}
# Given numbers, they give a number; else they raise.
UNTESTED = {"len", "float", "bool", "abs"} | (MATH | TESTS).keys() - {"math.fsum", "math.dist"}
FLAT = (ELEMENTWISE | REDUCTIONS | PRODUCTS).keys() - SLOW - {"np.round", "np.around"}


def with_tests(tree: ast.Module, pays_all: bool = False) -> ast.Module:
    """Returns a checked program with its tests in place.

    Args:
        pays_all: for observations above ``MAX_SIZE``: also of what cannot grow, but makes another array as large
    """
    return ast.fix_missing_locations(_Tests(tree, pays_all).visit(tree))


class _Tests(ast.NodeTransformer):
    """Replaces what could grow without end, or work for long, by its tested form."""

    def __init__(self, tree: ast.Module, pays_all: bool):
        self.pays_all = pays_all
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        # Before anything is replaced, because what is replaced has more nodes.
        self.work: dict[str, int] = {}
        for name, node in self.functions.items():
            self.work[name] = self._work(node)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        arguments = [argument for node in calls if ast.unparse(node.func) == "map" for argument in node.args]
        self.parts, self.floats = 0, set()
        # A list may grow while a loop runs over it, be it in a function that the loop calls.
        self.lists_grow = any(
            isinstance(node, ast.AugAssign) or (isinstance(node, ast.Attribute) and node.attr in GROWING_METHODS)
            for node in ast.walk(tree)
        )
        self.mapped = {argument.id for argument in arguments if isinstance(argument, ast.Name)}

    @staticmethod
    def _tested(name: str, node: ast.AST, *arguments: ast.expr, keywords: Iterable[ast.keyword] = ()) -> ast.Call:
        call = ast.Call(ast.Name(f"tested {name}", ast.Load()), list(arguments), list(keywords))
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _is_float(self, node: ast.expr) -> bool:
        """Whether a float comes of an expression for sure, by what is written in it, or in the only assignment to its name."""
        match node:
            case ast.Constant(value=value):
                return type(value) is float
            case ast.Name(id=name):
                return name in self.floats
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return (
                    name in MATH
                    or name == "float"
                    or (name in ("min", "max") and len(arguments) > 1 and all(map(self._is_float, arguments)))
                )
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_float(body) and self._is_float(orelse)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self._is_float(operand)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
                floats = self._is_float(left), self._is_float(right)
                return all(floats) or (any(floats) and (_number(left) is not None or _number(right) is not None))
        return False

    def _cannot_grow(self, op: ast.operator, *operands: ast.expr) -> bool:
        """Whether a float is among the operands, or a small number is added.

        With a float, digits cannot grow, nor sizes: it is refused by lists. Nor can digits, in any number of steps that there
        is time for, where something small is added to an integer.
        """
        if self.pays_all or not isinstance(op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow):
            return False
        small = any(abs(number) < 2**32 for operand in operands if (number := _number(operand)) is not None)
        return (small and isinstance(op, ast.Add | ast.Sub)) or any(map(self._is_float, operands))

    def _find_floats(self, function: ast.FunctionDef) -> set[str]:
        """The variables of a function that are assigned once, and then a float."""
        stored = [node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)]
        stored += [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        self.floats: set[str] = set()
        for node in ast.walk(function):  # in the order of the text, but for what is nested
            pairs = []
            match node:
                case ast.Assign(targets=[ast.Name() as target], value=value):
                    pairs = [(target, value)]
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
                    pairs = list(zip(targets, values, strict=True))
            floats = [target.id for target, value in pairs if isinstance(target, ast.Name) and self._is_float(value)]
            self.floats |= {name for name in floats if stored.count(name) == 1}
        return self.floats

    def visit_BinOp(self, node: ast.BinOp):
        cannot_grow = self._cannot_grow(node.op, node.left, node.right)
        self.generic_visit(node)
        return node if cannot_grow else self._tested(type(node.op).__name__, node, node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp):
        is_number = _number(node) is not None
        self.generic_visit(node)
        if not self.pays_all or is_number or isinstance(node.op, ast.Not):
            return node
        return self._tested(f"unary {type(node.op).__name__}", node, node.operand)

    def visit_AugAssign(self, node: ast.AugAssign):
        name = type(node.op).__name__
        if isinstance(node.target, ast.Name):
            cannot_grow = self._cannot_grow(node.op, node.value)
            self.generic_visit(node)
            if cannot_grow:
                return node
            read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
            value = self._tested(f"in-place {name}", node, read, node.value)
            return ast.copy_location(ast.Assign([node.target], value), node)
        assert isinstance(node.target, ast.Subscript)
        base, index, value = (self.visit(part) for part in (node.target.value, node.target.slice, node.value))
        return ast.copy_location(
            ast.Expr(self._tested("augment", node, ast.Constant(name), base, _as_value(index), value)), node
        )

    def visit_Assign(self, node: ast.Assign):
        inside = [inner for target in node.targets for inner in ast.walk(target)]
        starred = any(isinstance(inner, ast.Starred) for inner in inside)
        stores = any(isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store) for inner in inside)
        if stores and (len(node.targets) > 1 or not isinstance(node.targets[0], ast.Subscript)):
            return self._one_by_one(node)
        self.generic_visit(node)
        if starred:  # as long a list as the value
            node.value = self._tested("value", node.value, node.value)
        match node.targets:
            case [ast.Subscript(value=base, slice=index)]:
                # A list can grow through a slice of it. In Python's order: the value is evaluated first.
                return ast.copy_location(ast.Expr(self._tested("setitem", node, node.value, base, _as_value(index))), node)
        return node

    def _one_by_one(self, node: ast.Assign) -> list[ast.stmt]:
        """``a[0], b = x`` as assignments of one target each, in Python's order, by way of names that no program can write."""
        statements: list[ast.stmt] = []

        def assign(target: ast.expr, value: ast.expr) -> None:
            statement = self.visit(ast.fix_missing_locations(ast.copy_location(ast.Assign([target], value), node)))
            statements.extend(statement if isinstance(statement, list) else [statement])

        def part(ctx: ast.expr_context, number: int) -> ast.Name:
            return ast.Name(f"part {number}", ctx)

        def unpack(target: ast.expr, number: int) -> None:
            if not isinstance(target, ast.Tuple | ast.List):
                return assign(target.value if isinstance(target, ast.Starred) else target, part(ast.Load(), number))
            numbers = range(self.parts + 1, self.parts + 1 + len(target.elts))
            self.parts += len(numbers)
            stores: list[ast.expr] = [
                ast.Starred(part(ast.Store(), i), ast.Store()) if isinstance(element, ast.Starred) else part(ast.Store(), i)
                for i, element in zip(numbers, target.elts, strict=True)
            ]
            assign(ast.Tuple(stores, ast.Store()), part(ast.Load(), number))
            for i, element in zip(numbers, target.elts, strict=True):
                unpack(element, i)
            return None

        self.parts += 1
        whole = self.parts
        assign(part(ast.Store(), whole), node.value)
        for target in node.targets:
            unpack(target, whole)
        return statements

    def visit_Compare(self, node: ast.Compare):
        operands = [node.left, *node.comparators]
        harmless = all(
            isinstance(op, ast.Is | ast.IsNot)
            or (not isinstance(op, ast.In | ast.NotIn) and (_number(left) is not None or _number(right) is not None))
            for op, left, right in zip(node.ops, operands, operands[1:], strict=False)
        )
        self.generic_visit(node)
        if harmless and not self.pays_all:
            return node
        if len(node.ops) == 1:
            return self._tested(f"comparison {type(node.ops[0]).__name__}", node, node.left, node.comparators[0])
        names = ast.Constant(" ".join(type(op).__name__ for op in node.ops))
        return self._tested("comparisons", node, names, node.left, *node.comparators)

    def visit_Subscript(self, node: ast.Subscript):
        written = type(_number(node.slice)) is int or (isinstance(node.slice, ast.Constant) and type(node.slice.value) is str)
        if isinstance(node.slice, ast.Slice):
            bounds = [bound for bound in (node.slice.lower, node.slice.upper, node.slice.step) if bound]
            written = all(type(_number(bound)) is int for bound in bounds)
        self.generic_visit(node)
        if written or not isinstance(node.ctx, ast.Load):
            return node
        return self._tested("item", node, node.value, _as_value(node.slice))

    def visit_List(self, node: ast.List | ast.Tuple):
        starred = any(isinstance(element, ast.Starred) for element in node.elts)
        long = isinstance(node.ctx, ast.Load) and (starred or len(node.elts) > MAX_LIGHT)
        self.generic_visit(node)
        return self._tested("value", node, node) if long else node

    visit_Tuple = visit_List

    def visit_Dict(self, node: ast.Dict):
        if all(isinstance(key, ast.Constant) for key in node.keys):
            return self.generic_visit(node)
        # Keys that are computed are tested as those of dict(...) are.
        items = zip(node.keys, node.values, strict=True)
        pairs: list[ast.expr] = [ast.Tuple([key, value], ast.Load()) for key, value in items if key]
        arguments: list[ast.expr] = [ast.List(pairs, ast.Load())]
        call = ast.Call(ast.Name("dict", ast.Load()), arguments, [])
        return self.visit_Call(ast.fix_missing_locations(ast.copy_location(call, node)))

    def visit_Starred(self, node: ast.Starred):
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._tested("value", node.value, node.value)
        return node

    def visit_Call(self, node: ast.Call):
        if is_dtype(node):
            return node
        given = [argument for argument in node.args if not is_dtype(argument)]
        consumes = len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp)  # whose loops are counted
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self.functions or (name == "dict" and not node.args) or (consumes and name in ("any", "all", "min", "max")):
            return node
        if self.pays_all and name == "abs":
            return self._tested("unary abs", node, *node.args)
        if not starred and (name in UNTESTED or (name in ("min", "max") and len(node.args) > 1)):
            return node
        if name in ("np.zeros", "np.ones", "np.empty") and len(given) == 1 and 0 <= (_number(given[0]) or -1) <= MAX_LIGHT:
            return node
        if name in OWN_FORM:
            return self._tested(name, node, *node.args, keywords=node.keywords)
        form = "call"
        if isinstance(node.func, ast.Attribute):
            form = "append" if node.func.attr == "append" else "flat call" if node.func.attr in FLAT_METHODS else form
        elif name in CONVERSIONS and len(given) == 1:
            form = "row"
        elif name in FLAT and (name != "np.where" or len(given) == 3) and not starred:
            form = "flat call"
        elif name in SIZED:
            form = "creation"
        return self._tested(form, node, node.func, *node.args, keywords=node.keywords)

    def visit_For(self, node: ast.For):
        work = sum(map(self._work, node.body))
        self.generic_visit(node)
        node.iter = self._loop(node.iter, work)
        return node

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp):
        work = self._work(node)
        self.generic_visit(node)
        for generator in node.generators:
            generator.iter = self._loop(generator.iter, work)
        return self._tested("list", node, node) if isinstance(node, ast.ListComp) else node

    visit_GeneratorExp = visit_ListComp

    def _loop(self, iterable: ast.expr, work: int) -> ast.expr:
        """What a loop runs over. Only there may an iterator stay one: nothing then holds it that could be wound into it."""
        match iterable:
            case ast.Call(func=ast.Name(id=name) as function) if name in LAZY_FORMS:
                function.id = LAZY_FORMS[name]
        return self._tested("growing loop" if self.lists_grow else "loop", iterable, iterable, ast.Constant(work))

    def visit_Module(self, node: ast.Module):
        statements = [statement for statement in node.body if not isinstance(statement, ast.FunctionDef)]
        names = [inner.id for statement in statements for inner in ast.walk(statement) if isinstance(inner, ast.Name)]
        self.generic_visit(node)
        # A helper function that does not count itself is part of its caller's work, which here nobody else counts.
        work = sum(self.work[name] for name in names if self.work.get(name, MAX_UNCOUNTED_WORK + 1) <= MAX_UNCOUNTED_WORK)
        node.body.insert(0, ast.Expr(self._tested("entry", node.body[0], ast.Constant(work))))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef):
        outer, self.floats = self.floats, self._find_floats(node)
        self.generic_visit(node)
        self.floats = outer
        work = self.work[node.name]
        if work > MAX_UNCOUNTED_WORK or node.name in self.mapped:
            node.body.insert(0, ast.copy_location(ast.Expr(self._tested("entry", node, ast.Constant(work))), node))
        return node

    def _work(self, node: ast.AST) -> int:
        """The nodes of a piece of code, with those of the helper functions that it calls, if they do not count themselves."""
        total = 0
        for inner in ast.walk(node):
            total += 1
            if isinstance(inner, ast.Name) and inner.id in self.functions:
                if inner.id not in self.work:
                    self.work[inner.id] = self._work(self.functions[inner.id])
                work = self.work[inner.id]
                total += work if work <= MAX_UNCOUNTED_WORK else 0
        return total


def _number(node: ast.expr) -> float | None:
    """The number that is written out here, if it is one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return node.value if isinstance(node, ast.Constant) and type(node.value) in (int, float) else None  # type: ignore


def _as_value(index: ast.expr) -> ast.expr:
    """An index as an expression: a slice becomes slice(...), which only the tests can call."""
    match index:
        case ast.Slice(lower=lower, upper=upper, step=step):
            bounds = [ast.Constant(None) if bound is None else bound for bound in (lower, upper, step)]
            return ast.copy_location(ast.Call(ast.Name("tested slice", ast.Load()), bounds, []), index)
        case ast.Tuple(elts=elements):
            return ast.copy_location(ast.Tuple([_as_value(element) for element in elements], ast.Load()), index)
    return index
