"""Names: resolution of aliases, and the user's own names that only look dangerous."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import analyze, codes, found
from tract_jupyter.analysis import RiskLevel

ALIASES = {
    "call": "import os\nos.system('x')",
    "as": "import os as o\no.system('x')",
    "from": "from os import system\nsystem('x')",
    "from as": "from os import system as s\ns('x')",
    "star": "from os import *\nsystem('x')",
    "reference": "import os\ns = os.system",
    "argument": "import os\nmap(os.system, names)",
    "default": "import os\ndef f(run=os.system): pass",
    "decorator": "import os\n@os.system\ndef f(): pass",
    "assigned": "import os\nm = os\nm.system('x')",
    "chained": "import os\na = b = os\nc = b\nc.system('x')",
    "unpacked": "import os\nm, *_ = os, 1\nm.system('x')",
    "walrus": "import os\n(m := os).system('x')",
    "for": "import os\nfor m in (1, os):\n    m.system('x')",
    "comprehension": "import os\n[m.system('x') for m in [os]]",
    "subscript": "import os\n[0, os][1].system('x')",
    "dict": "import os\n{'a': os}['a'].system('x')",
    "condition": "import os\n(os if x else None).system('x')",
    "returned": "import os\ndef f():\n    return os\nf().system('x')",
    "lambda": "import os\n(lambda: os)().system('x')",
    "passed": "import os\ndef f(m):\n    m.system('x')\nf(os)",
    "keyword": "import os\ndef f(*, m=None):\n    m.system('x')\nf(m=os)",
    "through": "import os\nwith nullcontext(os) as m:\n    m.system('x')",
    "local import": "def f():\n    import os as q\n    q.system('x')",
    "global": "def f():\n    global m\n    import os as m\ndef g():\n    m.system('x')",
    "nonlocal": "def f():\n    m = 1\n    def g():\n        nonlocal m\n        import os as m\n    m.system('x')",
    "later": "def f():\n    m.system('x')\nimport os as m",
    "class body": "class A:\n    import os\n    os.system('x')",
    "own name in loop": "import os\n[os.system('x') for os in [os]]",
    "getattr": "import os\ngetattr(os, 'sys' + 'tem')('x')",
    "vars": "import os\nvars(os)['system']('x')",
    "dunder dict": "import os\nos.__dict__['system']('x')",
    "getattribute": "import os\nos.__getattribute__('system')('x')",
    "import function": "__import__('os').system('x')",
    "import_module": "import importlib as i\ni.import_module('o' 's').system('x')",
    "sys.modules": "import sys\nsys.modules['os'].system('x')",
    "carried": "import tempfile\ntempfile._os.system('x')",
    "carried by from": "from shutil import os as w\nw.system('x')",
    "posix": "import posix\nposix.system('x')",
    "globals": "import os\nglobals()['os'].system('x')",
    "never imported": "os.system('x')",
    "await": "import os\n(await os).system('x')",
    "walrus in a comprehension": "[m.system('x') for i in y if (m := __import__('os'))]",
    "normalised": "import os\nos.\uff53ystem('x')",
}


@pytest.mark.parametrize("code", ALIASES.values(), ids=ALIASES.keys())
def test_every_way_to_a_function_is_found(code):
    assert ("TJ101", "critical") in found(code)


OWN = {
    "class": "class os:\n    @staticmethod\n    def system(x): ...\nos.system('x')",
    "function": "def compile(x): ...\ncompile('x')\ndef file(x): ...\nfile('x')",
    "parameter": "def f(os, eval=None):\n    eval(os.system('x'))",
    "lambda parameter": "lambda exec: exec('x')",
    "local": "def f():\n    exec = 3\n    return exec",
    "enclosing": "def f(eval):\n    def g():\n        return eval('x')",
    "assigned": "subprocess = Shell()\nsubprocess.run(['x'])",
    "loop": "for eval in fs:\n    eval('x')",
    "with": "with f() as os:\n    os.system('x')",
    "except": "try:\n    f()\nexcept E as os:\n    os.system('x')",
    "match": "match x:\n    case {'a': eval, **os}:\n        eval(os.system)",
    "star target": "a, *eval = fs\neval('x')",
    "relative import": "from .tools import os, eval\neval(os.system('x'))",
    "method": "model.eval(); df.eval('a + b'); re.compile('x'); obj.system('x'); session.exec(q)",
    "class attribute": "class A:\n    def open(self): ...\n    def eval(self): return self.open('/etc/x')",
    "type parameter use": "pending.system('x'); tools.eval('x'); tract.run('x')",
    "string": "x = 'os.system(1)'; '''eval(2)'''",
    "keyword": "f(eval=1, os=2)",
}


@pytest.mark.parametrize("code", OWN.values(), ids=OWN.keys())
def test_names_of_the_users_own_are_quiet(code):
    assert found(code) == set()


MAYBE_BUILTIN = {
    "annotation": "exec: object\nexec(p)",
    "bound later": "def f():\n    exec(p)\nf()\nexec = print",
    "bound later, in a lambda": "f = lambda: exec(p)\nf()\nexec = print",
    "bound later, below a decorator": "@register\ndef f():\n    exec(p)\nexec = print",
    "branch": "if 0: eval = len\neval(p)",
    "one branch of two": "if x:\n    exec = 1\nelse:\n    pass\nexec(p)",
    "loop target": "for exec in (): pass\nexec(p)",
    "loop body": "while x:\n    exec = 1\nexec(p)",
    "with": "with suppress(E):\n    exec = nope\nexec(p)",
    "match": "match x:\n    case exec if 0: pass\nexec(p)",
    "walrus": "x and (exec := 1)\nexec(p)",
    "augmented": "exec += 1\nexec(p)",
    "behind raise": "raise E\nexec = 1\nexec(p)",
    "itself": "exec = exec\nexec(p)",
    "itself in a pair": "exec, x = exec, 1\nexec(p)",
    "swapped": "exec, eval = eval, exec\nexec(p)",
    "a function that is not called": "def f():\n    global eval\n    eval = len\neval(p)",
    "an import that may fail": "try:\n    from fast import eval\nexcept ImportError:\n    pass\neval(p)",
    "del": "exec = print\ndel exec\nexec(p)",
    "pop": "exec = print\nglobals().pop('exec')\nexec(p)",
    "clear": "exec = print\nglobals().clear()\nexec(p)",
    "del attribute": "import __main__\nexec = 1\ndel __main__.exec\nexec(p)",
    "except": "exec = 1\ntry:\n    f()\nexcept E as exec:\n    pass\nexec(p)",
    "reset": "exec = 1\n%reset -f\nexec(p)",
    "class body": "class A:\n    if 0:\n        exec = 1\n    exec(p)",
    "module in a class body": "import os\nclass A:\n    if 0:\n        os = 1\n    os.system(p)",
    "getattr": "import os\ngetattr: object\ngetattr(os, 'sys' 'tem')(p)",
    "vars": "import os\nvars: object\nvars(os)['system'](p)",
    "globals": "import os\nif 0: globals = 1\nglobals()['os'].system(p)",
    "import": "if 0: __import__ = 1\n__import__('os').system(p)",
    "compile": "if 0: compile = 1\ncompile(p, '', 'exec')",
    "open": "if 0: open = 1\nopen('/etc/passwd')",
    "get_ipython": "get_ipython: object\nget_ipython().system(p)",
}


@pytest.mark.parametrize("code", MAYBE_BUILTIN.values(), ids=MAYBE_BUILTIN.keys())
def test_a_name_may_mean_the_builtin_until_it_is_surely_bound(code):
    assert any(level >= RiskLevel.HIGH for _, level in found(code))


@pytest.mark.parametrize(
    "before", ["exec: object", "if 0: exec = 1", "exec = exec", "for exec in (): pass", "exec = 1\ndel exec"]
)
def test_a_name_may_mean_the_builtin_in_later_cells(before):
    assert ("TJ102", "critical") in found("exec(p)", before)


BOUND = {
    "definition": "def compile(x): ...\ncompile(p)",
    "class": "class open:\n    pass\nopen('/etc/x')",
    "import": "from mine import eval, open\neval(p)\nopen('../x')",
    "annotated value": "exec: object = print\nexec(p)",
    "tuple": "exec, y = print, 1\nexec(p)",
    "both branches": "if x:\n    exec = 1\nelse:\n    exec = 2\nexec(p)",
    "import or another": "try:\n    from fast import eval\nexcept E:\n    from slow import eval\neval(p)",
    "within the branch": "if x:\n    exec = print\n    exec(p)",
    "within the loop": "for eval in fs:\n    eval(p)",
    "with": "with f() as exec:\n    exec(p)",
    "before the first call": "def main():\n    return compile(p)\ndef compile(x):\n    return x\nmain()",
    "global": "def f():\n    global exec\n    exec = print\n    exec(p)",
    "annotated local": "def f():\n    exec: object\n    exec(p)",
    "parameter": "def f(open):\n    open('../x')",
}


@pytest.mark.parametrize("code", BOUND.values(), ids=BOUND.keys())
def test_a_bound_name_does_not_mean_the_builtin(code):
    assert found(code) == set()


def test_a_class_body_is_not_visible_from_its_methods():
    code = "import os\nclass A:\n    os = 1\n    def f(self):\n        os.system('x')"
    assert ("TJ101", "critical") in found(code)


def test_earlier_cells_are_known_but_not_reported():
    assert ("TJ101", "critical") in found("r.run(['x'])", "import subprocess", "r = subprocess")
    assert found("run(1)", "def run(x): ...") == set()
    assert codes("x = 1", "eval('1')") == set()
    assert ("TJ102", "critical") in found("e('1')", "def broken(:", "e = exec")
    assert ("TJ204", "high") in found("open(''.join(parts))", "parts = ['/', 'etc', '/', 'passwd']")


def test_a_guessed_name_is_less_certain():
    sure = analyze("import os\nos.system('x')").findings[-1]
    guessed = analyze("os.system('x')").findings[-1]
    assert guessed.confidence < sure.confidence


def test_cycles_end():
    assert found("a = b\nb = a\na.system('x')\nx = x + x\nopen(x)") == set()
    assert ("TJ101", "critical") in found("import os\na = b\nb = a or os\na.system('x')\nb.system('x')")
