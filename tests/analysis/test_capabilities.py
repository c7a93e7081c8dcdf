"""The capabilities of code, and new capabilities of a change. A false one annoys, a missing one is a security hole."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.analysis.test_totality import PIECES, SPECIAL
from tract_jupyter.analysis import Capabilities, capabilities_of, widened

PARAMETERS = ("pending", "urls", "open_all")


def reach(code):
    return capabilities_of(code, parameters=PARAMETERS)


def gained(old, new):
    """The new entries, as `field entry`."""
    found = widened(reach(old), reach(new))
    return {f"{field.name} {entry}" for field in fields(found) for entry in getattr(found, field.name)}


BASE = """
import os
rows = []
for url in urls:
    name = url.strip()
    rows.append(name)
if not rows:
    pending.reject("nothing to do")
print(f"{len(rows)} rows", os.getcwd())
pending.approve()
"""

HARMLESS = {
    "nothing": (BASE, BASE),
    "a renamed local": (BASE, BASE.replace("rows", "found").replace("name", "text")),
    "a renamed import": ("import os as o\no.getcwd()", "import os as system\nsystem.getcwd()"),
    "an alias less": ("import os\no = os\no.getcwd()", "import os\nos.getcwd()"),
    "a renamed function": ("def f(a):\n    return a.x\nf(urls)", "def g(b):\n    return b.x\ng(urls)"),
    "a renamed keyword": ("def f(a):\n    exec(a)\nf(a=urls)", "def f(b):\n    exec(b)\nf(b=urls)"),
    "a renamed class": ("class A:\n    x = 1\nA().x", "class B:\n    x = 1\nB().x"),
    "a renamed loop": ("[u.x for u in urls]", "[v.x for v in urls]"),
    "a renamed lambda": ("map(lambda u: eval(u), urls)", "map(lambda v: eval(v), urls)"),
    "a renamed unknown": ("x = urls[0]\nexec(x)", "y = urls[0]\nexec(y)"),
    "a renamed flow": ("a = urls\nb = a + a\nexec(b)\ngetattr(os, b)", "c = urls\nd = c + c\nexec(d)\ngetattr(os, d)"),
    "a renamed path": ("p = urls[0]\nopen(p)", "path = urls[0]\nopen(path)"),
    "comments": (BASE, BASE + "# os.system('rm -rf /')  https://example.org\n"),
    "layout": ("print(  1,2 )\n", "print(\n    1,\n    2,\n)"),
    "quotes": ("exec('x')", 'exec("x")'),
    "a message": (BASE, BASE.replace("nothing to do", "There is nothing to do here.")),
    "a message that is formatted": (BASE, BASE.replace(' rows"', ' rows were found"')),
    "a number": ("x = urls[3] * 2", "x = urls[4] * 8"),
    "another order": ("import os\nimport re\nos.getcwd()\nre.sub", "import re\nimport os\nre.sub\nos.getcwd()"),
    "less": (BASE, "import os"),
    "a message near a computed path": ("p = urls[0]\nopen(p)\npending.reject(f'no {p}')", "p = urls[0]\nopen(p)\npending.reject(f'there is no {p}')"),
    "an own function": ("print(1)", "def f():\n    return print(1)\nf()"),
    "an exception": ("try:\n    x = 1\nexcept ValueError:\n    pass", "try:\n    x = 1\nexcept KeyError:\n    pass"),
    "an indented cell": ("  print(1)", "print(1)"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), HARMLESS.values(), ids=HARMLESS.keys())
def test_harmless_edits_widen_nothing(old, new):
    assert gained(old, new) == set()
    assert widened(reach(old), reach(new)) == Capabilities()


# old code, new code, and capabilities that must be among the new ones
WIDENED = {
    "import": ("", "import os", {"imports os"}),
    "submodule": ("import urllib", "import urllib.request", {"imports urllib.request"}),
    "relative import": ("", "from .x import y", {"imports .x", "attributes .x.y"}),
    "from import": ("import os", "from os import system", {"attributes os.system"}),
    "call": ("import os\nos.getcwd()", "import os\nos.abort()", {"calls os.abort"}),
    "alias": ("import os\nos.getcwd()", "from os import abort as getcwd\ngetcwd()", {"calls os.abort"}),
    "module alias": ("import os\nos.getcwd()", "import os\no = os\no.abort()", {"calls os.abort"}),
    "swapped module": ("import re as m\nm.f()", "import os as m\nm.f()", {"imports os", "calls os.f"}),
    "builtin": ("x = 1", "x = input()", {"calls input"}),
    "builtin handed on": ("map(len, urls)", "map(eval, urls)", {"attributes eval"}),
    "getattr": ("import os\ngetattr(os, 'getcwd')()", "import os\ngetattr(os, 'ab' + 'ort')()", {"calls os.abort"}),
    "getattr computed": ("getattr(os, 'sep')", "getattr(os, urls[0])", {"unknown a computed attribute: getattr(os, urls[0])"}),
    "getattr of another": ("getattr(os, urls[0])", "getattr(os, urls[1])", {"unknown a computed attribute: getattr(os, urls[1])"}),
    "getattr after": ("n = urls[0]\ngetattr(os, n)", "n = urls[1]\ngetattr(os, n)", {"unknown a computed attribute, _ = urls[1]"}),
    "getattr of a local": ("x = urls[0]\ngetattr(x, 'a')", "x = urls[0]\ngetattr(x, '__globals__')", {"attributes urls[...].__globals__"}),
    "setattr": ("", "setattr(pending, 'status', 1)", {"attributes pending.status ="}),
    "setattr computed": ("", "setattr(pending, urls[0], 1)", {"unknown a computed attribute: setattr(pending, urls[0], 1)"}),
    "dunder import": ("", "__import__('os')", {"imports os", "calls __import__"}),
    "dunder import of another": ("__import__('re')", "__import__('o' + 's')", {"imports os"}),
    "import_module": ("import importlib", "import importlib\nimportlib.import_module(urls[0])", {"unknown a computed import: importlib.import_module(urls[0])"}),
    "import_module's package": ("import importlib\nimportlib.import_module('.run', 'good')", "import importlib\nimportlib.import_module('.run', 'evilpkg')", {"unknown a computed import: importlib.import_module('.run', 'evilpkg')"}),
    "import_module's package by name": ("import importlib\nimportlib.import_module('.run', package='good')", "import importlib\nimportlib.import_module('.run', package=urls[0])", {"unknown a computed import: importlib.import_module('.run', package=urls[0])"}),
    "import_module with more": ("import importlib\nimportlib.import_module('.run')", "import importlib\nimportlib.import_module('.run', **urls[0])", {"unknown a computed import: importlib.import_module('.run', **urls[0])"}),
    "dunder import's fromlist": ("__import__('a', None, None, ['good'])", "__import__('a', None, None, ['evil'])", {"unknown a computed import: __import__('a', None, None, ['evil'])"}),
    "dunder import's level": ("__import__('a')", "__import__('a', level=1)", {"unknown a computed import: __import__('a', level=1)"}),
    "vars": ("", "vars()", {"calls vars"}),
    "vars item": ("vars(os)['sep']", "vars(os)['abort']()", {"calls os.abort"}),
    "globals": ("globals()['x']", "globals()['y']", {"unknown names looked up by text: globals()['y']"}),
    "locals": ("locals()", "locals()['exec']", {"unknown names looked up by text: locals()['exec']"}),
    "class chain": ("", "().__class__.__base__.__subclasses__()", {"calls tuple.__class__.__base__.__subclasses__"}),
    "function globals": ("f = urls[0]\nf.__globals__['a']", "f = urls[0]\nf.__globals__['b']", {"unknown the interpreter's insides: _.__globals__['b']"}),
    "sys.modules": ("import sys\nsys.modules['re']", "import sys\nsys.modules['os'].abort()", {"calls os.abort"}),
    "default": ("def f(a=1): pass", "def f(a=os.abort): pass", {"attributes os.abort"}),
    "default call": ("def f(a=1): pass", "def f(a=open('x')): pass", {"files read:x", "calls open"}),
    "lambda": ("f = lambda: 1", "f = lambda: os.abort()", {"calls os.abort"}),
    "decorator": ("def f(): pass", "@os.abort\ndef f(): pass", {"calls os.abort"}),
    "decorated": ("def f(): pass\nf()", "@urls[0]\ndef f(): pass\nf()", {"unknown a computed call: urls[0]", "unknown a computed call: _"}),
    "base class": ("class A: pass", "class A(os.PathLike): pass", {"attributes os.PathLike"}),
    "pattern": ("", "match urls:\n    case list(__class__=c): pass", {"attributes ?.__class__"}),
    "star": ("import os", "from os import *", {"unknown everything of os"}),
    "star use": ("from os import *", "from os import *\nabort()", {"calls os.abort"}),
    "exec": ("", "exec('x')", {"calls exec", "unknown code from text: exec('x')"}),
    "exec of another": ("exec('x')", "exec('y')", {"unknown code from text: exec('y')"}),
    "exec of a local": ("c = 'x'\nexec(c)", "c = 'y'\nexec(c)", {"unknown code from text, _ = 'y'"}),
    "exec of a list": ("c = []\nc.append('x')\nexec(''.join(c))", "c = []\nc.append('y')\nexec(''.join(c))", {"unknown code from text, _ = 'y'"}),
    "exec of an item": ("c = {}\nc[0] = 'x'\nexec(c[0])", "c = {}\nc[0] = 'y'\nexec(c[0])", {"unknown code from text, _ = 'y'"}),
    "exec of an alias": ("c = []\nd = c\nd.append('x')\nexec(c[0])", "c = []\nd = c\nd.append('y')\nexec(c[0])", {"unknown code from text, _ = 'y'"}),
    "exec of a captured value": ("match urls[0]:\n    case c: pass\nexec(c)", "match urls[1]:\n    case c: pass\nexec(c)", {"unknown code from text, _ = urls[1]"}),
    "exec of a named part": ("[exec(c) for u in urls if (c := u.x)]", "[exec(c) for u in urls if (c := u.y)]", {"unknown code from text, _ = _.y"}),
    "getattr of a captured value": ("n = 'sep'\ngetattr(os, n)", "n = 'sep'\nmatch urls:\n    case n: pass\ngetattr(os, n)", {"unknown a computed attribute, _ = urls"}),
    "exec of a result": ("def f(): return 'x'\nexec(f())", "def f(): return 'y'\nexec(f())", {"unknown code from text, _ = 'y'"}),
    "exec of a method": ("class A:\n    def f(self): return 'x'\nexec(A().f())", "class A:\n    def f(self): return 'y'\nexec(A().f())", {"unknown code from text, _ = 'y'"}),
    "exec of an argument": ("def f(a): exec(a)\nf('x')", "def f(a): exec(a)\nf('y')", {"unknown code from text, _ = 'y'"}),
    "exec by another name": ("e = exec\ne('x')", "e = exec\ne('y')", {"unknown code from text: _('y')"}),
    "exec of something stored": ("pending.x = 'x'\nexec(pending.x)", "pending.x = 'y'\nexec(pending.x)", {"unknown code from text, _ = 'y'"}),
    "eval of a frame": ("df.eval('a')", "df.eval('b')", {"unknown code from text: df.eval('b')"}),
    "pickle": ("", "import pickle\npickle.loads(urls[0])", {"unknown code from text: pickle.loads(urls[0])"}),
    "command": ("import subprocess as s\ns.run(['ls'])", "import subprocess as s\ns.run(['rm'])", {"unknown a command: subprocess.run(['rm'])"}),
    "shell line": ("!ls", "!rm -rf x", {"unknown a shell line or magic: !rm -rf x"}),
    "shell assignment": ("x = 1", "x = !ls", {"unknown a shell line or magic: x = !ls"}),
    "magic": ("", "%run x.py", {"unknown a shell line or magic: %run x.py"}),
    "cell magic": ("%%bash\nls", "%%bash\nrm", {"unknown a shell line or magic: %%bash\nrm"}),
    "magic with Python": ("%time 1", "%time os.abort()", {"calls os.abort"}),
    "not Python": ("x = 1", "def f(:", {"unknown code that does not parse"}),
    "computed call": ("", "urls[0]()", {"unknown a computed call: urls[0]"}),
    "computed call of another": ("f = urls[0]\nf()", "f = urls[1]\nf()", {"unknown a computed call, _ = urls[1]"}),
    "call of a call": ("", "urls()()", {"calls urls()"}),
    "method": ("x = urls[0]\nx.a()", "x = urls[0]\nx.b()", {"calls urls[...].b"}),
    "method of anything": ("def f(x): x.a()", "def f(x): x.system()", {"calls ?.system"}),
    "method of a branch": ("x = urls if urls else 1\nx.a()", "import os\nx = urls if urls else os\nx.a()", {"calls os.a"}),
    "read": ("open('a.txt')", "open('b.txt')", {"files read:b.txt"}),
    "write": ("open('a.txt')", "open('a.txt', 'w')", {"files write:a.txt"}),
    "update": ("open('a.txt', 'w')", "open('a.txt', 'r+')", {"files read:a.txt"}),
    "computed mode": ("open('a.txt')", "open('a.txt', urls[0])", {"files write:a.txt"}),
    "computed path": ("open('a.txt')", "open(urls[0])", {"files read:?", "unknown a computed path: urls[0]"}),
    "a computed path covers nothing": ("open(urls[0])", "open(urls[0])\nopen('a')", {"files read:a"}),
    "another computed path": ("open(urls[0])", "open(urls[1])", {"unknown a computed path: urls[1]"}),
    "partly computed path": ("open('a')", "x = 'a'\nif urls:\n    x = urls[0]\nopen(x)", {"files read:?", "unknown a computed path, _ = urls[0]"}),
    "lengthened path": ("x = 'a'\nopen(x)", "x = 'a'\nx += '/b'\nopen(x)", {"files read:?", "unknown a computed path, _ = '/b'"}),
    "path of many": ("", "".join(f"p = 'f{i}'\n" for i in range(9)) + "open(p)", {"files read:?", "unknown a computed path, _ = 'f8'"}),
    "joined path": ("import os\nopen(os.path.join('a', 'b'))", "import os\nopen(os.path.join('a', 'c'))", {"files read:a/c"}),
    "unpacked path": ("open('a')", "open(*urls)", {"files read:?"}),
    "keywords of a path": ("open('a')", "open(**urls)", {"files read:?"}),
    "path object": ("from pathlib import Path\nPath('a').read_text()", "from pathlib import Path\n(Path('a') / 'b').write_text('')", {"files write:a/b"}),
    "path of anything": ("", "urls[0].unlink()", {"files delete:?"}),
    "delete": ("import os", "import os\nos.remove('a')", {"files delete:a"}),
    "tree": ("", "import shutil\nshutil.rmtree('/')", {"files delete:/"}),
    "rename": ("import os", "import os\nos.rename('a', 'b')", {"files delete:a", "files write:b"}),
    "copy": ("", "import shutil\nshutil.copy('a', 'b')", {"files read:a", "files write:b"}),
    "descriptor": ("", "import os\nos.open('a', 1)", {"files write:a"}),
    "table": ("", "urls.to_csv('a')", {"files write:a"}),
    "opener handed on": ("map(open, ['a'])", "map(open, ['b'])", {"unknown a function handed on: map(open, ['b'])"}),
    "path for a tool": ("tools.read(path='a.txt')", "tools.read(path='/etc/passwd')", {"files names:/etc/passwd"}),
    "path in two pieces": ("x = 1", "x = '/e' + 'tc'", {"files names:/etc"}),
    "URL": ("x = 'https://a.org/x'", "x = 'https://b.org/x'", {"hosts b.org"}),
    "URL of a request": ("import requests\nrequests.get('http://a.org')", "import requests\nrequests.get('http://a.org.b.org')", {"hosts a.org.b.org"}),
    "path of a URL": ("x = 'https://a.org/x'", "x = 'https://a.org/y'", {"files names:https://a.org/y"}),
    "user of a URL": ("x = 'https://a.org/x'", "x = 'https://a.org@b.org/x'", {"hosts a.org@b.org"}),
    "formatted URL": ("h = 'a.org'\nx = f'https://{h}/'", "h = 'b.org'\nx = f'https://{h}/'", {"hosts b.org"}),
    "computed host": ("x = f'https://a.org/{urls}'", "x = f'https://{urls}/'", {"hosts ?"}),
    "lengthened host": ("x = f'https://a.org/{urls}'", "x = f'https://a.org{urls}/'", {"hosts ?"}),
    "computed address": ("requests.get('http://a.org')", "requests.get(urls[0])", {"hosts ?", "unknown a computed address: urls[0]"}),
    "another address": ("requests.get(urls[0])", "requests.get(urls[1])", {"unknown a computed address: urls[1]"}),
    "second argument": ("", "requests.request('GET', 'http://a.org')", {"hosts a.org"}),
    "socket": ("", "import socket\nsocket.socket().connect(('b.org', 80))", {"hosts b.org"}),
    "hidden URL": ("", "x = 'moc.live//:sptth'[::-1]", {"hosts evil.com"}),
    "tool": ("tools.a()", "tools.b()", {"tools b"}),
    "tool of the tract": ("", "pending.tract.tools.b()", {"tools b", "calls pending.tract.tools.b"}),
    "tool handed on": ("", "t = tools\nmap(t.b, urls)", {"tools b"}),
    "tool by name": ("", "getattr(tools, 'b')(1)", {"tools b"}),
    "tool by item": ("tools['a']()", "tools['b']()", {"unknown a computed call: tools['b']"}),
    "fire": ("tract.fire('a')", "pending.tract.fire('b')", {"tools fire_b"}),
    "fire computed": ("tract.fire('a')", "tract.fire(urls[0])", {"tools fire_?", "unknown a computed tool: urls[0]"}),
    "executor": ("", "tract.executor.execute('b', {})", {"tools b"}),
    "attribute": ("pending.fields", "pending.tract", {"attributes pending.tract"}),
    "whole pending": ("pending.approve()", "print(pending)", {"attributes pending"}),
    "item written": ("pending.fields['a']", "pending.fields['a'] = 1", {"attributes pending.fields[...] ="}),
    "item written by another name": ("f = pending.fields\nf['a']", "f = pending.fields\nf['a'] = 1", {"attributes pending.fields[...] ="}),
    "item deleted": ("pending.fields['a']", "del pending.fields['a']", {"attributes del pending.fields[...]"}),
    "attribute written": ("pending.status", "pending.status = 1", {"attributes pending.status ="}),
    "attribute written by a loop": ("", "for pending.status in urls: pass", {"attributes pending.status ="}),
    "field updated": ("pending.fields['a']", "pending.fields.update(a=1)", {"calls pending.fields.update"}),
    "field changed deep": ("pending.fields['a']", "pending.fields['a'].clear()", {"calls pending.fields[...].clear"}),
    "approval": ("pending.reject('no')", "pending.approve()", {"calls pending.approve"}),
    "environment": ("os.environ['HOME']", "os.environ['KEY']", {"attributes os.environ['KEY']"}),
    "environment call": ("os.getenv('HOME')", "os.getenv('KEY')", {"attributes os.getenv('KEY')"}),
    "format": ("'{0}'.format(urls)", "'{0.__class__}'.format(urls)", {"unknown a format that reads private attributes: '{0.__class__}'"}),
    "element called": ("[t for t in tools]", "[t() for t in tools]", {"calls tools[...]", "unknown a computed call: _"}),
    "element of a comprehension": ("[u for u in ['a']]", "[exec(u) for u in ['a']]", {"unknown code from text, _ = ['a']"}),
    "decision by text": ("pending.apply_decision({'action': 'reject'})", "pending.apply_decision({'action': 'approve'})", {"unknown code from text: pending.apply_decision({'action': 'approve'})"}),
    "method of a loop": ("[u.a() for u in urls]", "[u.b() for u in urls]", {"calls urls[...].b"}),
    "global elsewhere": ("x = 'a'\nopen(x)", "x = 'a'\ndef f():\n    global x\n    x = 'b'\nopen(x)", {"files read:b"}),
    "deleted shadow": ("open = print\nopen('a')", "open = print\ndel open\nopen('b')", {"files read:b"}),
    "parameter that is called as a builtin": ("", "open_all('x')", {"calls open_all"}),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), WIDENED.values(), ids=WIDENED.keys())
def test_new_capabilities_are_reported(old, new, expected):
    assert expected <= gained(old, new)
    assert widened(reach(old), reach(new)) != Capabilities()


def test_capabilities_of_a_simple_action_are_complete():
    code = "import os\nif 'a' in pending.fields['x']:\n    pending.fields['x'] = 2\npending.tract.compile()\nos.getcwd()"
    assert reach(code) == Capabilities(
        imports=frozenset({"os"}),
        calls=frozenset({"pending.tract.compile", "os.getcwd"}),
        attributes=frozenset(
            {"pending.fields", "pending.fields[...] =", "pending.tract.compile", "os.getcwd"}
        ),
    )


def test_code_that_does_not_parse():
    assert capabilities_of("def f(:") == Capabilities(unknown=frozenset({"code that does not parse"}))


def test_nothing_reaches_nothing():
    assert capabilities_of("") == Capabilities()
    assert capabilities_of("x = 1\ny = x + 2\ndef f(a):\n    return a\nf(y)") == Capabilities()
    assert capabilities_of("print()") != Capabilities()


def test_merged():
    one, other = capabilities_of("import os"), capabilities_of("import re\nprint()")
    both = one.merged([other])
    assert both.imports == {"os", "re"}
    assert both.calls == {"print"}
    assert one.merged([]) == one
    assert widened(both, one) == Capabilities()


def test_a_parameter_is_not_the_builtin_of_its_name():
    old = capabilities_of("open('a')", parameters=["open"])
    assert old.calls == {"open(parameter)"}
    assert not old.files & {"read:a"}
    assert "open" in widened(old, capabilities_of("open('a')")).calls


VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "analyzer.json").read_text(encoding="utf-8"))
ENDLESS = {"dos-01", "dos-04", "dos-18"}  # they take time and have no capabilities


def test_every_adversarial_snippet_widens():
    old = reach(BASE)
    for vector in VECTORS:
        code = "\n".join(vector.get("cells") or [vector["code"]])
        if vector["kind"] == "adversarial" and vector["id"] not in ENDLESS:
            assert widened(old, reach(code)) != Capabilities(), vector["id"]


@pytest.mark.parametrize("code", [code for code, _ in SPECIAL.values()], ids=SPECIAL.keys())
def test_capabilities_of_unparsable_code_are_unknown(code):
    assert capabilities_of(code) == Capabilities(unknown=frozenset({"code that does not parse"}))


@pytest.mark.parametrize(
    "code",
    [
        "+".join(["'a/b'"] * 300), "a" + ".b" * 300, "f" + "()" * 300, "x = '" + "a" * 10**6 + "'",
        "exec(" + "+".join(["x"] * 300) + ")", "exec(0x" + "f" * 10_000 + ")", "x" + "[0]" * 300 + "()",
        "a0 = 'x'\n" + "\n".join(f"a{i} = a{i - 1} + a{i - 1}" for i in range(1, 200)) + "\nopen(a199)\nexec(a199)",
        "x = y\ny = x\nexec(x)\nopen(x)\nx()\nx.a", "exec(f'{a!r:>{b}}' \"\\n\" f'{c}')", "open('\\ud800')\nexec('\\ud800')",
        "x = '" + "{._" * 100_000 + "'", "x = '" + "://" * 100_000 + "'", "x = '" + "a/" * 2000 + " '",
    ],
    ids=range(14),
)  # fmt: skip
def test_deep_and_long_code_is_understood(code):
    found = capabilities_of(code)
    assert not any("gave up" in entry for entry in found.unknown)
    assert "code that does not parse" not in found.unknown


@settings(max_examples=200)
@given(st.text())
def test_any_text_widens_nothing_over_itself(code):
    assert widened(capabilities_of(code), capabilities_of(code)) == Capabilities()


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_mixture_of_python_widens_nothing_over_itself(code):
    found = capabilities_of(code)
    assert widened(found, capabilities_of(code)) == Capabilities()
    assert not any("gave up" in entry for entry in found.unknown)


PRELUDE = (
    "import os\nimport requests as {m}\n{a} = 1\n{b} = urls\n{c} = os\ndef {f}({p}=2):\n    return {p}\n"
)
STATEMENTS = [
    "{a} = {b}", "{b} = {c}", "{c} = 'x.txt'", "{a} += '/y'", "{c} = {f}({b})", "{b} = [{a}, {c}]", "{a}, {b} = {c}, 1",
    "open({a})", "open({b}, {c})", "exec({a})", "exec({b} + {c})", "{a}.system({b})", "{b}.append({c})", "{b}[0] = {a}",
    "{c}.x = {a}", "getattr({a}, {b})({c})", "getattr(os, 'sep')", "{m}.get({a})", "{m}.get(f'https://{{{a}}}/x')",
    "for {a} in {b}:\n    {a}.y = {c}", "{f}({p}={a})", "{a} = {f}", "{a}()", "def {f}({p}):\n    exec({p})\n    return {b}",
    "with open({a}) as {c}:\n    {c}.read()", "{b} = lambda {p}: {p}.z({a})", "[{a}.q for {a} in {b}]", "if ({c} := {a}): pass",
    "tools.t({a})", "pending.fields['k'] = {a}", "pending.tract.fire({c})", "import shutil as {a}", "os.environ[{b}]",
    "class {b}:\n    {a} = {c}", "from pathlib import Path as {c}\n{c}({a}).unlink()", "map({a}, {b})", "{a} = globals()[{c}]",
    "try:\n    pass\nexcept ValueError as {a}:\n    {a}.args", "def {f}({p}):\n    global {a}\n    {a} = {p}", "print(f'{{{a}}}', {b})",
]  # fmt: skip
FIRST = {"a": "a", "b": "b", "c": "c", "f": "f", "p": "p", "m": "m"}
SECOND = {"a": "zeta", "b": "a", "c": "alpha", "f": "b", "p": "last_one", "m": "m2"}

statements = st.lists(st.sampled_from(STATEMENTS), max_size=8)


def program(chosen, names):
    return "\n".join([PRELUDE, *chosen]).format(**names)


@settings(max_examples=150)
@given(statements)
def test_renaming_all_locals_changes_nothing(chosen):
    assert reach(program(chosen, FIRST)) == reach(program(chosen, SECOND))


@settings(max_examples=150)
@example(["for {a} in {b}:\n    {a}.y = {c}"], "{a} = {b}")
@given(statements, st.sampled_from(STATEMENTS))
def test_adding_a_statement_never_shrinks(chosen, more):
    assert widened(reach(program([*chosen, more], FIRST)), reach(program(chosen, FIRST))) == Capabilities()
