"""A standing approval of a tool covers only the same code with the same values."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import linecache
import subprocess
import sys
import textwrap
from itertools import count
from pathlib import Path

import pytest

from tests.cpu import cpu_seconds
from tests.review.fakes import FakeChannel, click
from tract_jupyter import Tract
from tract_jupyter.models.schema import Parameters
from tract_jupyter.toolkit import ToolDefinition

_CELLS = count()


def run(source, **names):
    """Run a cell like the kernel, with a source that `inspect` finds."""
    source, file = textwrap.dedent(source), f"<cell {next(_CELLS)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"__name__": "__main__", **names}
    exec(compile(source, file, "exec"), names)
    return names


def definition(handler):
    return ToolDefinition("t", "Does it.", Parameters.of(lambda x: x), handler, owner="user")


def identity(handler):
    return definition(handler).definition_hash


HELPERS = """
import collections, contextlib, queue, threading, types
from functools import cached_property, lru_cache, partial, partialmethod, singledispatch, wraps
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
"""

# each is a cell that defines `tool`; WHERE is the part that differs
CHANGED = {
    "global helper": "def helper(x): return 'WHERE'\ndef tool(x): return helper(x)",
    "helper of a helper": "def a(x): return 'WHERE'\ndef b(x): return a(x)\ndef tool(x): return b(x)",
    "helper by globals": "def helper(x): return 'WHERE'\ndef tool(x): return globals()['helper'](x)",
    "lambda as helper": "helper = lambda x: 'WHERE'\ndef tool(x): return helper(x)",
    "helper in an inner function": "def helper(x): return 'WHERE'\ndef tool(x): return [helper(y) for y in (lambda: x)()]",
    "helper as a value": "def helper(x): return 'WHERE'\ndef tool(x): return map(helper, x)",
    "recursive helper": "def a(x): return b(x)\ndef b(x): return a('WHERE')\ndef tool(x): return a(x)",
    "helper in a dict": "def helper(x): return 'WHERE'\nACTIONS = {'a': helper}\ndef tool(x): return ACTIONS['a'](x)",
    "helper in a list": "def helper(x): return 'WHERE'\nSTEPS = [helper]\ndef tool(x): return [s(x) for s in STEPS]",
    "partial helper": "def f(a, x): return a\nhelper = partial(f, 'WHERE')\ndef tool(x): return helper(x)",
    "cached helper": "@lru_cache\ndef helper(x): return 'WHERE'\ndef tool(x): return helper(x)",
    "dispatching helper": "@singledispatch\ndef helper(x): return x\n@helper.register\ndef _(x: int): return 'WHERE'\n"
    "def tool(x): return helper(x)",
    "global text": "TARGET = 'WHERE'\ndef tool(x): return TARGET",
    "global path": "TARGET = Path('WHERE')\ndef tool(x): return TARGET",
    "global tuple": "TARGET = ('a', ('WHERE',))\ndef tool(x): return TARGET",
    "global of a helper": "TARGET = 'WHERE'\ndef helper(): return TARGET\ndef tool(x): return helper()",
    "method of another instance": "class Box:\n    def __init__(self, p): self.p = p\n    def save(self, x): return self.p\n"
    "tool = Box('WHERE').save",
    "instance with a setter": "class Box:\n    def __init__(self, p): self.p = p\n    def move(self, p): self.p = p\n"
    "    def save(self, x): return self.p\ntool = Box('WHERE').save",
    "instance with slots": "class Box:\n    __slots__ = ('p',)\n    def save(self, x): return self.p\n"
    "box = Box()\nbox.p = 'WHERE'\ntool = box.save",
    "instance of a dataclass": "@dataclass\nclass Box:\n    p: str\n    def save(self, x): return self.p\ntool = Box('WHERE').save",
    "instance within an instance": "class Place:\n    def __init__(self, p): self.p = p\nclass Box:\n"
    "    def __init__(self, p): self.place = Place(p)\n    def save(self, x): return self.place.p\ntool = Box('WHERE').save",
    "list of an instance": "class Box:\n    def __init__(self, p): self.p = [p]\n    def save(self, x): return self.p\n"
    "tool = Box('WHERE').save",
    "another method of the class": "class Box:\n    def where(self): return 'WHERE'\n    def save(self, x): return self.where()\n"
    "tool = Box().save",
    "method of a base class": "class Base:\n    def where(self): return 'WHERE'\nclass Box(Base):\n"
    "    def save(self, x): return self.where()\ntool = Box().save",
    "class attribute": "class Box:\n    p = 'WHERE'\n    def save(self, x): return self.p\ntool = Box().save",
    "property": "class Box:\n    @property\n    def p(self): return 'WHERE'\n    def save(self, x): return self.p\ntool = Box().save",
    "cached property": "class Box:\n    @cached_property\n    def p(self): return 'WHERE'\n    def save(self, x): return self.p\n"
    "tool = Box().save",
    "static method": "class Box:\n    @staticmethod\n    def save(x): return 'WHERE'\ntool = Box.save",
    "class method": "class Box:\n    p = 'WHERE'\n    @classmethod\n    def save(cls, x): return cls.p\ntool = Box.save",
    "partial method": "class Box:\n    def put(self, p, x): return p\n    save = partialmethod(put, 'WHERE')\ntool = Box().save",
    "metaclass": "class Meta(type):\n    def where(cls): return 'WHERE'\nclass Box(metaclass=Meta):\n"
    "    def save(self, x): return type(self).where()\ntool = Box().save",
    "class that a tool names": "class Box:\n    def save(self, x): return 'WHERE'\ndef tool(x): return Box().save(x)",
    "instance that a tool names": "class Box:\n    def __init__(self, p): self.p = p\n    def save(self, x): return self.p\n"
    "box = Box('WHERE')\ndef tool(x): return box.save(x)",
    "enum that a tool names": "class Place(Enum):\n    HERE = 'WHERE'\ndef tool(x): return Place.HERE",
    "callable object": "class Tool:\n    def __init__(self, p): self.p = p\n    def __call__(self, x): return self.p\ntool = Tool('WHERE')",
    "code of a callable object": "class Tool:\n    def __call__(self, x): return 'WHERE'\ntool = Tool()",
    "closure over a text": "def make(p):\n    def tool(x): return p\n    return tool\ntool = make('WHERE')",
    "closure over a path": "def make(p):\n    def tool(x): return p\n    return tool\ntool = make(Path('WHERE'))",
    "closure over a dict": "def make(p):\n    def tool(x): return p\n    return tool\ntool = make({'p': ['WHERE']})",
    "closure over a set": "def make(p):\n    def tool(x): return p\n    return tool\ntool = make({'WHERE', 1})",
    "closure over a function": "def make(p):\n    def tool(x): return p()\n    return tool\ntool = make(lambda: 'WHERE')",
    "closure over an instance": "class Box:\n    def __init__(self, p): self.p = p\ndef make(box):\n"
    "    def tool(x): return box.p\n    return tool\ntool = make(Box('WHERE'))",
    "default": "def tool(x, p='WHERE'): return p",
    "default of a name": "P = Path('WHERE')\ndef tool(x, p=P): return p",
    "default of a keyword": "P = 'WHERE'\ndef tool(x, *, p=P): return p",
    "default list": "P = ['WHERE']\ndef tool(x, p=P): return p",
    "partial": "def f(a, x): return a\ntool = partial(f, 'WHERE')",
    "partial by name": "def f(x, a): return a\ntool = partial(f, a=Path('WHERE'))",
    "partial of a partial": "def f(a, b, x): return a\ntool = partial(partial(f, 'WHERE'), 2)",
    "decorator with wraps": "def guard(f):\n    @wraps(f)\n    def g(*a): return 'WHERE'\n    return g\n@guard\ndef tool(x): return x",
    "under a decorator with wraps": "def guard(f):\n    @wraps(f)\n    def g(*a): return f(*a)\n    return g\n"
    "@guard\ndef tool(x): return 'WHERE'",
    "chain of wraps": "def guard(w):\n    def d(f):\n        @wraps(f)\n        def g(*a): return w\n        return g\n    return d\n"
    "@guard(1)\n@guard('WHERE')\n@guard(3)\ndef tool(x): return x",
    "decorator without wraps": "def guard(f): return lambda x: f('WHERE')\n@guard\ndef tool(x): return x",
    "cached tool": "@lru_cache\ndef tool(x): return 'WHERE'",
    "attribute of the function": "def tool(x): return tool.p\ntool.p = 'WHERE'",
    "helper of the name of a variable of a closure": "def helper(x): return 'WHERE'\ndef make():\n    helper = 0\n"
    "    def count():\n        nonlocal helper\n        helper += 1\n    return count\ncount = make()\n"
    "def inner(x): return helper(x)\ndef tool(x):\n    count()\n    return inner(x)",
    "helper of the name of an assigned attribute": "class Box: pass\nc = Box()\ndef helper(x): return 'WHERE'\n"
    "def tool(x):\n    c.helper = 1\n    return helper(x)",
    "text of the name of a variable of a closure": "TARGET = 'WHERE'\ndef make():\n    TARGET = 0\n    def count():\n"
    "        nonlocal TARGET\n        TARGET += 1\n    return count\ncount = make()\n"
    "def target(): return TARGET\ndef tool(x):\n    count()\n    return target()",
    "helper that the tool assigns": "def helper(x): return 'WHERE'\ndef tool(x):\n    global helper\n    helper, h = None, helper\n"
    "    return h(x)",
    "initial value of a variable that the tool assigns": "place = 'WHERE'\ndef tool(x):\n    global place\n    place += x\n    return place",
    "dict within dicts": "def helper(x): return 'WHERE'\nACTIONS = {'a': {'b': [{'c': helper}]}}\ndef tool(x): return ACTIONS",
    "key of a dict": "def helper(x): return 'WHERE'\nACTIONS = {helper: 1}\ndef tool(x): return [f(x) for f in ACTIONS]",
    "instance in a list": "class Box:\n    def __init__(self, p): self.p = p\nBOXES = [Box('WHERE')]\ndef tool(x): return BOXES[0].p",
    "class of an instance in a list": "class Box:\n    def save(self, x): return 'WHERE'\nBOXES = [Box()]\n"
    "def tool(x): return BOXES[0].save(x)",
    "default factory": "def helper(): return 'WHERE'\nd = collections.defaultdict(helper)\ndef tool(x): return d[x]",
    "bound method of a library": "def helper(x): return 'WHERE'\nget = {'a': helper}.get\ndef tool(x): return get('a')(x)",
    "generator": "def steps():\n    while True: yield 'WHERE'\ng = steps()\ndef tool(x): return next(g)",
    "iterator": "def helper(x): return 'WHERE'\nm = map(helper, 'abc')\ndef tool(x): return next(m)",
    "context manager": "@contextlib.contextmanager\ndef place(): yield 'WHERE'\ndef tool(x):\n    with place() as p: return p",
    "named tuple": "P = collections.namedtuple('P', 'f')(lambda x: 'WHERE')\ndef tool(x): return P.f(x)",
    "text that is looked up in an object": "class Box:\n    def save(self, x): return 'WHERE'\nb = Box()\n"
    "def tool(x): return getattr(b, 'sa' + 've')(x)",
    **{f"{name} of functions": f"def helper(x): return 'WHERE'\nd = {source}\ndef tool(x): return d"
    for name, source in {
        "ordered dict": "collections.OrderedDict(a=helper)",
        "default dict": "collections.defaultdict(list, a=[helper])",
        "chain of dicts": "collections.ChainMap({}, {'a': helper})",
        "dict of the user's": "collections.UserDict(a=helper)",
        "namespace": "types.SimpleNamespace(a=types.SimpleNamespace(b=[helper]))",
        "read-only dict": "types.MappingProxyType({'a': {'b': helper}})",
        "deque": "collections.deque([[helper]])",
        "queue": "queue.Queue(); d.queue.append((1, helper))",
        "thread": "threading.Thread(target=helper)",
        "module": "types.ModuleType('made'); d.helper = helper",
    }.items()},
    "one of two lambdas in a line": "a, b = lambda x: 'other', lambda x: 'WHERE'\ntool = {'new': a, 'old': b}['WHERE']",
}  # fmt: skip


@pytest.mark.parametrize("cell", CHANGED.values(), ids=CHANGED)
def test_another_behaviour_is_another_tool(cell):
    old, same, new = (run(HELPERS + cell.replace("WHERE", where))["tool"] for where in ("old", "old", "new"))
    assert not definition(old).code_doubt
    assert identity(old) == identity(same) != identity(new)


@pytest.mark.parametrize("cell", CHANGED.values(), ids=CHANGED)
def test_different_code_without_source_has_different_identities(cell):
    old, same, new = {}, {}, {}
    for names, where in ((old, "old"), (same, "old"), (new, "new")):
        exec(HELPERS + cell.replace("WHERE", where), names)
    assert identity(old["tool"]) == identity(same["tool"]) != identity(new["tool"])


REBOUND = {
    "global helper": ("def helper(x): return 1\ndef tool(x): return helper(x)", "def helper(x): return 2"),
    "helper of a helper": ("def a(): return 1\ndef b(): return a()\ndef tool(x): return b()", "def a(): return 2"),
    "global constant": ("TARGET = 'a'\ndef tool(x): return TARGET", "TARGET = 'b'"),
    "shadowed builtin": ("def tool(x): return print(x)", "def print(x): return 2"),
    "attribute of the instance": (
        "class Box:\n    p = 1\n    def move(self, p): self.p = p\n    def save(self, x): return self.p\nbox = Box()\ntool = box.save",
        "box.move(2)",
    ),
    "method of the class": (
        "class Box:\n    def where(self): return 1\n    def save(self, x): return self.where()\ntool = Box().save",
        "Box.where = lambda self: 2",
    ),
    "dispatch table": (
        "def a(): return 1\nACTIONS = {'a': a}\ndef tool(x): return ACTIONS['a']()",
        "ACTIONS['a'] = lambda: 2",
    ),
    "functions of a dict exchanged": (
        "def a(): return 1\ndef b(): return 2\nACTIONS = {'n': {'a': a, 'b': b}}\ndef tool(x): return ACTIONS['n']['a']()",
        "ACTIONS['n'] = {'a': b, 'b': a}",
    ),
    "order of a dict": (
        "import collections\nD = collections.OrderedDict(a=lambda: 1, b=lambda: 2)\ndef tool(x): return list(D.values())[0]()",
        "D.move_to_end('a')",
    ),
    "function that the tool assigns": (
        "def a(): return 1\ndef put(f):\n    global a\n    a = f\ndef tool(x): put(a)",
        "put(lambda: 2)",
    ),
    "method of the instance": (
        "class Box:\n    def save(self): return 1\nbox = Box()\ndef tool(x): return box.save()",
        "box.save = lambda: 2",
    ),
    "class of the instance": (
        "class Box:\n    def save(self): return 1\nbox = Box()\ndef tool(x): return box.save()",
        "box.__class__ = type('Box', (), {'save': lambda self: 2})",
    ),
    "default": ("def tool(x, p=1): return p", "tool.__defaults__ = (2,)"),
    "code": ("def tool(x): return 1", "tool.__code__ = (lambda x: 2).__code__"),
}  # fmt: skip


@pytest.mark.parametrize(("cell", "later"), REBOUND.values(), ids=REBOUND)
def test_a_change_after_the_definition_counts(cell, later):
    names = run(cell)
    tool = definition(names["tool"])
    before = tool.definition_hash
    exec(later, names)
    assert tool.definition_hash != before


STATE = {
    "list that it appends to": "log = []\ndef tool(x): log.append(x)",
    "closure over such a list": "def make(log):\n    def tool(x): log.append(x)\n    return tool\ntool = make([])",
    "dict as a cache": "cache = {}\ndef tool(x): cache[x] = x",
    "default as a cache": "def tool(x, cache={}): cache[x] = x",
    "global counter": "n = 0\ndef tool(x):\n    global n\n    n += 1",
    "counter of a helper": "n = 0\ndef helper():\n    global n\n    n += 1\ndef tool(x): helper()",
    "counter of a closure": "def make():\n    n = 0\n    def tool(x):\n        nonlocal n\n        n += 1\n    return tool\ntool = make()",
    "counter of an instance": "class Box:\n    n = 0\n    def save(self, x): self.n += 1\ntool = Box().save",
    "counter in another method": "class Box:\n    def __init__(self): self.n = 0\n    def count(self): self.n += 1\n"
    "    def save(self, x): self.count()\ntool = Box().save",
    "attribute of the function": "def tool(x): tool.n += 1\ntool.n = 0",
    "cache of functools": "from functools import lru_cache\n@lru_cache\ndef helper(x): return x\ndef tool(x): helper(x)",
    "library object as a global": "import random\nr = random.Random(1)\ndef tool(x): return r.random()",
    "library object in a closure": "import random\ndef make(r):\n    def tool(x): return r.random()\n    return tool\n"
    "tool = make(random.Random(1))",
    "value of a module": "import types\nm = types.ModuleType('made')\nm.n = 0\ndef tool(x): m.n += 1",
    "list of instances": "class Row:\n    def __init__(self, x): self.x = x\nrows = []\ndef tool(x): rows.append(Row(x))",
    "instance that it keeps": "class Row:\n    def __init__(self, x): self.x = x\nlast = None\ndef tool(x):\n    global last\n    last = Row(x)",
    "cache of instances": "import functools\nclass Row:\n    def __init__(self, x): self.x = x\n"
    "@functools.lru_cache\ndef helper(x): return Row(x)\ndef tool(x): return helper(x)",
    "error that it keeps": "class Wrong(Exception): pass\nlast = []\ndef tool(x):\n    try: raise Wrong(x)\n"
    "    except Wrong as error: last.append(error)",
    "cached property": "import functools\nclass Box:\n    @functools.cached_property\n    def p(self): return 1\nbox = Box()\n"
    "def tool(x): return box.p",
    "generator": "def steps():\n    for n in range(9): yield n\ng = steps()\ndef tool(x): return next(g)",
    "class of its own kind": "import abc\nclass Base(abc.ABC): pass\nclass Box: pass\ndef tool(x): return isinstance(Box(), Base)",
    "module that it imports": "def tool(x):\n    import colorsys\n    return colorsys",
}  # fmt: skip


@pytest.mark.parametrize("cell", STATE.values(), ids=STATE)
def test_changing_the_state_of_a_tool_keeps_its_definition_hash(cell):
    tool = definition(run(cell)["tool"])
    before = tool.definition_hash
    tool.handler(3)
    tool.handler(4)
    assert tool.definition_hash == before


def test_an_object_of_a_library_counts_as_itself():
    def tool_of(stream):
        def tool(x):
            return stream.write(x)

        return tool

    one, other = io.StringIO(), io.StringIO()
    assert identity(tool_of(one)) == identity(tool_of(one)) != identity(tool_of(other))
    assert identity(one.write) == identity(one.write) != identity(other.write)


def test_objects_at_a_reused_memory_address_have_different_identities():
    def tool_of(stream):
        def tool(x):
            return stream

        return tool

    seen = {identity(tool_of(io.StringIO())) for _ in range(50)}
    assert len(seen) == 50


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Write a package `places` of the user, and run a cell that uses it."""
    monkeypatch.syspath_prepend(tmp_path)
    forget = [name for name in sys.modules if name.partition(".")[0] == "places"]
    assert not forget

    def made(cell, **files):
        for name in [name for name in sys.modules if name.partition(".")[0] == "places"]:
            del sys.modules[name]
        for name, text in {"__init__": "", "base": "", **files}.items():
            (tmp_path / "places").mkdir(exist_ok=True)
            (tmp_path / "places" / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        sys.dont_write_bytecode = True
        return run(cell)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] == "places"]:
        del sys.modules[name]


IMPORT = "import types, places.util, places.base, places\nfrom places import util\n"
# each is a cell that defines `tool`, which can reach the function `run` of the module `places.util`
USES = {
    "a chain of attributes": "import places.util\ndef tool(x): return places.util.run()",
    "a name of the module": "from places import util\ndef tool(x): return util.run()",
    "a name of the function": "from places.util import run\ndef tool(x): return run()",
    "an import": "def tool(x):\n    import places.util\n    return places.util.run()",
    "an import of a member": "def tool(x):\n    from places.util import run\n    return run()",
    "an import of a module": "def tool(x):\n    from places import util\n    return util.run()",
    "an import in a helper": "def tool(x):\n    def f():\n        import places.util as u\n        return u.run()\n    return f()",
    "a dict": IMPORT + "d = {'a': util}\ndef tool(x): return d['a'].run()",
    "a dict within an object": IMPORT + "d = types.SimpleNamespace(a=[util])\ndef tool(x): return d.a[0].run()",
    "a default": IMPORT + "def tool(x, m=util): return m.run()",
    "a closure": IMPORT + "def make(m):\n    def tool(x): return m.run()\n    return tool\ntool = make(util)",
    "an attribute": IMPORT + "class Box:\n    def __init__(self, m): self.m = m\n    def save(self, x): return self.m.run()\n"
    "tool = Box(util).save",
    "another module": IMPORT + "def tool(x): return getattr(places.base, 'u').run()",
    "a computed name": IMPORT + "def tool(x): return getattr(util, 'r' + 'un')()",
    "an alias": IMPORT + "def call(m): return m.run()\ndef tool(x): return call(util)",
}  # fmt: skip
RUN = {
    "function": ("def run(): return 1", "def run(): return 2"),
    "helper": ("def f(): return 1\ndef run(): return f()", "def f(): return 2\ndef run(): return f()"),
    "method": tuple(f"class A:\n    def f(self): return {n}\ndef run(): return A().f()" for n in (1, 2)),
    "relative import": ("def run():\n    from .base import f\n    return f()",) * 2,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("cell", USES.values(), ids=USES)
@pytest.mark.parametrize("kind", RUN)
def test_a_module_of_the_user_counts(project, cell, kind):
    old, new = RUN[kind]
    base = "from . import util as u\ndef f(): return {}\n"
    first = identity(project(cell, util=old, base=base.format(1))["tool"])
    assert identity(project(cell, util=old, base=base.format(1))["tool"]) == first
    assert identity(project(cell, util=new, base=base.format(1 if new != old else 2))["tool"]) != first


@pytest.mark.parametrize("cell", USES.values(), ids=USES)
def test_a_function_that_is_put_into_a_module_of_the_user_counts(project, cell):
    tool = definition(project(cell, util=RUN["function"][0], base="from . import util as u\n")["tool"])
    tool.handler(1)
    before = tool.definition_hash
    vars(importlib.import_module("places.util"))["run"] = run("def run(): return 3")["run"]
    if "import run\ndef" not in cell:  # that cell has its own name for the function
        assert tool.handler(1) == 3
        assert tool.definition_hash != before


def test_an_import_does_not_change_a_tool(project):
    tool = definition(
        project(
            USES["an import"], util="from .base import f\ndef run(): return f()", base="def f(): return 1"
        )["tool"]
    )
    before = tool.definition_hash
    assert "places" not in sys.modules
    assert tool.handler(1) == 1
    assert tool.definition_hash == before


UNSURE = {
    "globals": "def tool(x): return globals()[x]()",
    "globals beside a name": "def tool(x): return globals()['f'](), globals()",
    "eval": "def tool(x): return eval('f()')",
    "exec in a helper": "def helper(x): exec(x)\ndef tool(x): return helper(x)",
    "eval under a name": "call = eval\ndef tool(x): return call('f()')",
    "eval in a default": "def tool(x, call=eval): return call('f()')",
    "eval as an attribute": "import builtins\ndef tool(x): return builtins.eval('f()')",
    "eval in an argument": "def tool(x): return list(map(eval, ['f()']))",
    "import_module": "import importlib\ndef tool(x): return importlib.import_module(x)",
    "import_module under a name": "from importlib import import_module as load\ndef tool(x): return load(x)",
    "__import__": "def tool(x): return __import__(x)",
    "modules": "import sys\ndef tool(x): return sys.modules['__main__'].f()",
    "modules under a name": "from sys import modules as m\ndef tool(x): return m['__main__'].f()",
    "main module": "import __main__\ndef tool(x): return __main__.f()",
    "globals of a function": "def g(): pass\ndef tool(x): return g.__globals__['f']()",
    "globals of a function by a text": "def g(): pass\ndef tool(x): return getattr(g, '__globals__')['f']()",
    "frame": "import sys\ndef tool(x): return sys._getframe().f_globals['f']()",
    "subclasses": "class A: pass\ndef tool(x): return [c.f() for c in A.__subclasses__()]",
    "shell": "def tool(x): return get_ipython().run_cell('f()')",
    "too much": "d = [{} for _ in range(20_001)]\ndef tool(x): return d",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("cell", UNSURE.values(), ids=UNSURE)
def test_code_that_is_found_by_a_text_is_in_doubt(cell):
    one, other = (definition(run(cell)["tool"]) for _ in range(2))
    assert one.code_doubt
    assert one.definition_hash == one.definition_hash != other.definition_hash


@pytest.mark.parametrize(
    "cell", ["def tool(x): return place_of_a_test()", "def tool(x): return os.path.place_of_a_test()"]
)
def test_a_function_that_is_put_into_a_library_counts(monkeypatch, cell):
    import builtins
    import posixpath

    seen = set()
    for source in ("lambda: 1", "lambda: 1", "lambda: 2"):
        put = run(f"f = {source}")["f"]
        monkeypatch.setattr(builtins, "place_of_a_test", put, raising=False)
        monkeypatch.setattr(posixpath, "place_of_a_test", put, raising=False)
        seen.add(identity(run(f"import os\n{cell}")["tool"]))
    assert len(seen) == 2


def test_a_tool_in_doubt_is_asked_about_each_time():
    names = run(
        "def helper(): return 1\ndef tool(x: int) -> str:\n    'Does it.'\n    return globals()['hel' + str(x)]()"
    )
    with Tract.open() as t:
        t.tool(names["tool"])
        for _ in range(2):
            t.reviewer.channel = channel = FakeChannel(lambda ticket: click(ticket, "approve"))
            assert not t.toolset("full", actor="agent").execute("tool", {"x": 1}).denied
            (request, status), _ = channel.shown
            assert (request.subject, status) == (None, "pending")
            assert "standing approval is not possible" in request.why


def test_the_source_is_used_only_if_it_matches_the_running_code():
    """If a cell name is reused or a file is edited, the stored source belongs to other code."""
    file = "<cell of one name>"

    def run_as(source):
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        names = {}
        exec(compile(source, file, "exec"), names)
        return names["tool"]

    old = run_as("def tool(x):\n    return 1\n")
    new = run_as("def tool(x):\n    return 2\n")  # both functions have this source now
    assert identity(old) != identity(new)


PROGRAM = """
import sys; sys.path.insert(0, sys.argv[1])
from tools_of_mine import tool
from tract_jupyter.models.schema import Parameters
from tract_jupyter.toolkit import ToolDefinition
print(ToolDefinition("t", "Does it.", Parameters.of(lambda x: x), tool, owner="user").definition_hash)
"""


def test_each_process_finds_the_same(tmp_path):
    (tmp_path / "tools_of_mine.py").write_text(
        "from pathlib import Path\nNAMES = frozenset('abcdef')\ndef helper(x): return x in {'a', 'b', 'c', 'd'}\n"
        "def make(p, q):\n    def tool(x): return helper(x), NAMES, p, q\n    return tool\n"
        "tool = make(Path('a'), {'x', 'y', 'z'})\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1


def test_a_tool_with_too_much_to_examine_counts_as_itself():
    names = run("def make(p):\n    def tool(x): return p\n    return tool")
    nested = []
    for _ in range(5_000):
        nested = (nested,)
    one, other = names["make"](nested), names["make"](nested)
    assert identity(one) == identity(one) != identity(other)


def test_a_hash_is_quick():
    tool = definition(run(HELPERS + CHANGED["instance within an instance"])["tool"])
    tool.definition_hash  # noqa: B018 # the known state from now on
    with cpu_seconds() as seconds:
        for _ in range(100):
            tool.definition_hash  # noqa: B018
    assert seconds[0] < 1


@pytest.fixture
def asked(monkeypatch):
    """Approve a tool permanently, define it again, return the result of a call that the user would reject."""
    from tract_jupyter.review import decision

    monkeypatch.setattr(decision, "_PERSONAL", decision._PERSONAL | {"fake"})

    @contextlib.contextmanager
    def give(define):
        with Tract.open() as t:
            define(t, "old")
            t.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve", scope="always"))
            assert not t.toolset("full", actor="agent").execute("tool", {"x": 1}).denied
            t.reviewer.channel = silent = FakeChannel(lambda ticket: click(ticket, "reject", reason="no"))
            assert not t.toolset("full", actor="agent").execute("tool", {"x": 1}).denied
            assert silent.shown == []
            define(t, "new")
            yield t.toolset("full", actor="agent").execute("tool", {"x": 1})

    return give


@pytest.mark.parametrize(
    "name", ["decorator with wraps", "method of another instance", "closure over a path", "global helper"]
)
def test_a_standing_approval_does_not_survive_a_changed_tool(asked, name):
    def define(t, where):
        tool = run(HELPERS + CHANGED[name].replace("WHERE", where))["tool"]
        t.executor.add_function(tool, name="tool", description="Does it.")

    with asked(define) as result:
        assert "no" in result.error


def test_a_standing_approval_does_not_survive_a_new_helper(asked):
    names = {}

    def define(t, where):
        if not names:
            names["of"] = run("def tool(x: int) -> str:\n    'Does it.'\n    return helper(x)")
            t.tool(names["of"]["tool"])
        exec(f"def helper(x): return {where!r}", names["of"])

    with asked(define) as result:
        assert "no" in result.error


def test_functools_wraps_is_not_needed_for_the_same_tool(asked):
    def guard(function):
        @functools.wraps(function)
        def guarded(*args, **named):
            return function(*args, **named)

        return guarded

    def tool(x: int) -> str:
        """Does it."""
        return str(Path(str(x)))

    with asked(lambda t, _: t.executor.add_function(guard(tool), name="tool")) as result:
        assert not result.denied
