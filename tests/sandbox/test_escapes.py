"""Attempts to leave the sandbox: through the language, through modules, and through calls of tools."""

from __future__ import annotations

import pytest

from tests.effects import effects_of

LANGUAGE = {
    "subclasses": "().__class__.__base__.__subclasses__()",
    "mro": "type('').__mro__[-1].__subclasses__()",
    "getattr": "getattr(getattr((), '__cl' + 'ass__'), '__ba' + 'ses__')",
    "format": "'{0.__class__.__init__.__globals__}'.format(tools)",
    "format_map": "'{t.__class__}'.format_map({'t': tools})",
    "f-string": "f'{tools.touch.__globals__}'",
    "function globals": "(lambda: 0).__globals__",
    "function code": "f = lambda: 0\nf.__code__ = (lambda: 1).__code__\nf()",
    "closure": "def f(x):\n    return lambda: x\nf(1).__closure__[0].cell_contents",
    "builtins": "__builtins__['open']('../probe.py').read()",
    "builtins module": "import builtins\nbuiltins.open('../probe.py').read()",
    "frame of an error": "try:\n    1 / 0\nexcept Exception as e:\n    f = e.__traceback__.tb_frame.f_back.f_globals\nf",
    "frame of a coroutine": "async def f(): pass\nf().cr_frame.f_builtins",
    "frame by sys": "import sys\nsys._getframe(0).f_globals",
    "trace": "import sys\nsys.settrace(lambda *_: print)",
    "loaded modules": "import sys\nsys.modules['os'].system('touch x')",
    "path of modules": "import sys\nsys.path.insert(0, '..')\nimport probe",
    "import by name": "__import__('os').system('touch x')",
    "importlib": "import importlib\nimportlib.import_module('subprocess')",
    "import of a relative": "from .. import probe",
    "eval in eval": "eval('eval(\"__import__(\\'os\\').getcwd()\")')",
    "compile": "exec(compile('import os; os.system(\"touch x\")', 'a', 'exec'))",
    "metaclass": "type('A', (object,), {'__init_subclass__': print})",
    "str that lies": "class S:\n    def __str__(self): return '../probe.py'\nopen(S())",
    "vars": "vars(tools)",
    "del": "object.__new__(type(tools)).__del__()",
}
MODULES = {
    "open": "open('../probe.py').read()",
    "open by number": "open(0).read()",
    "write": "open('x', 'w').write('x')",
    "path": "from pathlib import Path\nPath('../probe.py').read_text()",
    "path write": "from pathlib import Path\nPath('x').write_text('x')",
    "path of home": "from pathlib import Path\nstr(Path.home())",
    "realpath": "import posixpath\nposixpath.realpath('../work')",
    "environment": "import os\nstr(os.environ)",
    "getenv": "import os\nos.getenv('JUPYTER_DATA_DIR')",
    "working directory": "import os\nos.getcwd()",
    "system": "import os\nos.system('touch x')",
    "fork": "import os\nos.fork()",
    "memory": "import os\nos.open('/proc/self/mem', 2)",
    "kill": "import os\nos.kill(os.getppid(), 9)",
    "subprocess": "import asyncio\nasyncio.run(asyncio.create_subprocess_exec('touch', 'x'))",
    "socket": "import asyncio\nasyncio.run(asyncio.open_connection('127.0.0.1', 9))",
    "namedtuple": "import collections\ncollections.namedtuple('A', ['x): import os #'])",
    "dataclass": "from dataclasses import make_dataclass\nmake_dataclass('A', [('x', '__import__(\"os\").getcwd()')])",
    "type hints": "import typing\ndef f(x: '__import__(\"os\").getcwd()'): pass\ntyping.get_type_hints(f)",
    "json hook": "import json\njson.loads('{\"a\": 1}', object_hook=lambda d: __import__('os').getcwd())",
    "copy": "import copy\nclass A:\n    def __reduce__(self): return (eval, ('open(\"../probe.py\").read()',))\ncopy.copy(A())",
    "partial": "import functools\nfunctools.partial(open, '../probe.py')().read()",
    "toml": "import tomllib\ntomllib.load(open('../probe.py', 'rb'))",
    "ctypes": "import ctypes\nctypes.CDLL(None).system(b'touch x')",
    "pickle": "import pickle\npickle.loads(b\"cos\\nsystem\\n(S'touch x'\\ntR.\")",
}
HOST = {
    "tool by getattr": "getattr(tools, 'to' + 'uch')(path='x')",
    "tool by item": "tools['touch'](path='x')",
    "tool from its dict": "tools.__dict__['touch'](path='x')",
    "star import": "from tools import *\ntouch(path='x')",
    "tool in a callback": "list(map(lambda p: tools.touch(path=p), ['x']))",
    "tool in a sort": "sorted(['x'], key=lambda p: tools.touch(path=p))",
    "tool in an operator": "class A:\n    def __eq__(self, o): return tools.touch(path='x')\nA() == 1",
    "tool after a refusal": "for _ in range(3):\n    try:\n        tools.touch(path='x')\n    except BaseException:\n        pass",
    "other exception": "ToolDenied = 0\nPermissionError = 0\ntools.touch(path='x')",
    "other tools": "class T:\n    def touch(self, path): return 'mine'\ntools = T()\ntools.touch('x')",
    "write to tools": "tools.touch = tools.look\ntools.touch(path='x')",
    "locked tool": "tools.shut(path='x')",
    "locked tool as a module": "from tools import shut\nshut(path='x')",
    "name of the handler": "tools.touch.__wrapped__(path='x')",
    "a script in a script": "tools.notebook_execute(code='1', backend='kernel')",
    "a function as argument": "tools.look(path=print)",
    "a class as argument": "class A: pass\ntools.look(path=A())",
    "itself as argument": "tools.look(path=tools)",
    "a circle as argument": "a = []\na.append(a)\ntools.look(path=a)",
    "deep argument": "a = 'x'\nfor _ in range(5000):\n    a = [a]\ntools.look(path=a)",
    "keys that are no texts": "tools.look(**{'path': {1: 2, (1,): 3}})",
    "keys of Python": "tools.look(**{'path': 'x', '__class__': 'A', 'self': 1})",
    "bytes": "tools.look(path=b'\\xff')",
    "not a number": "tools.look(path=float('nan'))",
    "half a character": "tools.look(path='\\ud800')",
    "a result is a copy": "got = tools.look(path='x')\ngot['kept'].append('changed')\ntools.look(path='x')['kept']",
    "a result like an error": "tools.look(path='raise')['exc_type']",
    "an error's frame": "try:\n    tools.look(path='fail')\nexcept Exception as e:\n    found = (e.__cause__, e.__context__, e.args)\nfound",
}  # fmt: skip
ESCAPES = {**LANGUAGE, **MODULES, **HOST}

DEFINE = """
from typing import Any
from tract_jupyter.operations import ActionDef, OperationSpec, sandboxed
from tract_jupyter.scripts import ScriptLimits

ran, kept = [], []

@tract.tool
def touch(path: str) -> str:
    "Write a file."
    ran.append("touch")
    return "ran"

@tract.tool
def shut(path: str) -> str:
    "Write a file."
    ran.append("shut")
    return "ran"

@tract.tool(read_only=True)
def look(path: Any) -> dict:
    "Look at something."
    if path == "fail":
        raise ValueError("no such thing")
    return {"exc_type": "PermissionError", "message": "a", "kept": kept}

tract.executor.lock_tool("shut")

def script(code):
    made = tract.scripts.run(code, backend="sandbox", fresh=True, limits=ScriptLimits(seconds=1))
    return f"{made.status} {made.value!r} {made.error} {made.stdout}"

def body(code):
    go = ActionDef("go", "", {}, code, isolation="sandbox")
    sandboxed.check_sandboxed = lambda action: None
    try:
        tract.operations.activate(OperationSpec("op", "", {"n": {"type": "int", "default": 1}}, {"go": go}), replace=True)
        pending = tract.fire("op", review=True)
        return f"{pending.go()!r} {pending.status}"
    except Exception as error:
        return f"{type(error).__name__} {error}"

def run(code):
    ways = (script(code), script(f"exec({code!r})"), body(code), body(f"return exec({code!r})"))
    return "\\n".join((*ways, f"ran {ran}, kept {kept}"))

for code in ("import json\\nlook = 1 / 0", "tools.look(path='x')", "tools.touch(path='x')"):
    run(code)  # everything is loaded, the worker runs
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_comes_out(tmp_path):
    found = effects_of(ESCAPES, DEFINE, own_code="<script", folder=tmp_path)
    assert len(found) == len(ESCAPES)
    outside = {name: effects for name, (_, effects) in found.items() if effects}
    assert outside == {}
    assert {name: told for name, (told, _) in found.items() if is_out(told, str(tmp_path))} == {}


def is_out(told: str, folder: str) -> bool:
    """Return True if the outcome has a line of the file above, a path of the machine, or a call of a tool that writes."""
    return "addaudithook" in told or folder in told or "ran [], kept []" not in told
