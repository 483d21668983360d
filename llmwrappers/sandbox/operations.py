"""Operations by what the meter has to know of them: which work long, which grow, which take what."""

import math
import operator

import numpy as np

from llmwrappers.sandbox.language import COMPARISONS, ELEMENTWISE, NUMPY, OPERATORS, SMALL

NUMPY_FUNCTIONS = frozenset(NUMPY.values())
NAME_OF = {function: name for name, function in NUMPY.items()}
IN_PLACE = {node.__name__: getattr(operator, f"i{f.__name__.rstrip('_')}") for node, f in OPERATORS.items()}
COMPARED = {node.__name__: function for node, function in COMPARISONS.items()} | {"Is": operator.is_, "IsNot": operator.is_not}
UNARY = {"UAdd": operator.pos, "USub": operator.neg, "Invert": operator.invert, "abs": abs}
VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
# Units an element of what is not done by NumPy in one go.
BY_ELEMENT = {math.fsum: 10, math.dist: 10, np.polyval: 10, min: 1, max: 1, any: 1, all: 1}
SLOW_OPERATORS = (operator.mod, operator.imod, operator.floordiv, operator.ifloordiv)
POWERS = (operator.pow, operator.ipow)
MODULOS = (operator.mod, operator.imod)
TIMES = (operator.mul, operator.imul)
MATRIX_PRODUCTS = (operator.matmul, operator.imatmul)
CONTAINMENTS = (COMPARED["In"], COMPARED["NotIn"])
CUBIC = tuple(SMALL.values())
ROUNDS = (np.round, np.around)
SQUARING = (np.outer, np.convolve, np.polyval)
# As large as what its arguments are broadcast to.
BROADCASTING = {f for f in ELEMENTWISE.values() if isinstance(f, np.ufunc) and f.signature is None} | {np.where, np.clip}
