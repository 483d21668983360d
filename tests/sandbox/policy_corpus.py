"""Policies as data: HOSTILE ones that must come to nothing, LEGITIMATE ones that must play exactly as Python plays them.

A hostile program is "refused" by the check, or "bounded": it runs to its end or faults, soon and within little memory. Most
of the refused would write the file MARKER if they were run; the bounded would run for ever, fill the memory or end the process.
"""

import re


def programs(text: str, prefix: str = "") -> dict[str, tuple[str, str]]:
    """Name -> (what follows the colon of its headline, source)."""
    parts = re.split(r"^#: (\w+): (.*)\n", text, flags=re.MULTILINE)[1:]
    names = parts[::3]
    assert len(set(names)) == len(names)
    return {
        name: (word, prefix + body.strip("\n") + "\n") for name, word, body in zip(names, parts[1::3], parts[2::3], strict=True)
    }


WRITE = "open('MARKER', 'w').write('x')"
_ESCAPES = {
    "open_a_file": WRITE,
    "import_in_function": "__import__('os').system('touch MARKER')",
    "eval": "eval(\"open('MARKER', 'w')\")",
    "exec": "exec(\"open('MARKER', 'w')\")",
    "compile": "compile('1', '', 'eval')",
    "builtins_of_a_function": "abs.__self__.open('MARKER', 'w')",
    "builtins_through_name": "__builtins__['open']('MARKER', 'w')",
    "subclasses": "().__class__.__bases__[0].__subclasses__()[-1]",
    "globals_of_a_function": "policy.__globals__['np'].save('MARKER', obs)",
    "code_of_a_function": "policy.__code__.replace(co_code=b'')",
    "getattr": "getattr(np, 'sa' + 've')('MARKER', obs)",
    "setattr": "setattr(np, 'sin', 0)",
    "vars": "vars(np)['save']('MARKER', obs)",
    "globals": "globals()['np'].save('MARKER', obs)",
    "locals": "locals()",
    "type": "type('X', (), {})",
    "object": "object()",
    "super": "super()",
    "input": "input()",
    "breakpoint": "breakpoint()",
    "help": "help()",
    "print": "print(obs, file=np)",
    "memoryview": "memoryview(obs)",
    "bytes": "bytes(10**10)",
    "bytearray": "bytearray(10**10)",
    "numpy_save": "np.save('MARKER', obs)",
    "numpy_savetxt": "np.savetxt('MARKER', obs)",
    "numpy_load": "np.load('MARKER', allow_pickle=True)",
    "numpy_loadtxt": "np.loadtxt('/etc/passwd', dtype=str)",
    "numpy_genfromtxt": "np.genfromtxt('/etc/passwd')",
    "numpy_fromfile": "np.fromfile('/etc/passwd')",
    "numpy_tofile": "obs.tofile('MARKER')",
    "numpy_dump": "obs.dump('MARKER')",
    "numpy_dumps": "obs.dumps()",
    "numpy_memmap": "np.memmap('MARKER', mode='w+', shape=(10,))",
    "numpy_datasource": "np.lib.npyio.DataSource('.').open('MARKER', 'w')",
    "numpy_open_memmap": "np.lib.format.open_memmap('MARKER', 'w+', shape=(3,))",
    "numpy_f2py": "np.f2py.subprocess.run(['touch', 'MARKER'])",
    "numpy_ctypeslib": "np.ctypeslib.ctypes.CDLL(None).system(b'touch MARKER')",
    "numpy_inspect": "np.ma.core.inspect.os.system('touch MARKER')",
    "numpy_testing": "np.testing.rundocs('MARKER')",
    "numpy_sys": "np.sys.modules['os'].system('touch MARKER')",
    "numpy_core": "np._core.multiarray.fromfile('MARKER')",
    "numpy_ctypes_attribute": "obs.ctypes.data",
    "numpy_data": "obs.data",
    "numpy_base": "obs.base",
    "numpy_flags": "obs.flags",
    "numpy_setflags": "obs.setflags(write=True)",
    "numpy_strides": "np.lib.stride_tricks.as_strided(obs, (10**9,), (0,))",
    "numpy_frombuffer": "np.frombuffer(b'abc')",
    "numpy_fromfunction": "np.fromfunction(policy, (10,))",
    "numpy_fromiter": "np.fromiter(obs, float)",
    "numpy_vectorize": "np.vectorize(open)(['MARKER'])",
    "numpy_frompyfunc": "np.frompyfunc(open, 1, 1)(['MARKER'])",
    "numpy_apply_along_axis": "np.apply_along_axis(open, 0, ['MARKER'])",
    "numpy_piecewise": "np.piecewise(obs, [obs > 0], [open])",
    "numpy_outer_of_a_ufunc": "np.add.outer(obs, obs)",
    "numpy_reduce_of_a_ufunc": "np.add.reduce(obs)",
    "numpy_seterrcall": "np.seterrcall(open)",
    "numpy_random": "np.random.rand(3)",
    "numpy_random_state": "np.random.seed(0)",
    "numpy_char": "np.char.multiply('a', 10**10)",
    "numpy_object_dtype": "np.array([policy], dtype=object)",
    "numpy_object_dtype_text": "np.array([1], dtype='O')",
    "numpy_text_dtype": "np.zeros(3, 'U1000000000')",
    "numpy_text_dtype_later": "np.full_like(obs, 0, 'U1000000000')",
    "numpy_dtype_of_shape": "np.zeros_like(obs, '(10000,100000)f8')",
    "numpy_function_as_value": "[np.sin][0](1.0)",
    "numpy_module_as_value": "[np][0].save('MARKER', obs)",
    "numpy_underscore": "np.__version__",
    "numpy_nothing": "np.nothing(obs)",
    "math_factorial": "math.factorial(10**9)",
    "math_comb": "math.comb(10**6, 10**5)",
    "math_perm": "math.perm(10**6)",
    "text_format": "'{0.__class__}'.format(obs)",
    "text_format_map": "'{x}'.format_map({'x': obs})",
    "text_join": "','.join(['a'] * 9999)",
    "text_encode": "'a'.encode()",
    "text_f": "f'{obs.__class__}'",
    "text_f_width": "f'{1:{10**9}}'",
    "bytes_constant": "b'a' * 10**10",
    "complex_constant": "1j",
    "huge_integer_constant": "9" * 3000,
    "hash": "hash(obs)",
    "identity": "id(obs)",
    "str": "str(obs)",
    "chr": "chr(10**6)",
    "repr": "repr(obs)",
    "iter": "iter(obs)",
    "next": "next(x for x in obs)",
    "filter": "filter(open, ['MARKER'])",
    "callable_as_value": "list(map(open, ['MARKER']))",
    "map_of_a_value": "list(map(policy, [obs]))",
    "lambda_in_an_expression": "(lambda: open('MARKER', 'w'))()",
    "lambda_as_a_key": "sorted(obs, key=lambda x: open('MARKER', 'w'))",
    "walrus": "(x := 3)",
    "yield": "(yield 3)",
    "await": "[await x for x in obs]",
    "set": "{1, 2}",
    "set_comprehension": "{x for x in obs}",
    "dict_comprehension": "{x: x for x in obs}",
    "dict_of_a_dict": "{**{1: 2}}",
    "dict_of_a_dict_and_a_key": "{obs[0]: 1, **{1: 2}}",
    "ellipsis": "...",
    "ellipsis_in_a_list_in_an_index": "obs[[...]]",
    "stars": "np.sum(**{'a': obs})",
    "left_shift": "1 << 10**10",
    "right_shift": "5 >> 1",
    "out": "np.sin(obs, out=obs)",
    "where": "np.sin(obs, where=obs > 0)",
    "casting": "np.add(obs, obs, casting='unsafe')",
    "generator_attribute": "(x for x in obs).gi_frame",
    "method_of_a_function": "np.sin.__class__",
    "dunder_method": "obs.__class__",
    "array_function": "obs.__array_ufunc__(np.add, '__call__', obs)",
    "view": "obs.view('O')",
    "reduce": "obs.__reduce__()",
    "setstate": "obs.__setstate__(1)",
    "byteswap": "obs.byteswap()",
    "resize": "obs.resize(10**10)",
    "repeat_method": "obs.repeat(10**10)",
    "put": "obs.put(0, 1)",
    "sort_in_place": "TABLE.sort()",
    "pop": "[1].pop()",
    "builtin_as_value": "[max][0](obs)",
}
_EXPRESSIONS = "\n".join(
    f"#: {name}: refused\nTABLE = [1.0]\n\n\ndef policy(obs):\n    x = {code}\n    return [0.0]\n"
    for name, code in _ESCAPES.items()
)

# Characters that are better not written down as they are; Python reads the letters as those of "open" and "t".
_CHARACTERS = {"<0>": "\0", "<surrogate>": "\ud800", "<open>": "\uff4f\uff50\uff45\uff4e", "<t>": "\uff54", "<long>": "s" * 257}
_STATEMENTS = r"""
#: import_os: refused
import os
os.system("touch MARKER")
def policy(obs):
    return [0.0]
#: import_from_os: refused
from os import system as sin
def policy(obs):
    return [sin("touch MARKER")]
#: import_in_the_function: refused
def policy(obs):
    import subprocess
    subprocess.run(["touch", "MARKER"])
    return [0.0]
#: import_of_a_numpy_module: refused
import numpy.f2py as f
def policy(obs):
    return [f.subprocess.run(["touch", "MARKER"])]
#: import_of_a_numpy_function: refused
from numpy import save
def policy(obs):
    return [save("MARKER", obs)]
#: import_all: refused
from numpy import *
def policy(obs):
    return [save("MARKER", obs)]
#: import_relative: refused
from . import policy_worker
def policy(obs):
    return [0.0]
#: import_twice: refused
import math as m, numpy as m
def policy(obs):
    return [m.sin(1.0)]
#: typing_leads_to_sys: refused
import typing
def policy(obs):
    return [typing.sys.modules["os"].system("touch MARKER")]
#: name_from_typing: refused
from typing import sys
def policy(obs):
    return [sys.modules["os"].system("touch MARKER")]
#: call_at_the_top: refused
open("MARKER", "w").write("x")
def policy(obs):
    return [0.0]
#: loop_at_the_top: refused
for i in range(10**9):
    pass
def policy(obs):
    return [0.0]
#: main_at_the_top: refused
def policy(obs):
    return [0.0]
if __name__ == "__main__":
    policy([1.0])
#: default_value: refused
def policy(obs, x=open("MARKER", "w")):
    return [0.0]
#: default_value_mutable: refused
def policy(obs, memory=[]):
    memory.append(obs[0])
    return [len(memory)]
#: default_value_keyword_only: refused
def policy(obs, *, x=open("MARKER", "w")):
    return [0.0]
#: decorator: refused
@open("MARKER", "w").write
def policy(obs):
    return [0.0]
#: decorator_of_numpy: refused
@np.vectorize
def policy(obs):
    return [0.0]
#: class_body: refused
class X:
    open("MARKER", "w").write("x")
def policy(obs):
    return [0.0]
#: metaclass: refused
class X(metaclass=print):
    pass
def policy(obs):
    return [0.0]
#: while_true: refused
def policy(obs):
    while True:
        pass
#: try_except: refused
def policy(obs):
    try:
        return [obs[0] / 0]
    except Exception as error:
        return [error.__traceback__.tb_frame.f_globals["np"].save("MARKER", obs)]
#: with_open: refused
def policy(obs):
    with open("MARKER", "w") as f:
        f.write("x")
    return [0.0]
#: raise_an_error: refused
def policy(obs):
    raise SystemExit
#: assert_with_a_message: refused
def policy(obs):
    assert False, open("MARKER", "w").write("x")
#: delete: refused
def policy(obs):
    del obs
    return [0.0]
#: global_state: refused
N = 0
def policy(obs):
    global N
    N += 1
    return [N]
#: nonlocal_state: refused
def policy(obs):
    n = 0
    def f():
        nonlocal n
        n += 1
        return n
    return [f()]
#: asynchronous: refused
async def policy(obs):
    return [0.0]
#: generator_function: refused
def policy(obs):
    yield [0.0]
#: matching: refused
def policy(obs):
    match obs:
        case _:
            return [0.0]
#: attribute_assigned: refused
def policy(obs):
    np.sin = obs
    return [0.0]
#: attribute_of_an_array_assigned: refused
def policy(obs):
    obs.shape = (10**9,)
    return [0.0]
#: attribute_in_a_loop: refused
def policy(obs):
    for np.pi in obs:
        pass
    return [0.0]
#: attribute_augmented: refused
def policy(obs):
    obs.shape += (1,)
    return [0.0]
#: attribute_in_a_comprehension: refused
def policy(obs):
    return [0.0 for obs.shape in [(1,)]]
#: attribute_unpacked: refused
def policy(obs):
    np.sin, x = 1, 2
    return [x]
#: numpy_assigned: refused
np = 3
def policy(obs):
    return [0.0]
#: numpy_as_a_parameter: refused
def policy(np):
    return np.save("MARKER", 1)
#: function_assigned: refused
def f(x):
    return x
def policy(obs):
    f = obs
    return [f(0)]
#: function_passed_on: refused
def f(x):
    return x
def g(h):
    return h(1)
def policy(obs):
    return [g(f)]
#: function_returned: refused
def f():
    def g():
        return 1.0
    return g
def policy(obs):
    return [f()()]
#: function_twice: refused
def f(x):
    return x
def f(x):
    return [x]
def policy(obs):
    return f(obs[0])
#: function_named_as_a_builtin: refused
def len(x):
    return 10**9
def policy(obs):
    return [len(obs)]
#: recursion: refused
def policy(obs):
    return policy(obs)
#: recursion_of_two: refused
def f(x):
    return g(x)
def g(x):
    return f(x)
def policy(obs):
    return [f(obs[0])]
#: recursion_of_a_lambda: refused
f = lambda n: f(n - 1) + f(n - 2)
def policy(obs):
    return [f(60)]
#: recursion_through_map: refused
def f(x):
    return list(map(f, [x, x]))
def policy(obs):
    return f(obs)
#: variable_arguments: refused
def f(*a, **k):
    return a
def policy(obs):
    return [f(1)[0]]
#: dunder_name: refused
def policy(obs):
    __x = 1
    return [__x]
#: dunder_function: refused
def __getattr__(name):
    return 1
def policy(obs):
    return [0.0]
#: name_not_ascii: refused
def policy(obs):
    naïve = 1
    return [naïve]
#: name_that_python_normalizes: refused
def policy(obs):
    return [<open>("MARKER", "w")]
#: attribute_that_python_normalizes: refused
def policy(obs):
    return obs.<t>ofile("MARKER")
#: no_policy: refused
def controller(obs):
    return [0.0]
#: policy_is_no_function: refused
policy = 3
#: policy_of_two: refused
def policy(obs, info):
    return [0.0]
#: policy_of_none: refused
def policy():
    return [0.0]
#: policy_in_a_function: refused
def make():
    def policy(obs):
        return [0.0]
    return policy
#: undefined_name: refused
def policy(obs):
    return [gain * obs[0]]
#: syntax_error: refused
def policy(obs)
    return [0.0]
#: prose: refused
Here is the policy that you asked for:
#: tabs: refused
def policy(obs):
	x = 1
        return [x]
#: null_byte: refused
def policy(obs):
    return [0.0]  # <0>
#: lone_surrogate: refused
def policy(obs):
    return ["<surrogate>"]
#: type_parameters: refused
def policy[T: open("MARKER", "w")](obs):
    return [0.0]
#: unpacking_into_elements: bounded
def policy(obs):
    a = [[1], 2]
    a[0][0], b = 1, 2
    return [b]
#: import_called_dict: refused
from numpy import sin as dict
def policy(obs):
    return dict(obs, where=obs > 99)
#: import_called_dict_of_a_shape: refused
from numpy import zeros_like as dict
def policy(obs):
    return dict(obs, shape=3 * 10**7)
#: import_and_def_of_one_name: refused
from numpy import full_like
def full_like(x, shape):
    return x
def policy(obs):
    return full_like(obs, 0.0, shape=2 * 10**7)
#: def_and_import_of_one_name: refused
def sqrt(x):
    return 7.0
from math import sqrt
def policy(obs):
    return [sqrt(4.0)]
#: dtype_in_a_dict: refused
def policy(obs):
    return list(map(float, [dict(dtype=int)['dtype']]))
#: dtype_to_a_helper: refused
def f(dtype):
    return dtype
def policy(obs):
    return [f(dtype=np.float32)]
#: differences_without_end: refused
def policy(obs):
    return np.diff(obs, 10**15)
#: differences_of_differences: refused
def policy(obs):
    return np.diff(obs, n=10**15)
#: long_string: refused
def policy(obs):
    s = '<long>'
    return [len(s[1:])]
#: starred_name_of_a_loop: refused
def policy(obs):
    for a, *b in [range(10000)] * 8:
        pass
    return [0.0]
#: dtype_of_a_call: refused
def policy(obs):
    return np.zeros(1, dtype=np.ones(1).dtype)
#: map_of_an_import: refused
from numpy import zeros as abs
def policy(obs):
    return list(map(abs, [10**9]))
"""

_GENERATED = {
    "very_long": "def policy(obs):\n    return [0.0]\n" + "#" * 100_000,
    "very_many_nodes": "def policy(obs):\n" + "    x = obs[0] + 1\n" * 5000 + "    return [x]\n",
    "deep_minus": "def policy(obs):\n    return [" + "-" * 50_000 + "1]\n",
    "deep_not": "def policy(obs):\n    return [" + "not " * 14_000 + "1]\n",
    "deep_attributes": "def policy(obs):\n    return obs" + ".T" * 25_000 + "\n",
    "deep_sum": "def policy(obs):\n    return [" + "1+" * 29_000 + "1]\n",
    "deep_brackets": "def policy(obs):\n    return " + "(" * 25_000 + "1" + ")" * 25_000 + "\n",
    "deep_lists": "def policy(obs):\n    return " + "[" * 150 + "1" + "]" * 150 + "\n",
    "deep_indexes": "def policy(obs):\n    return obs" + "[0]" * 200 + "\n",
    "deep_calls": "def policy(obs):\n    return " + "abs(" * 190 + "1" + ")" * 190 + "\n",
    "deep_conditions": "def policy(obs):\n    return [" + "1 if obs[0] else " * 2000 + "1]\n",
    "deep_else_if": "def policy(obs):\n    if 1: return [1]\n" + "    elif 1: return [1]\n" * 2000 + "    return [0]\n",
    "chain_of_helpers": "".join(f"def f{i}():return f{i - 1}()\n" for i in range(1299, 0, -1))
    + "def f0():return 1\ndef policy(obs):return [f1299()]\n",
    "deep_ifs": "def policy(obs):\n" + "".join(" " * i + "if 1:\n" for i in range(1, 99)) + " " * 99 + "return [0]\n",
}

_REPEATED = {
    "<CALLED>": "\n".join(f"A{i} = f(Z)" for i in range(60)),
    "<SINCS>": f"({'np.sinc(z), ' * 900})",
    "<MORE>": "z + 1.0, " * 20,
    "<NEGATED>": "-z, " * 150,
    "<ZEROS>": "0, " * 8000,
    "<SLICES>": "t[1:], " * 20,
    "<STARS>": ", ".join(["*r"] * 1000),
    "<VIEWS>": "(-z)[:1], " * 100,
}
_BOUNDED = r"""
#: integer_of_an_array: bounded
def policy(obs):
    x = np.full(1, -1e300).astype(int).item() - 1
    for i in range(30):
        x = x * x
    return [0.0]
#: integer_of_an_array_in_a_list: bounded
def policy(obs):
    x = np.full(1, -1e300).astype(int).tolist()[0] - 1
    z = np.array([x, 0])
    z[0] = z
    z[1] = [1.5] * 4500
    return [0.0]
#: start_of_enumerate: bounded
def policy(obs):
    n = 0
    for v in map(int, [1e300]):
        for i, x in enumerate([0.0], v):
            n = i
    for i in range(30):
        n = n * 1
    z = np.array([n, 0])
    for k in range(30):
        z = z * z
    return [z.size]
#: start_of_enumerate_from_numpy: bounded
def policy(obs):
    n = 0
    for i, x in enumerate([0.0], np.int64(2**62) + np.int64(2**62 - 1)):
        n = -i - 2
    z = np.array([n, 0])
    for k in range(30):
        z = z * z
    return [z.size]
#: list_that_reaches_itself_as_it_grows: bounded
def policy(obs):
    L = [(1.0, 1.0)]
    M = [(1.0, 1.0)]
    N = L if obs[0] > 1e9 else M
    L.append((M, 1.0))
    e = L[1][0]
    e.append((0.0, 3))
    n = M[1][1]
    for i in range(30):
        n = n * n
    return [0.0 if n > 0.0 else 1.0]
#: variable_called_dtype: bounded
def policy(obs):
    L = [1.0]
    x = [dtype.append(3) for dtype in [L]]
    n = L[1]
    for i in range(30):
        n = n * n
    return [0.0 if n > 0.0 else 1.0]
#: broadcast_of_a_variable_called_dtype: bounded
def policy(obs):
    z = np.zeros((10000, 1))
    y = np.zeros(10000)
    return [np.add(y, dtype)[0][0] for dtype in [z]]
#: starred_default_of_get: bounded
def policy(obs):
    L = [1.0]
    d = {'a': 1.0}
    e = d.get(*[tuple([1.0]), L])
    e.append(3)
    n = L[1]
    for i in range(30):
        n = n * n
    return [0.0 if n > 0.0 else 1.0]
#: slice_as_a_key: bounded
def policy(obs):
    a = (1.0,)
    for i in range(60):
        a = (a, a)
    d = {}
    return [d[a:a]]
#: range_as_an_index: bounded
def policy(obs):
    z = np.zeros(256)
    z = z[range(-256, 256)]
    z = z[range(-512, 512)]
    z = z[range(-1024, 1024)]
    z = z[range(-2048, 2048)]
    z = z[range(-4096, 4096)]
    k = ()
    for i in range(90):
        k = (k, <NEGATED>)
    return [z.size]
#: select_of_many_axes: bounded
def policy(obs):
    conditions = [np.zeros((1,) * i + (42,) + (1,) * (4 - i)) > 1 for i in range(5)]
    return [np.select(conditions, [1.0] * 5).size]
#: select_of_a_long_default: bounded
def policy(obs):
    return [np.select([np.zeros((999, 1)) > 1], [0.0], [1.0] * 9999).size]
#: unpacked_ranges: bounded
def policy(obs):
    r = range(10000)
    k = ()
    for i in range(3000):
        a, *b = r
        k = (k, b)
    return [0.0]
#: slices_of_a_long_tuple: bounded
def policy(obs):
    t = (<ZEROS>)
    k = ()
    for i in range(500):
        k = (k, <SLICES>)
    return [0.0]
#: array_by_a_long_literal: bounded
def policy(obs):
    z = obs[[<ZEROS>]]
    k = ()
    for i in range(90):
        k = (k, <NEGATED>)
    return [0.0]
#: index_of_many_slices: bounded
def policy(obs):
    return obs[0:1, <ZEROS>]
#: starred_ranges: bounded
def f(a):
    return a
def policy(obs):
    r = range(10000)
    return f(<STARS>)
#: cycle_in_place: bounded
def policy(obs):
    z = np.zeros(10000)
    a = [<VIEWS>]
    a += [a]
    return [0.0]
#: cycle_in_a_dict_in_place: bounded
def policy(obs):
    z = np.zeros(10000)
    d = {'a': [<VIEWS>]}
    d |= [('b', d)]
    return [0.0]
#: enumerated_while_it_grows: bounded
def policy(obs):
    a = [0.0]
    for i, x in enumerate(a):
        a.append(x)
    return a
#: mapped_while_it_grows: bounded
def f(a):
    a.append(1.0)
    return 0.0
def policy(obs):
    a = [obs[0]]
    for x in map(float, a):
        f(a)
    return a
#: builtin_name_from_another_function: bounded
def f():
    pow = 0
    return pow
def policy(obs):
    p = pow
    return list(map(p, [7], [10**15]))
#: nested_loops: bounded
def policy(obs):
    n = 0
    for i in range(9999):
        for j in range(9999):
            for k in range(9999):
                n += 1
    return [n]
#: huge_range: bounded
def policy(obs):
    for i in range(10**18):
        pass
    return [0.0]
#: nested_comprehensions: bounded
def policy(obs):
    return [sum([i * j * k for i in range(9999) for j in range(9999) for k in range(9999)])]
#: nested_generators: bounded
def policy(obs):
    return [sum(i * j * k for i in range(9999) for j in range(9999) for k in range(9999))]
#: generator_in_a_test: bounded
def policy(obs):
    return [any(i > 1e9 for i in (j for j in range(9999) for k in range(9999)))]
#: list_that_grows_in_its_loop: bounded
def policy(obs):
    a = [1]
    for x in a:
        a.append(x)
    return [len(a)]
#: map_that_appends: bounded
a = [1]
def f(x):
    a.append(x)
    return x
def policy(obs):
    return [len(list(map(f, a)))]
#: squares: bounded
def policy(obs):
    n = 3
    for i in range(60):
        n = n * n
    return [n]
#: squares_in_place: bounded
def policy(obs):
    n = 3
    for i in range(60):
        n *= n
    return [n]
#: power_tower: bounded
def policy(obs):
    return [9**9**9**9]
#: power_by_function: bounded
def policy(obs):
    return [pow(9, 10**15)]
#: power_in_place: bounded
def policy(obs):
    n = 9
    n **= 10**15
    return [n]
#: power_by_map: bounded
def policy(obs):
    p = [int(x) for x in map(abs, [9, 10**15])]
    return [p[0] ** p[1]]
#: power_modulo: bounded
def policy(obs):
    return [pow(9, 10**15, 7)]
#: fibonacci: bounded
def policy(obs):
    a, b = 1, 1
    for i in range(9999):
        a, b = b, a + b
    return [a]
#: round_to_huge_digits: bounded
def policy(obs):
    return [round(7, -(10**15))]
#: round_up_to_huge_digits: bounded
def policy(obs):
    return [round(7, 10**15)]
#: sum_doubles: bounded
def policy(obs):
    a = [1]
    for i in range(9999):
        a = [sum(a), sum(a)]
    return a
#: integer_of_a_float: bounded
def policy(obs):
    n = int(1e308)
    for i in range(30):
        n = n * n
    return [n]
#: integer_of_text: bounded
def policy(obs):
    n = int("9" * 4000)
    return [n * n]
#: floor_of_a_float: bounded
def policy(obs):
    n = math.floor(1e308)
    for i in range(30):
        n = n * n
    return [n]
#: maximum_of_a_dict_is_the_dict: bounded
def policy(obs):
    x = np.max([{0: 3}])
    n = x[0]
    for i in range(60):
        n = n * n
    return [n]
#: sum_of_lists_aliases: bounded
def policy(obs):
    a = [1.0]
    s = sum([[a]], [])
    s[0].append(3)
    n = a[1]
    for i in range(60):
        n = n * n
    return [n]
#: take_aliases: bounded
def policy(obs):
    d = {"a": 1.0}
    e = np.take([d], 0)
    e["b"] = 3
    n = d["b"]
    for i in range(60):
        n = n * n
    return [n]
#: round_of_a_float_or_array: bounded
def policy(obs):
    x = 3.2 if obs[0] < 1e9 else obs
    n = round(x)
    for i in range(60):
        n = n * n
    return [n]
#: empty_list_is_of_no_kind: bounded
def policy(obs):
    n = 1.0
    n = sum([], 3)
    for i in range(60):
        n = n * n
    return [n]
#: sum_of_a_named_generator: bounded
def policy(obs):
    n = np.sum(a=(i for i in [3]))
    for i in range(60):
        n = n * n
    return [n]
#: list_doubles: bounded
def policy(obs):
    a = [1.0]
    for i in range(60):
        a = a + a
    return [len(a)]
#: list_doubles_in_place: bounded
def policy(obs):
    a = [1.0]
    for i in range(60):
        a += a
    return [len(a)]
#: list_extended_by_itself: bounded
def policy(obs):
    a = [1.0]
    for i in range(60):
        a.extend(a)
    return [len(a)]
#: list_times: bounded
def policy(obs):
    return [len([1.0] * 10**10)]
#: list_times_int32: bounded
def policy(obs):
    return [len([1.0] * 8192 * np.int32(2**19))]
#: text_times: bounded
def policy(obs):
    return [len("a" * 10**10)]
#: text_of_an_array_times: bounded
def policy(obs):
    return [len(np.array(["abcd"])[0] * 10**9)]
#: text_percent: bounded
def policy(obs):
    return [len("%1000000000d" % 1)]
#: tuple_times: bounded
def policy(obs):
    return [len((1.0,) * 10**10)]
#: tuple_from_linspace_times: refused
def policy(obs):
    t = np.linspace(0, 1, 5, True, True)
    for i in range(5):
        t = t * 1000
    return [len(t)]
#: tuple_from_average_times: refused
def policy(obs):
    t = np.average(obs, 0, obs, True)
    for i in range(5):
        t = t * 1000
    return [len(t)]
#: nested_sharing: bounded
def policy(obs):
    a = [1.0]
    for i in range(60):
        a = [a, a, a, a]
    return a
#: nested_sharing_compared: bounded
def policy(obs):
    a = [1.0]
    b = [1.0]
    for i in range(60):
        a = [a, a]
        b = [b, b]
    return [a == b]
#: deep_nesting: bounded
def policy(obs):
    a = (1.0,)
    for i in range(15000):
        a = (a,)
    return [a == (a,)]
#: deep_nesting_as_a_key: bounded
def policy(obs):
    a = (1.0,)
    for i in range(15000):
        a = (a,)
    d = {}
    d[a] = 1.0
    return [d.get(a)]
#: list_in_itself: bounded
def policy(obs):
    a = [1.0]
    a.append(a)
    return np.array(a)
#: list_in_itself_compared: bounded
def policy(obs):
    a = [1.0]
    b = [1.0]
    a[0] = b
    b[0] = a
    return [a == b]
#: slice_assigned: bounded
def policy(obs):
    a = [1.0, 2.0]
    for i in range(60):
        a[1:1] = a
    return [len(a)]
#: dict_that_grows: bounded
def policy(obs):
    d = {}
    for i in range(9999):
        for j in range(9999):
            d[i, j] = [1.0] * 9999
    return [len(d)]
#: ranges_as_rows: bounded
def policy(obs):
    return np.array([range(10000)] * 9000)
#: ranges_returned: bounded
def policy(obs):
    return [range(10000)] * 9000
#: range_diagonal: bounded
def policy(obs):
    return np.diag(range(10000))
#: range_tiled: bounded
def policy(obs):
    return np.tile(range(10000), 10000)
#: zeros_huge: bounded
def policy(obs):
    return np.zeros(10**10)
#: zeros_huge_shape: bounded
def policy(obs):
    return np.zeros((10**5, 10**5))
#: zeros_like_of_a_shape: refused
def policy(obs):
    return np.zeros_like(obs, shape=10**10)
#: ones_like_of_a_shape: refused
def policy(obs):
    return np.ones_like(obs, None, "K", True, 10**10)
#: arange_huge: bounded
def policy(obs):
    return np.arange(0, 1, 1e-10)
#: arange_of_an_array: bounded
def policy(obs):
    return np.arange(0, np.asarray(1e10))
#: linspace_huge: bounded
def policy(obs):
    return np.linspace(0, 1, 10**10)
#: linspace_named: bounded
def policy(obs):
    return np.linspace(0.0, stop=np.zeros(9000), num=9000)
#: eye_huge: bounded
def policy(obs):
    return np.eye(10**5)
#: diag_huge: bounded
def policy(obs):
    return np.diag(np.zeros(9999))
#: tril_of_a_row: refused
def policy(obs):
    return np.tril(np.zeros(10000))
#: repeat_huge: bounded
def policy(obs):
    return np.repeat(obs, 10**10)
#: tile_huge: bounded
def policy(obs):
    return np.tile(obs, (10**5, 10**5))
#: broadcast_huge: bounded
def policy(obs):
    return np.broadcast_to(obs, (10**9, obs.size)) + 1.0
#: outer_huge: bounded
def policy(obs):
    z = np.zeros(9999)
    return np.outer(z, z)
#: broadcast_by_none: bounded
def policy(obs):
    z = np.zeros(9999)
    return z[:, None] * z[None, :]
#: broadcast_by_reshape: bounded
def policy(obs):
    z = np.zeros(9999)
    return z.reshape(-1, 1) * z
#: broadcast_by_truth_value: bounded
def policy(obs):
    z = np.zeros(9999)
    x = z[True]
    return x * x.T
#: broadcast_by_tuple_of_truth_values: bounded
def policy(obs):
    z = np.zeros(9999)
    x = z[tuple([True])]
    return x * x.T
#: broadcast_by_starred_truth_value: bounded
def policy(obs):
    z = np.zeros(9999)
    x = z[(*[obs[0] > -1e9],)]
    return x * x.T
#: broadcast_by_empty_list: bounded
def policy(obs):
    z = 1.0 if obs[0] > 1e9 else np.atleast_2d(np.zeros(9999), [])[0]
    return z + z.T
#: concatenate_doubles: bounded
def policy(obs):
    z = obs
    for i in range(60):
        z = np.concatenate([z, z])
    return z
#: append_doubles: bounded
def policy(obs):
    z = obs
    for i in range(60):
        z = np.append(z, z)
    return z
#: diff_grows: refused
def policy(obs):
    z = obs
    for i in range(60):
        z = np.diff(z, 1, -1, z, z)
    return z
#: index_grows: bounded
def policy(obs):
    z = obs
    for i in range(60):
        z = z[[0] * len(z) + list(range(len(z)))]
    return z
#: convolve_grows: bounded
def policy(obs):
    z = np.zeros(9999)
    for i in range(9999):
        z = np.convolve(z, z)
    return z
#: text_arrays: bounded
def policy(obs):
    a = np.full(10000, "a" * 10000)
    b = np.full(10000, "a" * 10000)
    return [len(a)]
#: text_arrays_double: bounded
def policy(obs):
    x = np.ravel(["a"])
    for i in range(60):
        x = x + x
    return [0.0]
#: text_arrays_double_too: refused
def policy(obs):
    x = np.full(1, "a")
    for i in range(60):
        x = x + x
    return [0.0]
#: dimensions_grow: bounded
def policy(obs):
    x = obs
    for i in range(999):
        x = np.expand_dims(x, 0)
    return x
#: inverse_of_large: bounded
def policy(obs):
    m = np.eye(100) + 0.1
    for i in range(9999):
        m = np.linalg.inv(m)
    return m
#: solve_of_large: bounded
def policy(obs):
    return np.linalg.solve(a=np.ones((9999, 1, 1)), b=np.ones((1, 1, 9999)))
#: large_arrays_late: bounded
def policy(obs):
    z = obs
    kept = 0
    for i in range(200):
        if i == 0:
            z = np.full(10000, 0.5)
        kept = (kept, z + 1.0, <MORE>)
    return [0.0]
#: slow_remainders: bounded
def policy(obs):
    z = np.full(511, 1e308)
    y = np.full(511, 3e-308)
    for i in range(700):
        (z % y, z % y, z % y, z % y, z % y, z % y, z % y, z % y, z % y, z % y, z % y, z % y, z % y, z % y, z % y, z % y, z % y)
    return [0.0]
#: slow_remainders_of_large: bounded
def policy(obs):
    z = np.full(10000, 1e308)
    y = np.full(10000, 3e-308)
    for i in range(30):
        z % y
        np.fmod(z, y)
        z // y
    return [0.0]
#: slow_sums: bounded
def policy(obs):
    x = obs[0]
    a = [x for i in range(4500)]
    for i in range(600):
        (sum(a), sum(a), sum(a), sum(a), sum(a), sum(a), sum(a), sum(a), sum(a), sum(a), sum(a), sum(a), sum(a), sum(a))
    return [0.0]
#: slow_only_far_out: bounded
def policy(obs):
    if abs(obs[0]) > 1e6:
        for i in range(9999):
            for j in range(9999):
                obs = np.sin(obs)
    return obs
#: memory_between_calls: bounded
kept = []
def policy(obs):
    kept.append(np.zeros(10000) + 1.0)
    return [0.0]
#: truth_value_as_a_default: bounded
def f(z, i=not 0):
    return z[i]
def policy(obs):
    w = f(np.zeros(9999))
    return w * w.T
#: maximum_of_a_view_is_the_view: bounded
def policy(obs):
    d = {"a": 3}
    x = np.max(d.values())
    for v in x:
        n = v
    for i in range(60):
        n = n * n
    return [n]
#: no_elements_in_a_long_array: bounded
def policy(obs):
    return np.zeros((0, 3 * 10**8)).sum(axis=0)
#: no_elements_in_a_wide_product: bounded
def policy(obs):
    z = np.zeros((0, 9999))
    return z.T @ z
#: no_elements_reshaped: bounded
def policy(obs):
    return obs[:0].reshape(0, 10**9).any(axis=0)
#: slow_exact_sums: bounded
def policy(obs):
    z = 10.0 ** (np.arange(500) * 1.2 - 300) * np.sin(np.arange(500))
    for i in range(700):
        (math.fsum(z), math.fsum(z), math.fsum(z), math.fsum(z), math.fsum(z), math.fsum(z), math.fsum(z), math.fsum(z))
    return [0.0]
#: slow_polynomials: bounded
def policy(obs):
    z = np.full(255, 0.5)
    for i in range(5000):
        np.polyval(z, z)
    return [0.0]
#: slow_sums_of_arrays: bounded
def policy(obs):
    z = np.full(511, 1.5)
    for i in range(1500):
        (sum(z), max(z), min(z), any(z), all(z), sum(z), max(z), min(z))
    return [0.0]
#: slow_remainders_by_function: bounded
def policy(obs):
    z = np.full(256, 1e308)
    y = np.full(256, 3e-308)
    for i in range(6000):
        np.fmod(z, y)
    return [0.0]
#: slow_remainders_of_an_angle: refused
def policy(obs):
    z = np.full(256, 1e308)
    for i in range(7000):
        np.interp(z, z, z, period=3e-308)
    return [0.0]
#: list_that_a_helper_grows_in_its_loop: bounded
def f(a):
    a.append(1.0)
def policy(obs):
    z = np.full(256, 0.5)
    a = [1.0]
    for x in a:
        f(a)
        <SINCS>
    return [0.0]
#: list_that_grows_in_its_comprehension: bounded
def policy(obs):
    z = np.full(256, 0.5)
    a = [1.0]
    b = [(a.append(1.0), <SINCS>) for x in a]
    return [0.0]
#: list_that_grows_at_the_top: bounded
z = np.full(256, 0.5)
a = [1.0]
b = [(a.append(1.0), <SINCS>) for x in a]
def policy(obs):
    return [0.0]
#: memory_in_a_dict_between_calls: bounded
kept = {"n": 0.0}
def policy(obs):
    k = kept
    k |= {"n": k["n"] + 1.0}
    return [k["n"]]
#: memory_in_a_made_list_between_calls: bounded
def make():
    return [0.0]
kept = make()
def policy(obs):
    kept.append(np.zeros(9999) + 1.0)
    return [len(kept)]
#: powers_of_text: bounded
def policy(obs):
    s = "0" * 4200 + "1"
    for i in range(2000):
        (int(s), int(s), int(s), int(s), int(s), int(s), int(s), int(s))
    return [0.0]
#: garbage_in_cycles: bounded
def policy(obs):
    z = np.zeros(10000)
    a = [-z, <NEGATED>]
    a.append(a)
    return [0.0]
#: garbage_in_cycles_of_generators: bounded
def policy(obs):
    z = np.zeros(10000)
    a = [-z, <NEGATED>]
    a.append((a for x in obs))
    return [0.0]
#: garbage_in_a_generator_of_itself: bounded
def policy(obs):
    z = np.zeros(10000)
    a = [-z, <NEGATED>]
    g = obs
    g = ((a, g) for x in obs)
    return [0.0]
#: nothing_returned: bounded
def policy(obs):
    obs[0] = 1.0
#: text_returned: bounded
def policy(obs):
    return "x"
#: dict_returned: bounded
def policy(obs):
    return {"x": 1.0}
#: generator_returned: bounded
def policy(obs):
    return (x for x in obs)
#: ragged_returned: bounded
def policy(obs):
    return [[1.0], [1.0, 2.0]]
#: huge_integer_returned: bounded
def policy(obs):
    return list(map(int, [1e308]))
#: complex_returned: bounded
def policy(obs):
    return [(-8.0) ** 0.5]
#: not_finite_returned: bounded
def policy(obs):
    return [math.inf - math.inf]
#: many_dimensions_returned: bounded
def policy(obs):
    a = 1.0
    for i in range(70):
        a = [a]
    return a
#: objects_by_a_method: bounded
def policy(obs):
    z = np.full(9999, 2**61 + 1)
    for i in range(100):
        z.cumprod(0, 'O')
    return [z.prod(None, 'O')]
#: many_decimals: bounded
def policy(obs):
    for i in range(1000):
        np.round(obs, 2**31 - 1)
    return obs
#: many_decimals_by_name: bounded
def policy(obs):
    for i in range(1000):
        np.around(decimals=-2**31, a=obs)
    return obs
#: many_decimals_of_a_method: bounded
def policy(obs):
    n = 10**9
    for i in range(1000):
        obs.round(-n)
    return [obs[0].round(n)]
#: rows_picked_many_times: bounded
def policy(obs):
    m = np.zeros((1, 9999))
    i = np.zeros(9999, dtype=int)
    return [(m[i], m[i], m[i])[0].size]
#: rows_picked_by_a_list: bounded
def policy(obs):
    m = np.zeros((1, 9999))
    i = [0] * 9999
    return [(m[i], m[i], m[i])[0].size]
#: picked_by_a_column_and_a_row: bounded
def policy(obs):
    m = np.zeros((2, 2))
    i = np.zeros((4999, 1), dtype=int)
    return [(m[i, i.T], m[i, i.T])[0].size]
#: added_to_what_is_picked: bounded
def policy(obs):
    m = np.zeros((1, 9999))
    i = np.zeros(9999, dtype=int)
    m[i] += 1.0
    return [m[0, 0]]
#: lists_of_empty_strings: bounded
def policy(obs):
    a = [''] * 9999
    b = [a] * 255
    for i in range(9999):
        c = b + []
    return [len(c)]
#: lists_of_empty_ranges: bounded
def policy(obs):
    a = [range(0)] * 9999
    for i in range(9999):
        c = list(zip(*[a] * 250))
    return [len(c)]
#: empty_strings_kept: bounded
def policy(obs):
    a, k = [''] * 9999, ()
    for i in range(700):
        k = (k, a[:], a[:], a[:], a[:], a[:], a[:], a[:], a[:], a[:], a[:])
    return [len(k)]
#: picked_by_a_long_list: bounded
IDX = [0 for i in range(9998)]
def policy(obs):
    z, k = obs[IDX], ()
    for i in range(1000):
        k = (k, <MORE>z)
    return [len(k)]
#: copies_of_a_long_list: bounded
IDX = [0 for i in range(9998)]
def policy(obs):
    k = ()
    for i in range(700):
        k = (k, IDX[:], IDX[:], IDX[:], IDX[:], IDX[:], IDX[:], IDX[:], IDX[:], IDX[:], IDX[:])
    return [len(k)]
#: copies_of_a_list_that_grew: bounded
def policy(obs):
    a, k = [], ()
    for i in range(9998):
        a.append(0)
    for i in range(700):
        k = (k, a[:], a[:], a[:], a[:], a[:], a[:], a[:], a[:], a[:], a[:])
    return [len(k)]
#: map_outside_functions: bounded
E = [''] * 9999
Z = np.zeros(511)
def f(x):
    z = Z
    return (<NEGATED>z)
X = list(map(f, E))
def policy(obs):
    return [len(X)]
#: helpers_called_outside_functions: bounded
Z = np.zeros(9999)
def f(z):
    return (<NEGATED>z)
<CALLED>
def policy(obs):
    return [len(A0)]
#: keys_of_one_hash: bounded
def policy(obs):
    d, n = {}, 0
    keys = [(a, b, c, e, f, g, h, i, j, k, l, m) for a in (-1, -2) for b in (-1, -2) for c in (-1, -2) for e in (-1, -2)
            for f in (-1, -2) for g in (-1, -2) for h in (-1, -2) for i in (-1, -2) for j in (-1, -2) for k in (-1, -2)
            for l in (-1,) for m in (-1,)]
    for key in keys:
        d[key] = 1
    return [len(d)]
#: keys_of_one_hash_in_a_call: bounded
def policy(obs):
    pairs = [((a, (b, (c, e))), 1) for a in (-1, -2) for b in (-1, -2) for c in (-1, -2) for e in (-1, -2)]
    return [len(dict(pairs)), dict(pairs).get((-1, (-1, (-1, -1))))]
#: large_matrices_by_name: bounded
def policy(obs):
    m = np.eye(100)
    for i in range(1000):
        np.linalg.pinv(a=m)
    return [0.0]
#: steers_the_terminal: bounded
def policy(obs):
    assert obs[0] > 1e9, '\x1b]0;owned\x07\x1b[2J\ud800'
    return [0.0]
"""


def _star_storm(call: str) -> str:
    body = call.format(", ".join(["*a"] * 2900))
    return f"def f(a):\n    return a\ndef policy(obs):\n    a = list(range(10000))\n    return {body}\n"


def _chain(n: int) -> str:
    return "[0]" if n == 0 else f"[0] < [{_chain(n - 1)}] < [9]"


_HELPERS = "".join(f"def f{i}(x):\n    return f{i - 1}(x) + f{i - 1}(x)\n" for i in range(1, 28))
_WIDE = "def policy(obs):\n    t = ({})\n    u = ({})\n    v = ({})\n    return [1.0]\n"
_GENERATED_BOUNDED = {
    "a_chain_of_names": "def policy(obs):\n"
    + "".join(f"    x{i} = x{i + 1}\n" for i in range(1900))
    + "    x1900 = 1.0\n    return [1.0]\n",
    "zips_of_zips": "def policy(obs):\n    a = [1.0]\n"
    + "".join(f"    {x} = zip({', '.join(y * 1000)})\n" for x, y in ("pa", "qp", "rq", "sr"))
    + "    return [0.0]\n",
    "tree_of_helpers": "def f0(x):\n    return x\n" + _HELPERS + "def policy(obs):\n    return [f27(obs[0])]\n",
    "tree_of_generators": "def policy(obs):\n    g0 = (x for x in obs)\n"
    + "".join(f"    g{i} = (x for y in range(100) for x in list(g{i - 1}))\n" for i in range(1, 30))
    + "    return [sum(g29)]\n",
    "chain_of_comparisons": f"def policy(obs):\n    return [{_chain(40)}]\n",
    "wide_tuples_of_tuples": _WIDE.format("1.," * 1900, "t," * 1900, "u," * 1000),
    "starred_arguments": _star_storm("max({})"),
    "starred_elements": _star_storm("[{}]"),
    "starred_helper": _star_storm("f({})"),
    "straight_line_of_powers": "def policy(obs):\n    z = np.full(10000, 0.5)\n    ("
    + "z**z," * 1300
    + ")\n    return [1.0]\n",
}

# -------------------------------------------------------------------------------------------------------------- legitimate

_LEGITIMATE = r'''
#: ellipsis_in_an_index: 3 1
import numpy as np
def policy(obs):
    pairs = np.stack([obs, 2.0 * obs], axis=-1)
    pairs[..., 1] += 1.0
    rows = pairs[..., None]
    return [float(rows[0, ..., 0].sum() + pairs[...].max())]
#: keys_of_a_dict_that_are_computed: 3 1
def policy(obs):
    start = (3, 6, 0)
    first, names = {start: -1, (start[0], 1): 2}, {}
    order = [start]
    for node in order:
        for step in range(2):
            after = (node[0] - 1, node[1], step)
            if after not in first and after[0] >= 0:
                first[after] = step if node == start else first[node]
                order.append(after)
    return [float(len(order) + sum(first.values()) + {len(order): obs[0]}[len(order)])]
#: defaults: 3 2
from __future__ import annotations

import math as m
import typing as t
from math import pi

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray


def limited(x: float, low: float = -np.inf, high: float = m.pi, bounds: t.Any = (-1.0, +pi, None)) -> NDArray:
    return np.clip(x, max(low, bounds[0]), min(high, bounds[1]))


def policy(obs: npt.NDArray) -> npt.NDArray:
    return np.array([limited(obs[0]), limited(9.0 * obs[1], low=0.5)])
#: smoothed_in_place: 4 4
import numpy as np


def policy(obs):
    action = obs.copy()
    for i, x in enumerate(action[:-1]):
        action[i + 1] += 0.5 * x
    return action
#: proportional: 3 1
def policy(obs):
    return [-0.5 * obs[1]]
#: proportional_derivative: 4 1
import numpy as np

KP = 1.5
KD = 0.4


def policy(obs):
    """A PD controller for $\dot x$, with gains chosen by hand."""
    x, x_dot, theta, theta_dot = obs
    force = KP * theta + KD * theta_dot - 0.1 * x - 0.2 * x_dot
    return np.array([np.clip(force, -1.0, 1.0)])
#: starred_unpacking: 6 2
import numpy as np


def policy(obs):
    z, a, *_ = obs
    *first, last = obs
    return np.array([z - a, last + len(first)])
#: dict_of_gains: 5 2
import numpy as np

GAINS = {"hip": {"kp": 2.0, "kd": 0.1}, "knee": {"kp": 1.0, "kd": 0.05}}


def policy(obs):
    hip = GAINS["hip"]["kp"] * (0.3 - obs[0]) - GAINS["hip"]["kd"] * obs[1]
    knee = GAINS["knee"]["kp"] * obs[2] - GAINS["knee"].get("kd", 0.0) * obs[3]
    return np.clip([hip, knee], -1, 1)
#: dict_loop: 4 1
TARGETS = {"a": 0.1, "b": -0.2, "c": 0.3}


def policy(obs):
    total = 0.0
    for i, (name, target) in enumerate(TARGETS.items()):
        total += target * obs[i]
        if name == "b":
            total -= 1.0
    for value in TARGETS.values():
        total += value
    return [total + len(TARGETS) + ("a" in TARGETS)]
#: helpers: 4 2
import numpy as np
import math


def wrap(angle: float) -> float:
    """Wraps an angle to [-pi, pi)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def pd(error: float, rate: float, kp: float = 1.0, *, kd: float = 0.1) -> float:
    return kp * error - kd * rate


def policy(obs: np.ndarray) -> np.ndarray:
    first = pd(wrap(obs[0]), obs[1])
    second = pd(wrap(obs[2]), obs[3], kp=2.0, kd=0.3)
    return np.array([first, second], dtype=np.float32)
#: closures: 3 1
import numpy as np


def policy(obs):
    gain = 0.5 + abs(obs[0])

    def law(x, limit=1.0):
        return max(-limit, min(limit, gain * x))

    return np.array([law(obs[1]) + law(obs[2], limit=0.2)])
#: named_lambda: 3 1
clip = lambda x, low=-1.0, high=1.0: max(low, min(high, x))


def policy(obs):
    sign = lambda x: 1.0 if x > 0 else -1.0
    return [clip(sign(obs[0]) * obs[1] ** 2, high=0.7)]
#: policy_is_a_lambda: 3 1
policy = lambda obs: [0.3 * obs[0] - 0.1 * obs[2]]
#: norms: 5 2
import numpy as np


def policy(obs):
    delta = obs[:2] - obs[2:4]
    distance = np.linalg.norm(delta)
    return delta / (distance + 1e-6) * min(1.0, float(distance))
#: from_imports: 4 1
from math import atan2, sin, cos, pi
from numpy import array, clip
import numpy.linalg as la


def policy(obs):
    angle = atan2(obs[1], obs[0]) + pi / 4
    return array([clip(sin(angle) - cos(angle), -1, 1) * la.norm(obs[2:])])
#: import_inside: 3 1
def policy(obs):
    import math
    import numpy as np

    return np.array([math.tanh(obs[0]) + math.hypot(obs[1], obs[2])])
#: future_and_typing: 3 1
from __future__ import annotations

from typing import List, Sequence

import numpy as np

LIMITS: tuple[float, float] = (-1.0, 1.0)


def policy(obs: Sequence[float]) -> List[float]:
    low, high = LIMITS
    value: float = 0.1 * obs[0]
    rest: float
    return [float(np.clip(value, low, high))]
#: comprehension_over_zip: 4 4
WEIGHTS = [0.1, -0.2, 0.3, 0.4]


def policy(obs):
    return [w * x for w, x in zip(WEIGHTS, obs)]
#: sum_over_zip: 4 1
import numpy as np

WEIGHTS = (0.1, -0.2, 0.3, 0.4)


def policy(obs):
    return np.array([sum(w * x for w, x in zip(WEIGHTS, obs)) + sum([x for x in obs if x > 0])])
#: augmented_assignment: 4 2
import numpy as np


def policy(obs):
    action = np.zeros(2)
    action[0] += 0.5 * obs[0]
    action[1] -= obs[1]
    action *= 2.0
    action[0] /= 3
    scale = 1
    scale += 2
    scale *= 2
    action **= 2
    return action / scale
#: early_returns: 3 1
import numpy as np


def policy(obs):
    if obs[0] > 1.0:
        return np.array([1.0])
    elif obs[0] < -1.0:
        return np.array([-1.0])
    if not np.isfinite(obs).all():
        return np.zeros(1)
    return np.array([obs[0]])
#: nested_conditions: 4 1
def policy(obs):
    x, v = obs[0], obs[1]
    if x > 0:
        if v > 0:
            u = -1.0
        elif 0.2 < x < 0.8 and v != 0:
            u = -0.5
        else:
            u = 0.1
    else:
        u = 1.0 if v < 0 or not x < -0.5 else -v
    return [u if abs(u) <= 1 else 0.0]
#: where_and_select: 4 4
import numpy as np


def policy(obs):
    a = np.where(obs > 0, np.tanh(obs), -0.5)
    b = np.select([obs > 1, obs > 0], [np.ones(4), obs], default=0.0)
    return np.clip(a + b, a_min=-1.0, a_max=1.0)
#: interpolation: 3 1
import numpy as np

XS = np.array([-2.0, 0.0, 2.0])
YS = np.array([1.0, 0.2, -1.0])


def policy(obs):
    return np.array([np.interp(obs[0], XS, YS) + np.interp(obs[1], [0, 1], [0, 0.5], left=-1.0)])
#: linear_feedback: 4 2
import numpy as np

K = np.array([[1.0, 0.2, -0.3, 0.4], [0.0, -1.0, 0.5, 0.1]])


def policy(obs):
    return -K @ obs + np.dot(K, obs) * 0.5 + K.sum(axis=1)
#: rotation: 5 2
import numpy as np


def policy(obs):
    c, s = np.cos(obs[0]), np.sin(obs[0])
    rotation = np.array([[c, -s], [s, c]])
    return rotation @ obs[1:3] + rotation.T.dot(obs[3:5])
#: flattened: 6 3
import numpy as np


def policy(obs):
    obs = np.asarray(obs, dtype=float).ravel()
    n = obs.shape[0] // 2
    position, velocity = obs[:n], obs[n:]
    return np.clip(-1.2 * position - 0.3 * velocity, -1, 1)
#: flattened_by_methods: 6 2
import numpy as np


def policy(obs):
    obs = np.array(obs).astype(np.float64).flatten()
    pairs = obs.reshape(3, 2)
    return pairs.mean(axis=0) + pairs[:, 0].max() - pairs[1] * pairs.std()
#: floats_first: 4 1
def policy(obs):
    a, b, c, d = [float(x) for x in obs]
    e, f, g, h = map(float, obs)
    return [a * f - b * e + (c + g) * (d - 2 * h)]
#: discrete_mask: 4 3
import numpy as np


def policy(obs):
    mask = np.zeros(3, dtype=int)
    mask[int(obs[0] > 0)] = 1
    if obs[1] > 0:
        mask[2] = 1
    return mask
#: discrete_list: 4 2
def policy(obs):
    lean = obs[2] + 0.5 * obs[3]
    if abs(lean) < 0.1:
        return [True, True]
    return [lean < 0, lean >= 0]
#: discrete_argmax: 3 3
import numpy as np


def policy(obs):
    best = int(np.argmax(obs))
    return [1 if i == best else 0 for i in range(3)]
#: list_grows: 5 3
def policy(obs):
    actions = []
    for i in range(3):
        actions.append(obs[i] * 0.1 * (i + 1))
    actions[0] = -actions[0]
    actions[-1] += 0.5
    return actions
#: slices: 6 3
import numpy as np


def policy(obs):
    errors = obs[::2] - obs[1::2]
    last = obs[-3:][::-1]
    out = np.concatenate([errors[:2], last[:1]])
    out[1:] = out[1:] + 1.0
    return np.hstack((out[0], out[1:]))
#: boolean_index: 5 5
import numpy as np


def policy(obs):
    out = np.copy(obs)
    out[out > 0.5] = 0.5
    out[(out < -0.5) & (obs < 0)] = -0.5
    return out
#: index_list: 6 3
import numpy as np

JOINTS = [0, 2, 4]
NEXT = np.array([1, 3, 5])


def policy(obs):
    return -2.0 * obs[JOINTS] - 0.1 * obs[NEXT]
#: gait: 8 4
import numpy as np


def policy(obs):
    phase = np.arctan2(obs[0], obs[1])
    offsets = np.array([0.0, np.pi, np.pi / 2, 3 * np.pi / 2])
    swing = 0.4 * np.sin(phase + offsets)
    return np.tanh(swing - 0.3 * obs[4:8])
#: gait_in_a_loop: 8 4
import math


def policy(obs):
    action = [0.0] * 4
    for leg in range(4):
        sign = 1 if leg % 2 == 0 else -1
        action[leg] = sign * math.sin(obs[0] + leg * math.pi / 2) - 0.2 * obs[4 + leg]
        if abs(action[leg]) > 0.9:
            action[leg] = math.copysign(0.9, action[leg])
            continue
    return tuple(action)
#: small_network: 4 2
import numpy as np

W1 = np.array([[0.1, -0.2, 0.3, 0.4], [0.5, 0.1, -0.7, 0.2], [-0.3, 0.2, 0.1, 0.9]])
B1 = np.array([0.1, 0.0, -0.1])
W2 = [[1.0, -1.0, 0.5], [0.2, 0.3, -0.4]]


def policy(obs):
    hidden = np.maximum(W1 @ obs + B1, 0)
    return np.tanh(np.array(W2) @ hidden)
#: keyword_arguments: 4 2
import numpy as np


def mix(a, b, weight=0.5, *, bias=0.0):
    return weight * a + (1 - weight) * b + bias


def policy(obs):
    return np.round(np.stack([mix(obs[0], b=obs[1]), mix(a=obs[2], b=obs[3], weight=0.1, bias=-1)], axis=0), decimals=3)
#: integer_arithmetic: 3 1
def policy(obs):
    bucket = int(obs[0] * 10) // 3 % 5
    power = 2 ** abs(bucket) + round(obs[1]) - round(obs[2], 1)
    return [power / 7 + divide(bucket, 3)]


def divide(a, b):
    return a / b if b else 0.0
#: search_in_a_loop: 3 1
def policy(obs):
    best, best_cost = 0.0, float("inf")
    for k in range(-10, 11):
        u = k / 10
        cost = (obs[0] + 0.1 * (obs[1] + u)) ** 2 + 0.01 * u * u
        if cost < best_cost:
            best, best_cost = u, cost
        if best_cost == 0:
            break
    else:
        best += 0.0
    return [best]
#: table_lookup: 2 1
TABLE = [[-1.0, -0.5, 0.0], [0.5, 0.7, 1.0]]
EDGES = (-0.5, 0.5)


def policy(obs):
    row = 1 if obs[0] > 0 else 0
    column = sum(1 for edge in EDGES if obs[1] > edge)
    return [TABLE[row][column]]
#: linear_algebra: 6 2
import numpy as np


def policy(obs):
    m = np.array([[2.0 + obs[0] ** 2, 0.1], [0.1, 1.5]])
    step = np.linalg.solve(m, obs[1:3]) - np.linalg.inv(m) @ obs[3:5]
    return step / (1 + np.abs(np.linalg.det(m)) + np.trace(m))
#: norm_of_order: 4 1
import numpy as np


def policy(obs):
    return [np.linalg.norm(obs, ord=1) - np.linalg.norm(obs[:2], 2) + np.linalg.norm(np.outer(obs, obs))]
#: statistics: 6 3
import numpy as np


def policy(obs):
    center, spread = np.mean(obs), np.std(obs)
    return np.array([center, spread, np.median(obs)]) + [np.min(obs), obs.max(), np.sum(np.abs(obs)) / len(obs)]
#: dead_zone: 2 1
import numpy as np


def dead_zone(x, width=0.1):
    if abs(x) < width:
        return 0.0
    return x - np.sign(x) * width


def policy(obs):
    assert len(obs) == 2, "two numbers"
    pass
    return np.array([dead_zone(obs[0]) + dead_zone(obs[1], width=0.5)])
#: builtin_names_as_variables: 3 1
def policy(obs):
    sum = 0.0
    min, max = -1.0, 1.0
    for x in obs:
        sum += x
    return [min if sum < min else max if sum > max else sum]
#: sorted_and_reversed: 4 4
def policy(obs):
    low_to_high = sorted(obs)
    return [a - b for a, b in zip(low_to_high, reversed(low_to_high))]
#: nested_comprehension: 4 2
import numpy as np


def policy(obs):
    grid = [[obs[i] * obs[j] for j in range(4)] for i in range(4)]
    flat = [value for row in grid for value in row if value > -1]
    return np.array([sum(flat), max(max(row) for row in grid)])
#: stacked: 4 2
import numpy as np


def policy(obs):
    columns = np.column_stack([obs, obs**2, np.ones_like(obs)])
    stacked = np.vstack([columns, np.zeros((1, 3))])
    return stacked[:, 1:].sum(axis=0) + np.eye(2)[0] + np.diag([1.0, 2.0]).sum(axis=0)
#: two_dimensional_action: 4 2 2
import numpy as np


def policy(obs):
    return np.tanh(obs).reshape(2, 2)
#: scalar_action: 3 -
import numpy as np


def policy(obs):
    return np.tanh(obs[0])
#: state_space: 6 2
import numpy as np

A_MATRIX = np.eye(3) * 0.9
TARGET = np.array([0.5, -0.5, 0.0])


def policy(obs):
    state = obs[:3].copy()
    for _ in range(5):
        state = A_MATRIX @ state + 0.1 * obs[3:]
    error = TARGET - state
    return np.array([error[0], error[1:].sum()]).clip(-1, 1)
'''
# ----------------------------------------------------------------------------------------------------------------- quirks

_QUIRKS = """
#: enumerate_sees_what_changes_in_the_loop: -
    a = [0.5, 0.0, 0.0]
    for i, x in enumerate(a):
        if i + 1 < len(a):
            a[i + 1] += 0.5 * x
    return a
#: enumerate_of_an_array_sees_what_changes_in_the_loop: -
    for i, x in enumerate(obs):
        obs[(i + 1) % 3] += x
    return obs
#: zip_reversed_and_map_see_what_changes_in_the_loop: -
    a, b, seen = [1.0, 2.0], [3.0, 4.0], []
    for x, y in zip(a, b):
        b[1] = x + y
        a.append(y)
        b.append(x) if len(b) < 5 else None
        seen.append((x, y))
    for x in reversed(a):
        a[0] = x
        seen.append(x)
    for x in map(double, b):
        b[-1] = x
        seen.append(x)
    return seen
#: a_comprehension_sees_what_a_helper_changes: -
    a = [1, 2]
    return [(i, len(note(a))) for i, x in enumerate(a) if i < 9]
#: enumerate_in_a_variable_is_used_twice_only_where_it_is_a_list: -
    return [(i, x) for i, x in enumerate(list(zip(obs, reversed(obs))), 1)]
#: the_dtype_of_a_variable: -
    i = np.array([1, 2, 3])
    b = obs > 0
    return [obs.astype(i.dtype), np.ones(2, dtype=b.dtype), np.zeros(2, obs.dtype), obs[np.ones(2, dtype=i.dtype)]]
#: dtypes_by_position: -
    return [np.full(2, 0.5, float), np.full(2, 0.5, int), np.full((2, 1), 1, dtype=np.int8), np.ones(2, np.int8) * 100 * 2]
#: lists_of_arrays_are_joined: -
    return [np.zeros(60), np.ones(50)] + [np.zeros(100)]
#: a_list_of_many: -
    return [len([0.0] * 9999), len([[0.0, 1.0]] * 3000)]
#: a_list_takes_itself_in_place: -
    a = [1.0]
    a += a
    a += (2.0, 3.0)
    a += list(obs[:2])
    d = {'a': 1.0}
    d |= {'b': 2.0}
    d |= [('c', 3.0)]
    return [a, d]
#: a_loop_sees_what_is_appended_in_it: -
    q = [1.0]
    for x in q:
        if x < 10:
            q.append(x * 2)
    return q
#: a_loop_over_a_dict: -
    return [k for k in {'a': 1, 'b': 2}] + [v for v in {'a': 1}.values()]
#: names_of_comprehensions_are_their_own: -
    x = 5.0
    y = [x for x in obs]
    return [x, [[x for x in range(2)] for x in y]]
#: sorted_in_reverse: -
    return sorted(obs, reverse=True)
#: a_variable_called_dtype: -
    return [np.add(1.0, dtype) for dtype in obs]
#: a_comprehensions_iterable_is_evaluated_outside: -
    x = [1, 2]
    return [x for x in x]
#: a_generator_in_a_variable: -
    g = (x for x in obs)
    return [list(g)]
#: a_stored_generator: -
    a = [0]
    a[0] = (x for x in obs)
    return list(a[0])
#: operands_are_evaluated_once: -
    a = []
    y = [0] < note(a) < [9]
    return [y, len(a)]
#: a_chain_in_a_comprehensions_iterable: -
    return [x for x in [[1] < [2] < [3]]]
#: an_index_is_evaluated_once: -
    a = [[0.0], 2.0]
    n = []
    a[len(note(n)) - 1] += [1.0]
    return [a, n]
#: in_place_on_a_shared_list: -
    a = [1]
    b = a
    a += [2]
    return [b, a is b]
#: in_place_on_a_shared_array: -
    a = np.zeros(2)
    b = a
    a += 1
    return b
#: in_place_on_a_slice: -
    a = np.zeros(4)
    b = a[1:3]
    a[1:3] += 2
    b *= 3
    return a
#: in_place_on_a_tuple: -
    a = (1,)
    b = a
    a += (2,)
    return [a, b]
#: a_list_times_a_number: -
    return [[0.0] * 3, 2 * [1], (1,) * 2, 'ab' * 2]
#: booleans_are_integers: -
    return [True + True, sum([True, False, True]), -True, True * 3, max(True, 0)]
#: integer_division_and_remainder: -
    return [-7 // 2, -7 % 3, 7 // -2, -7.5 // 2, 2 ** -1, (-8) ** 3, 7 & 3 | 8 ^ 1, ~7]
#: sum_with_a_start: -
    return [sum([[1], [2]], [0]), sum([1, 2], 3), sum([]), sum([0.1] * 10)]
#: min_and_max_with_a_default: -
    return [min([], default=3), max([2, 5, 3]), max(1, 2.0, 3), min((4, 2))]
#: enumerate_zip_reversed_sorted_map: -
    a = [list(enumerate('ab', 1)), list(zip([1, 2], (3, 4), strict=True)), list(reversed([1, 2]))]
    return [a, sorted([2, 1]), list(map(abs, [-1, 2])), list(map(double, [1, 2]))]
#: unpacking: -
    (a, b), *c, d = [(1, 2), 3, 4, 5]
    [e, f] = a, b
    return [a, b, c, d, e, f, *c, *(7, 8)]
#: chained_assignment: -
    a = b = [1]
    a.append(2)
    return b
#: swap: -
    a, b = 1, 2
    a, b = b, a
    return [a, b]
#: for_else_and_break: -
    for i in range(5):
        if i == 3:
            break
    else:
        i = 9
    return [i]
#: none_and_is: -
    x = None
    return [1.0 if x is None else 2.0, x is not None]
#: a_default_and_a_closure: -
    k = 2.0
    def g(x, y=3):
        return x * y + k
    k = 5.0
    return [g(1), g(1, y=2)]
#: and_and_or_give_operands: -
    return [0 or [1], [] and 2, 3 and 4, 0.0 or 'x']
#: slices_of_lists: -
    a = [1, 2, 3, 4]
    return [a[1:], a[::-1], a[:2] + a[-1:], a[-2]]
#: methods_of_dicts: -
    d = {'a': 1}
    d['b'] = 2
    return [d.get('c', 3), d.get('a'), list(d.keys()), list(d.items()), 'b' in d]
#: methods_of_lists: -
    a = [1]
    a.insert(0, 2)
    a.extend([3, 4])
    return [a, a.copy(), len(a), 3 in a, 9 not in a]
#: conversions: -
    return [int('7'), float('2.5'), int(2.9), bool([]), round(2.5), round(2.567, 2), abs(-3), pow(2, 5), float('inf')]
#: rounding: -
    return [math.floor(-2.5), math.ceil(2.1), math.trunc(-2.9), round(np.float64(2.4)), np.round(2.567, 1)]
#: types_of_numpys_numbers: -
    return [obs[0] * 2, obs.size, obs.shape, obs.ndim, np.sum(obs > 0), np.argmax(obs), len(obs)]
#: broadcasting: -
    return (obs[:, None] * obs[None, :]).sum(axis=0) + obs.reshape(-1, 1).T.ravel()
#: a_boolean_index: -
    return [obs[obs > 0], obs[[True, False, True]], obs[[0, 2]], obs[np.array([1, 1])]]
#: a_tuple_as_an_index: -
    m = np.eye(3)
    i = (1, 1)
    m[0, 1] = 5
    m[i] += 2
    return [m[i], m[0, 1:], m[:, 0], m[(0, 1)]]
#: an_empty_array: -
    return [np.array([]), np.zeros(0), np.zeros((0, 3)).sum(axis=0), obs[:0].sum()]
#: names_of_builtins_as_variables: -
    def shadow(sum, abs=1):
        sum += abs
        return sum
    max = obs[0]
    list = [max]
    return shadow(sum=max, abs=2) + list[0]
#: methods_that_are_first_called_here: -
    return [obs.mean(), obs.std(), obs.var(), obs.sum(), obs.min(), obs.prod(), obs.any(), obs.clip(-1, 1)]
#: a_truth_value_picks_from_a_tuple_and_a_dict: -
    yes = 1 > 0
    return [(0.5, 1.5)[yes], [0.5, 1.5][not yes], {True: 1.0, False: -1.0}[obs[0] > 0], {1: 2.0}[yes]]
#: an_array_without_dimensions_as_an_index: -
    i = np.where(obs[0] > 0, 1, 0)
    return [[5, 6][i], np.array([5.0, 6.0])[i], np.eye(2)[i, i]]
#: ranges_by_name: -
    return [np.linspace(start=-1, stop=1, num=3), np.arange(start=0, stop=3, step=1), np.arange(1, stop=3), np.linspace(0, stop=1)]
#: the_value_is_evaluated_before_the_place: -
    a = [0.0]
    def push(b):
        b.append(5.0)
        return 1.0
    a[len(a) - 1] = push(a)
    return a
#: keys_of_several_kinds: -
    d = dict([((1, 'a'), 2.0), (3, 4.0)])
    d[(0.5, True)] = 6.0
    return [d[(1, 'a')], d.get((0.5, 1)), (1, 'a') in d, (2,) in d, d.get(3)]
#: picked_rows: -
    m = np.arange(12.0).reshape(4, 3)
    rows, columns = np.array([0, 2]), [1, 2]
    m[rows] += 1
    m[[0, 1], 0] = -1
    return [m[rows], m[columns], m[rows, columns], m[m > 5], m[:, rows], m[rows][0], m[1:, [0]], m[None, 0]]
#: digits: -
    n = 2
    return [np.round(obs, 1), obs.round(n), np.around(obs, decimals=-n), obs[0].round(1), np.round(obs), obs.round(decimals=1)]
#: a_helper_with_an_argument_called_dtype: -
    def scaled(x, dtype):
        return x * dtype
    return scaled(obs, dtype=2.0)
#: a_nested_conditional_expression: -
    return [1 if obs[0] > 9 else 2 if obs[1] > 9 else 3]
"""
_QUIRKS_HEAD = """import math
import numpy as np
def note(a):
    a.append(1)
    return a
def double(x):
    return x * 2
def policy(obs):
"""
QUIRKS = {name: _QUIRKS_HEAD + body for name, (_, body) in programs(_QUIRKS).items()}
"""Name -> source of what is easily got wrong when programs are rewritten: it must do what Python does, with three numbers."""

_STATES = """
#: count: -
SEEN = [0.0]
def policy(obs):
    SEEN[0] += 1
    return [SEEN[0]]
#: alias: -
SEEN = [0.0]
def policy(obs):
    s = SEEN
    s.append(1.0)
    return [len(SEEN)]
#: dict_item: -
SEEN = {'n': 0}
def policy(obs):
    SEEN['n'] = SEEN['n'] + 1
    return [SEEN['n']]
#: unpacked: -
SEEN = ([0.0], 1)
def policy(obs):
    a, b = SEEN
    a.append(obs[0])
    return [len(a)]
#: looped: -
SEEN = [[0.0]]
def f(a):
    a.append(1.0)
def policy(obs):
    for a in SEEN:
        f(a)
    return [len(SEEN[0])]
#: mapped: -
SEEN = [[0.0]]
def f(a):
    a += [1.0]
    return len(a)
def policy(obs):
    return list(map(f, SEEN))
#: generator: -
SEEN = (x for x in range(9))
def policy(obs):
    n = 0
    for x in SEEN:
        n += 1
    return [n]
#: made: -
def make():
    return [0.0]
SEEN = make()
def policy(obs):
    SEEN.append(1.0)
    return [len(SEEN)]
#: boxed: -
SEEN = [0.0]
BOX = {'s': SEEN}
def policy(obs):
    BOX['s'].append(1.0)
    return [len(SEEN)]
#: either: -
SEEN = [0.0]
def policy(obs):
    s = SEEN if obs[0] > 0 else [1.0]
    s *= 2
    return [len(SEEN)]
#: dict_in_place: -
SEEN = {'n': 0.0}
def policy(obs):
    s = SEEN
    s |= {'n': s['n'] + 1.0}
    return [s['n']]
#: indexed: -
SEEN = [0.0]
def policy(obs):
    [SEEN, 1][0].extend([2.0])
    return [len(SEEN)]
#: reached_by_a_list_that_grows: -
SEEN = [(0.0, 0.0)]
def policy(obs):
    L = [(1.0, 1.0)]
    M = [(1.0, 1.0)]
    N = L if obs[0] > 1e9 else M
    L.append((M, 1.0))
    e = L[1][0]
    e.append((0.0, SEEN))
    n = M[1][1]
    n *= 2
    return [len(SEEN)]
#: by_a_variable_called_dtype: -
SEEN = [0.0]
def policy(obs):
    L = [1.0]
    x = [dtype.append(SEEN) for dtype in [L]]
    v = L[1]
    v *= 2
    return [len(SEEN)]
#: by_the_default_of_get: -
SEEN = [0.0]
def policy(obs):
    L = [1.0]
    e = {'a': 1.0}.get(*[tuple([1.0]), L])
    e.append(SEEN)
    v = L[1]
    v *= 2
    return [len(SEEN)]
#: by_an_integer_of_an_array: -
SEEN = [0.0]
def policy(obs):
    z = np.array([np.full(1, -1e300).astype(int).item() - 1, 0])
    z[0] = SEEN
    z[1] = [1.0]
    x = z[0]
    x += z[1]
    return [len(SEEN)]
#: maximum: -
SEEN = [0.0]
def policy(obs):
    max(SEEN, [-1.0]).insert(0, 2.0)
    return [len(SEEN)]
"""
STATES = {name: "import numpy as np\n" + source for name, (_, source) in programs(_STATES).items()}
"""Name -> source of what would remember something between calls: it must be refused, fault, or remember nothing."""

# --------------------------------------------------------------------------------------------------------------------- all

_HEAD = "import numpy as np\nimport math\n"
HOSTILE: dict[str, tuple[str, str]] = {
    **programs(_EXPRESSIONS, _HEAD),
    **programs(re.sub("<.*?>", lambda match: _CHARACTERS.get(match[0], match[0]), _STATEMENTS), _HEAD),
    **{name: ("refused", _HEAD + source) for name, source in _GENERATED.items()},
    **programs(re.sub("<.*?>", lambda match: _REPEATED[match[0]], _BOUNDED), _HEAD),
    **{name: ("bounded", _HEAD + source) for name, source in _GENERATED_BOUNDED.items()},
}
"""Name -> ("refused" or "bounded", source)."""

LEGITIMATE: dict[str, tuple[int, tuple[int, ...], str]] = {
    name: (int(sizes.split()[0]), tuple(int(size) for size in sizes.split()[1:] if size != "-"), source)
    for name, (sizes, source) in programs(_LEGITIMATE).items()
}
"""Name -> (numbers in an observation, shape of an action, source)."""

OUTCOMES: dict[str, str] = {}
"""What became of each in this run of the tests: "refused", "bounded", "played" or "escaped"; conftest.py counts them."""
