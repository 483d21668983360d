"""Random programs in the language of policies."""

import random
import re

# ---------------------------------------------------------------------------------------------------------------- programs


def _choices(text: str) -> list[str]:
    return [choice for line in text.split("\n") for choice in line.strip().split(" | ") if choice]


# Ways to write a number (S), integer (I), truth value (B), vector (F), matrix (M), list of numbers (L) or of lists (N),
# tuple (T) or dict (D); {S} stands for another way to write a number.
EXPRESSIONS = {
    kind: _choices(text)
    for kind, text in {
        "S": """
            0.5 | -1.5 | 1e308 | obs[{I}] | {S} + {S} | {S} * {I} | {S} - {S} | {S} / {I} | {S} ** {I} | {S} % {S} | {S} // {S}
            -{S} | np.sin({S}) | np.abs({S}) | math.sin({S}) | math.hypot({S}, {I}) | abs({S}) | float({I}) | np.sum({F})
            {S}.real
            {F}.mean() | {F}[{I}] | {F} @ {F} | np.dot({F}, {F}) | max({S}, {S}) | min({F}) | {S} if {B} else {S}
            {L}[{I}] | sum({L})
            max({L}) | np.linalg.norm({F}) | {D}['a'] | {D}.get('b', {S}) | round({S}, 1) | {T}[0] | np.where({B}, {S}, {S})
            {M}[0, {I}] | one({S}, {F}) | two({S}) | sum(x * {S} for x in {F}) | {N}[0][{I}] | np.max({L}) | {S} and {S}
            np.sum({L})
            np.float64({I}) | np.int64({I}) | {F}.max() | np.prod({L}) | np.argmax({F}) | np.interp({S}, {F}, {F})
            np.median({F})
            np.clip({S}, -1, {I}) | {M}.sum() | sum([x for x in {L} if x > {S}]) | math.pow({S}, 2) | np.trace({M})
            {F}.dot({F})
            np.mean({N}) | inner({S}) | inner({I}) | GAIN | TABLE[{I}] | GAINS['a'] | sum({F}) | math.fsum({L})
            max({D}.values())""",
        "I": """
            0 | 1 | 2 | -1 | 7 | len({F}) | len({L}) | int({S}) | round({S}) | {F}.size | {M}.ndim | {I} + {I} | {I} * {I}
            {I} - 1
            {I} // {I} | {I} % 3 | {I} ** 2 | -{I} | abs({I}) | math.floor({S}) | {F}.shape[0] | int({B}) | max({I}, {I})
            min({I}, 3)
            {I} if {B} else {I} | sum(i for i in range({I})) | int(np.argmax({F})) | {F}.argmax().item() | {T}[1]
            one({I}, {I})
            sum([{I}, {I}]) | ~{I} | {I} & {I} | pow({I}, 2) | round({I}, {I}) | len({N}) | COUNT | inner({I})
            max({D}.keys())""",
        "B": """
            True | {S} > {S} | {I} == {I} | not {B} | {B} and {B} | {S} < {S} < {S} | {F}.any() | np.isfinite({S}) | 'a' in {D}
            {S} in {L} | {L} == {L} | any(x > 0 for x in {F}) | bool({I}) | {S} > 0 or {B} | all({L}) | {L} is not None
            np.allclose({F}, {F}) | math.isnan({S}) | {L} < {L} < {L}""",
        "F": """
            obs | obs | obs[{I}:] | obs[:2] | {F} + {F} | {F} * {S} | {S} - {F} | {I} * {F} | {F} / {I} | {F} ** 2
            {F} % {S} | -{F}
            np.tanh({F}) | {F}[::-1] | np.zeros({I}) | np.ones(2) | np.array({L}) | np.array([{S}, {I}]) | np.asarray({T})
            {M} @ {F}
            {M}[0] | {M}.sum(axis=0) | np.where({F} > 0, {F}, {S}) | np.concatenate([{F}, {F}]) | np.append({F}, {S})
            {F}.copy()
            {F}[{F} > 0] | {F}.clip(-1, 1) | np.clip({F}, -1, {S}) | np.cumsum({F}) | {F}.T | np.diff({F}) | {F}[[0, {I}]]
            {F}[{L}]
            np.linspace({S}, {S}, {I}) | np.arange({I}) | {F} if {B} else {F} | {M}.ravel() | np.full(2, {S})
            np.sign({L}) | two({F})
            {F}.astype(int) | {F} > {S} | np.hstack([{F}, {S}]) | np.roll({F}, {I}) | {M}[:, 0] | np.sort({F})
            np.round({F}, 1)
            abs({F}) | {L} * {F} | np.zeros_like({F}) | np.repeat({F}, 2) | np.tile({F}, {I}) | np.ravel({N})
            np.maximum({F}, {L})
            [{F}, {F}][0] | {F}.reshape(-1) | {S} if {B} else {F} | TABLE | TABLE[{I}:] | inner({F}) | {F}[{T}]
            {F}[tuple({L})]""",
        "M": """
            np.eye(2) | np.zeros((2, 2)) | np.array({N}) | np.outer({F}, {F}) | {M} + {M} | {M} * {S} | {M} @ {M} | {M}.T
            {F}.reshape(1, -1) | {F}[None, :] | np.array([[{S}, {I}], [{S}, {S}]]) | np.stack([{F}, {F}])
            np.vstack([{M}, {M}])
            np.linalg.inv({M}) | {M} if {B} else {M} | np.diag({F}) | {F}[:, None] | MATRIX | inner({M})""",
        "L": """
            [{S}, {S}] | [{I}, {I}, {S}] | [] | [x for x in {F}] | [x * {I} for x in {L} if {B}] | {L} + {L} | {L} * {I}
            list({F})
            {F}.tolist() | {N}[0] | sorted({F}) | list(map(float, {L})) | {L}[1:] | [i for i in range({I})] | list({T})
            {L}.copy()
            [a + b for a, b in zip({L}, {F})] | list({D}.values()) | list(reversed({L})) | [*{L}, {S}]
            {L} if {B} else {L} | two({L})
            {L} or {L} | [i * x for i, x in enumerate({L})] | list(map(two, {L})) | inner({L}) | [{L}, {T}][0]
            sum({N}, {L})""",
        "N": """
            [{L}, {L}] | [{L}] | [[x, {S}] for x in {F}] | [{F}, {F}] | [{T}, {L}] | {N} + {N} | [{L} for i in range({I})]
            two({N})
            list(zip({F}, {L})) | {N}[:1] | inner({N}) | list({D}.items()) | [[]] * {I}""",
        "T": """
            ({S}, {I}) | ({S}, {I}, {F}) | ({I}, {I}, {L}) | {F}.shape | tuple({L}) | ({S}, {I}, {N}) | (*{L}, {S}) | two({T})
            {T} if {B} else {T} | {T} + {T} | PAIR | inner({T})""",
        "D": """
            {'a': {S}} | {'a': {I}, 'b': {S}} | dict(a={S}, b={I}) | {'a': {S}, 1: {L}} | {D}.copy() | two({D})
            {D} if {B} else {D}
            GAINS | {D} | {D} | inner({D}) | {'a': {L}}""",
    }.items()
}
# {v} is a variable, {w} another, {e} what gives a value of their kind.
STATEMENTS = _choices("""
    {v} = {e} | {v} = {e} | {v} = {e} | {v} = {w} = {e} | {v} += {e} | {v} *= {e} | {v} -= {e} | {v} **= 2 | {v} |= {e}
    {v}.fill({S})
    {v}, {w} = {e}, {e} | {v}, *{w} = {e} | {v}, {w} = {e} | {v}[{I}] = {e} | {v}[{I}] += {e} | {v}['a'] = {e} | {v}[0] = {e}
    {v}.append({e}) | {v}.extend({e}) | {v}.insert(0, {e}) | {v}.append({S}) | {v}[:2] = {e} | {v}[{F} > 0] = {S}
    {v}[0] *= {e}
    assert {e} is not None | {v} += {v} | {v} *= {v} | {v}[0].append({e}) | {v} = {w} | {v}['b'] = {S} | {v}[{I}:] *= {S}
""")
LOOPS = _choices("""
    {I} in range({I}) | {S} in {F} | {S} in {L} | {L} in {N} | {I}, {S} in enumerate({L}) | {S}, {S} in zip({F}, {L})
    {F} in {M}
    {S} in {D}.values() | {I} in {D}
""")
NAMES = {"S": "s r", "I": "i n", "B": "b", "F": "f g z", "M": "m", "L": "k l", "N": "p", "T": "t", "D": "d"}
START = {
    "S": "obs[0]", "I": "3", "B": "True", "F": "obs * 2.0", "M": "np.eye(2)", "L": "[0.5, -1.0]", "N": "[[1.0], [obs[0], 2]]",
    "T": "(0.5, 1)", "D": "{'a': 0.5}",
}  # fmt: skip
PROGRAM = """
import math
import numpy as np

GAIN, COUNT = 0.5, 3
TABLE, MATRIX = np.arange(3.0), [[1.0, 2.0], [3.0, 4.0]]
GAINS, PAIR = {'a': 0.5, 'b': 2}, (0.25, [1.0, 2])


def one(x, y=DEFAULT):
    obs = np.ones(3)
ONE
    return x


def two(x):
    return TWO


def policy(obs):
BODY
    def inner(q):
        return INNER
REST
    return RESULT
"""


class Writer:
    """Writes one program; of each kind that is wanted, another is taken as often as ``noise`` says."""

    def __init__(self, rng: random.Random, noise: float = 0.06):
        self.rng, self.noise = rng, noise

    def name(self, kind: str) -> str:
        """A variable that begins as one of this kind."""
        return self.rng.choice(NAMES[self.rng.choice(list(NAMES)) if self.rng.random() < self.noise else kind].split())

    def expression(self, kind: str, depth: int = 3) -> str:
        """A way to write a value of a kind."""
        if self.rng.random() < self.noise:
            kind = self.rng.choice(list(NAMES))
        if depth == 0 or self.rng.random() < 0.35:
            return self.name(kind)
        return f"({self.filled(self.rng.choice(EXPRESSIONS[kind]), depth - 1)})"

    def filled(self, template: str, depth: int = 3) -> str:
        return re.sub(r"\{([A-Z])\}", lambda match: self.expression(match[1], depth), template)

    def statement(self, depth: int) -> list[str]:
        draw = self.rng.random()
        if depth and draw < 0.12:
            otherwise = ["else:", *self.block(depth - 1, 2)] if self.rng.random() < 0.5 else []
            return [f"if {self.expression('B')}:", *self.block(depth - 1, 2), *otherwise]
        if depth and draw < 0.24:
            targets, values = self.rng.choice(LOOPS).split(" in ")
            targets = re.sub(r"\{([A-Z])\}", lambda match: self.name(match[1]), targets)
            return [f"for {targets} in {self.filled(values, 2)}:", *self.block(depth - 1, 3)]
        kind = self.rng.choice(list(NAMES))
        line = self.rng.choice(STATEMENTS).replace("{v}", self.name(kind)).replace("{w}", self.name(kind))
        return [self.filled(line.replace("{e}", f"{{{kind}}}"))]

    def block(self, depth: int, statements: int) -> list[str]:
        return [f"    {line}" for _ in range(self.rng.randint(1, statements)) for line in self.statement(depth)]

    def program(self) -> str:
        start = [f"    {name} = {START[kind]}" for kind, names in NAMES.items() for name in names.split()]
        one = "\n".join([*start, "    s = x", "    f = y", *self.block(1, 3)])
        parts = {
            # A helper does not call the helpers.
            "ONE": one.replace("one(", "max(").replace("two(", "abs(").replace("inner(", "(").replace("map(two", "map(abs"),
            "DEFAULT": self.rng.choice(("1", "0.5", "True", "None", "-2", "not 0")),
            "TWO": self.rng.choice(("x", "x * 2", "[x]", "(x, 1)", "-x", "x + x", "x if x is None else x", "x and [x]")),
            "BODY": "\n".join([*start, *self.block(2, 6)]).replace("inner(", "("),
            "INNER": self.rng.choice(("q", "q * s", "q + n", "[q, i]", "k", "f", "q if b else q", "(q, t)", "p")),
            "REST": "\n".join(self.block(2, 5)),
            "RESULT": self.expression("F"),
        }
        return re.sub("|".join(rf"\b{name}\b" for name in parts), lambda match: parts[match[0]], PROGRAM)


def repaired(source: str, line: int) -> str:
    """The program without its statement in a line that raises, so that what follows is reached."""
    lines = source.split("\n")
    code = lines[line - 1]
    indent = code[: len(code) - len(code.lstrip())]
    instead = {"if": "if obs[0] > 0:", "for": "for s in obs:", "return": "return 1.0"}
    lines[line - 1] = indent + instead.get(code.split()[0], "pass")
    return "\n".join(lines)
