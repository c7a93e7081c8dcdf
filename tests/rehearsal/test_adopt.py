"""Keeping effects: names are rebound, shared objects stay shared, and later changes are noticed."""

from __future__ import annotations

import inspect
import io
import math
import os
import random
import sys
import warnings
from array import array
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from tests.rehearsal.copies import findings_of, frames_of
from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal import Backups, Baseline, find_effects, keep

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")


@pytest.fixture
def adopt(workspace, tmp_path):
    """Run code in a fork and keep its effects in the namespace."""

    def run(code, namespace):
        return keep(findings_of(code, namespace, workspace), namespace, Backups(tmp_path / "backups"))

    return run


def test_created_changed_and_deleted_variables(adopt):
    old = [1]
    namespace = {"x": old, "gone": 1}
    change = adopt("y = x + [2]\nx = 3\ndel gone", namespace)
    assert (namespace["x"], namespace["y"], "gone" in namespace) == (3, [1, 2], False)
    assert sorted(change.variables) == ["gone", "x", "y"]
    change.undo()
    assert namespace["x"] is old
    assert ("y" in namespace, namespace["gone"]) == (False, 1)
    change.redo()
    assert (namespace["x"], namespace["y"], "gone" in namespace) == (3, [1, 2], False)


def test_a_change_in_place_gives_a_new_object_to_all_names(adopt):
    frame = pd.DataFrame({"a": [1, 2]})
    namespace = {"df": frame, "view": frame, "held": {"k": [frame]}, "other": [1]}
    change = adopt("df['b'] = 3", namespace)
    assert list(namespace["df"].columns) == ["a", "b"]
    assert namespace["df"] is namespace["view"] is namespace["held"]["k"][0]
    assert list(frame.columns) == ["a"]
    change.undo()
    assert namespace["df"] is namespace["view"] is namespace["held"]["k"][0] is frame


def test_a_change_reaches_a_large_variable_that_the_code_does_not_name(adopt):
    records = [{"number": number} for number in range(30_000)]
    namespace = {"records": records, "last": records[-1]}
    adopt("last['new'] = 1", namespace)
    assert namespace["records"][-1] is namespace["last"]
    assert namespace["last"] == {"number": 29_999, "new": 1}


def test_a_kept_table_can_be_changed_in_place(adopt):
    namespace = {"df": pd.DataFrame({"a": [1, 2], "c": pd.Categorical(["x", "y"])})}
    change = adopt("df['b'] = 3.5\nnew = df.a", namespace)
    exec("df.loc[0, 'a'] = 9\ndf.at[1, 'b'] = 4.5\ndf.loc[0, 'c'] = 'y'\nnew.iloc[0] = 7", namespace)
    assert namespace["df"].iloc[0].tolist() == [9, "y", 3.5]
    assert namespace["df"].b.tolist() == [3.5, 4.5]
    assert namespace["new"].tolist() == [7, 2]
    change.undo(force={"df", "new"})
    exec("df.loc[0, 'a'] = 5", namespace)
    assert namespace["df"].a.tolist() == [5, 2]


def test_changes_in_place_of_objects_without_a_safe_form_are_effects(workspace):
    (workspace.parent / "m").write_bytes(b"ab")
    namespace = {
        "m": np.memmap(workspace.parent / "m", "u1", "c", shape=2), "r": np.rec.array([(1, 2)], names="a,b"), "a": array("i", [1]), "v": memoryview(bytearray(b"ab")),
        "s": io.StringIO("abc"),
    }  # fmt: skip
    for name, code in {
        "m": "m[0] = 9",
        "r": "r.a[0] = 9",
        "a": "a[0] = 9",
        "v": "v[0] = 9",
        "s": "s.write('zz')",
    }.items():
        (effect,) = findings_of(code, namespace, workspace).variables
        assert (effect.name, effect.action) == (name, "changed")
        assert effect.problem
    assert findings_of("m, r, a, v, s", namespace, workspace).variables == []


_PARTS = """
def counter():
    n = 0
    def count():
        nonlocal n
        n += 1
    return count
count = counter()
def f(x, seen=[], *, more={}): seen.append(x); more[x] = 1
def g(): g.calls = 1
class Bird:
    legs = 2
    eggs = []
    def grow(self): type(self).legs += 1
    @classmethod
    def lay(cls): cls.eggs.append(1)
bird = Bird()
lay = bird.lay
class Nest:
    twigs = []
class Home(Nest): pass
home = Home()
"""
_PARTS_OF_LIBRARIES = """
import functools, itertools, sqlite3, threading
seen, table = [1], {"a": 1}
add, put, rows, keys = seen.append, functools.partial(seen.append, 2), iter(seen), table.keys()
texts, pairs, numbers = map(str, iter(seen)), zip(iter(seen), [2]), itertools.count()
lock, base = threading.Lock(), sqlite3.connect(":memory:")
base.execute("create table t(a)")
"""


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("count()", ["count"]),
        ("f(3)", ["f"]),
        ("f(3, [], more={})", []),
        ("g()", ["g"]),
        ("g.__code__ = count.__code__.replace(co_freevars=())", ["g"]),
        ("Bird.legs = 3", ["Bird", "lay"]),
        ("bird.grow()", ["Bird", "lay"]),
        ("lay()", ["Bird", "lay"]),
        ("Bird.eggs.append(2)", ["Bird", "lay"]),
        ("Bird.legs, bird.eggs, count, f, g, lay", []),
        ("home.twigs.append(1)", ["Home", "Nest"]),
        ("Home.__bases__ = (Bird,)", ["Home"]),
        ("own_settings.COLORS.append('red')", ["own_settings"]),
        ("own_settings.SIZE = 2", ["own_settings"]),
        ("own_settings.SIZE, own_settings.COLORS", []),
    ],
)
def test_changed_parts_of_functions_classes_and_modules_are_effects(code, changed, workspace, monkeypatch):
    module = type(sys)("own_settings")
    module.__file__ = str(workspace / "own_settings.py")
    module.SIZE, module.COLORS = 1, []
    monkeypatch.setitem(sys.modules, "own_settings", module)
    monkeypatch.chdir(workspace)
    namespace = {"__name__": "__main__", "own_settings": module}
    exec(_PARTS, namespace)
    effects = findings_of(code, namespace, workspace).variables
    assert sorted(one.name for one in effects) == changed
    assert all(one.problem for one in effects)


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("add(3)", ["add", "pairs", "put", "rows", "seen", "texts"]),
        ("put()", ["add", "pairs", "put", "rows", "seen", "texts"]),
        ("table['b'] = 2", ["keys", "table"]),
        ("next(rows)", ["rows"]),
        ("next(texts)", ["texts"]),
        ("next(pairs)", ["pairs"]),
        ("next(numbers)", ["numbers"]),
        ("lock.acquire()", ["lock"]),
        ("base.execute('insert into t values (1)')", ["base"]),
        ("base.execute('create table u(a)')", ["base"]),
        ("base.execute('select * from t').fetchall(), lock.locked(), add, put, rows, keys, texts, pairs, numbers", []),
    ],
)  # fmt: skip
def test_changed_parts_of_objects_of_libraries_are_effects(code, changed, workspace):
    namespace = {"__name__": "__main__"}
    exec(_PARTS_OF_LIBRARIES, namespace)
    effects = findings_of(code, namespace, workspace).variables
    namespace["base"].close()
    assert sorted(one.name for one in effects) == changed
    assert all(one.problem for one in effects if one.name not in {"seen", "table"})


def test_names_of_one_object_are_named(workspace):
    frame = pd.DataFrame({"a": [1, 2]})
    effects = {
        one.name: one for one in findings_of("df['b'] = 3", {"df": frame, "view": frame}, workspace).variables
    }
    assert effects["df"].aliases == ("view",)


def test_adopted_views_of_an_array_remain_views(adopt):
    array = np.zeros(6)
    namespace = {"a": array, "v": array[2:4]}
    adopt("v[:] = 5", namespace)
    assert namespace["a"].tolist() == [0, 0, 5, 5, 0, 0]
    namespace["a"][3] = 7
    assert namespace["v"].tolist() == [5, 7]


def test_an_unchanged_object_is_the_same_object(adopt):
    model = object()
    namespace = {"model": model, "data": [1]}
    adopt("pair = (model, data); alias = data", namespace)
    assert namespace["pair"][0] is model
    assert namespace["alias"] is namespace["data"] is namespace["pair"][1]


def test_a_function_that_changes_a_global_is_noticed(adopt):
    namespace = {"log": []}
    exec("def note(x):\n    helper(x)\ndef helper(x):\n    log.append(x)", namespace)
    adopt("note(1)", namespace)
    assert namespace["log"] == [1]


@pytest.mark.parametrize(
    "code",
    [
        "hidden()", "globals()['l' + 'og'].append(1)", "exec('lo' + 'g.append(1)')", "import sys; sys._getframe().f_globals['l' + 'og'].append(1)",
        "import builtins; builtins.eval('lo' + 'g.append(1)')", "note.__globals__['l' + 'og'].append(1)",
    ],
)  # fmt: skip
def test_code_that_can_reach_anything_is_noticed(adopt, code):
    namespace: dict = {"log": []}
    exec("def note(): pass\ndef hidden(): globals()['l' + 'og'].append(1)", namespace)
    adopt(code, namespace)
    assert namespace["log"] == [1]


def test_reading_variables_is_not_an_effect(workspace):
    frame = pd.DataFrame({"a": [1, 2], "s": ["x", "y"], "o": pd.Series([[1], {2}], dtype=object)})
    namespace = {"df": frame, "gen": np.random.default_rng(1), "d": {1: frame}, "n": 5, "text": "x"}
    findings = findings_of(
        "df.describe(); df.groupby('s').a.sum(); str(d); n + 1; n = 5; text.upper(); [*df.o]",
        namespace,
        workspace,
    )
    assert findings.variables == []
    assert findings.settings == []


def test_group_caches_are_not_an_effect(workspace):
    frame = pd.DataFrame({"a": [1, 1], "b": [2.0, 3]})
    namespace = {"groups": frame.groupby("a"), "windows": frame.rolling(1), "frame": frame}
    assert findings_of("groups.sum(), groups.groups, windows.mean()", namespace, workspace).variables == []


def test_an_advanced_generator_is_an_effect(adopt):
    namespace = {"rng": np.random.default_rng(1)}
    expected = np.random.default_rng(1).random(3)
    adopt("first = rng.random(2)", namespace)
    assert namespace["first"].tolist() == expected[:2].tolist()
    assert namespace["rng"].random() == expected[2]


def test_imports_bind_modules_and_count_as_no_effect(adopt, workspace):
    findings = findings_of("import json, os.path as p\nfrom math import pi, sqrt", {}, workspace)
    assert all(effect.is_import or effect.name == "pi" for effect in findings.variables)
    namespace: dict = {}
    adopt("import json, os.path as p\nfrom math import sqrt", namespace)
    assert (namespace["json"], namespace["p"], namespace["sqrt"](4)) == (sys.modules["json"], os.path, 2)


def test_a_package_with_its_modules_is_imported(adopt):
    namespace: dict = {}
    adopt("import xml.dom.minidom, xml.sax.saxutils", namespace)
    assert namespace["xml"].dom.minidom is sys.modules["xml.dom.minidom"]
    assert namespace["xml"].sax.saxutils.escape("<") == "&lt;"


FUNCTION = """
SCALE = 2
def scaled(x: "int", *more, by=(3, 4), **rest) -> float:
    'Scale.'
    def inner(y):
        return y * SCALE * by[0]
    return inner(x)
async def later():
    return SCALE
"""


def test_a_plain_function_is_made_from_the_code(adopt):
    namespace: dict = {}
    change = adopt(FUNCTION, namespace)
    direct: dict = {}
    exec(FUNCTION, direct)
    for name in ("scaled", "later"):
        kept, made = namespace[name], direct[name]
        assert (kept.__name__, kept.__doc__, kept.__defaults__, kept.__kwdefaults__) == (
            made.__name__,
            made.__doc__,
            made.__defaults__,
            made.__kwdefaults__,
        )
    assert namespace["scaled"](1) == 6
    namespace["SCALE"] = 5
    assert namespace["scaled"](1) == 15
    assert inspect.iscoroutinefunction(namespace["later"])
    assert inspect.getsource(namespace["scaled"]).startswith("def scaled")
    change.undo()
    assert "scaled" not in namespace


@pytest.mark.parametrize(
    "code",
    [
        "import functools\n@functools.cache\ndef f(): return 1", "def f(x=list()): return x", "def f(): return 1\nf.extra = 2\nf = lambda: 3",
        "def f(): return 1\ndef f(): return 2", "if True:\n    def f(): return 1", "def f(): return 1\nfor f in [print]: pass",
        "def f(): return 1\ndef g():\n    global f\n    f = print\ng()", "class f: pass", "f = lambda: 1",
    ],
)  # fmt: skip
def test_other_functions_are_not_kept(workspace, code):
    effects = {effect.name: effect for effect in findings_of(code, {}, workspace).variables}
    assert "has no safe form" in effects["f"].problem


@pytest.mark.parametrize(
    "patch",
    [
        "f.__code__ = (lambda x=1: x + 2).__code__", "f.__code__ = f.__code__.replace(co_consts=(None, 7))", "f.__defaults__ = (2,)",
        "f.__defaults__ = (True,)", "f.__defaults__ = (object(),)", "f.__kwdefaults__ = {'y': [3]}", "f(y=[9]); f()", "f.extra = 1", "f.__doc__ = 'x'",
        "f.__name__ = 'g'", "import types; globals()['f'] = types.FunctionType(f.__code__, {}, 'f', (1,))",
        "import functools; globals()['f'] = functools.wraps(f)(lambda x=1: 3)",
    ],
)  # fmt: skip
def test_a_function_that_was_changed_after_its_definition_is_not_kept(workspace, patch):
    code = f"def f(x=1, *, y=[2]):\n    y.append(x)\n    return x + 1\n{patch}"
    (effect,) = (one for one in findings_of(code, {}, workspace).variables if one.name == "f")
    assert "has no safe form" in effect.problem


def test_functions_of_all_forms_are_their_definitions(workspace):
    code = """
def f(a, /, b: int = -1, *c, d=(1.5, "x", b"y", None, ...), **e) -> "x":
    '''Text.

        More.
    '''
    def inner(x: int = 1) -> str:
        return [y for y in x if y in {"a", "b", 2j}]
    try:
        return inner(a)
    except ValueError:
        yield lambda: b
async def g():
    async with x as y:
        return await y[1:2]
def h(x={"a": [1, {2}]}): return x
"""
    for prefix in ("", "from __future__ import annotations\n"):
        effects = findings_of(prefix + code, {}, workspace).variables
        assert {one.name: one.problem for one in effects if one.name in "fgh"} == dict.fromkeys("fgh", "")


def test_keeping_a_function_runs_nothing_of_it(adopt):
    code = "def f(x: print('annotation') = 1):\n    print('body')"
    namespace: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        findings_print: list = []
        patch.setattr("builtins.print", lambda *parts: findings_print.append(parts))
        adopt(code, namespace)
        assert findings_print == []
    assert namespace["f"].__annotations__ == {"x": "print('annotation')"}


def test_a_module_of_the_workspace_is_not_imported(adopt, workspace, monkeypatch):
    (workspace / "own_module.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(str(workspace))
    monkeypatch.setitem(sys.modules, "own_module", type(sys)("own_module"))
    namespace: dict = {}
    findings = findings_of("import own_module", namespace, workspace)
    monkeypatch.delitem(sys.modules, "own_module")
    with pytest.raises(RehearsalError, match="own_module is a file of the workspace"):
        keep(findings, namespace, Backups(workspace / "backups"))
    assert namespace == {}


@pytest.fixture
def own_package(workspace, monkeypatch):
    """A loaded package of the workspace, with a module that was not loaded."""
    (workspace / "birds").mkdir()
    (workspace / "birds" / "__init__.py").write_text("")
    (workspace / "birds" / "extra.py").write_text("raise SystemExit('it ran')")
    package = type(sys)("birds")
    package.__path__ = [str(workspace / "birds")]
    monkeypatch.setitem(sys.modules, "birds", package)
    return workspace / "birds" / "extra.py"


def kept_import(code, type_, workspace):
    """Keep the import of a name, as if a copy reported it."""
    name = code.split()[-1]
    header = {"what": "variable", "name": name, "action": "changed", "problem": "no form", "type": type_}
    namespace: dict = {}
    findings = find_effects([(header, b"")], Baseline.take(code, namespace), workspace)
    keep(findings, namespace, Backups(workspace / "backups"))
    return namespace[name]


@pytest.mark.usefixtures("own_package")
@pytest.mark.parametrize("code", ["from birds import extra", "import birds.extra as extra"])
def test_a_module_of_a_loaded_package_is_not_imported(workspace, code):
    with pytest.raises(RehearsalError, match=r"birds\.extra is a file of the workspace"):
        kept_import(code, "module birds.extra", workspace)


def test_a_module_that_another_finder_finds_is_not_imported(own_package, workspace, monkeypatch):
    class Editable:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return spec_from_file_location(name, own_package) if name == "editable" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable])
    with pytest.raises(RehearsalError, match="editable is a file of the workspace"):
        kept_import("import editable", "module editable", workspace)


def test_a_library_does_not_import_a_module_of_the_workspace(own_package, workspace, tmp_path, monkeypatch):
    (workspace / "helper_of_library.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "library_of_test.py").write_text("import helper_of_library")
    monkeypatch.setattr(sys, "path", [str(workspace), str(tmp_path), *sys.path])
    with pytest.raises(RehearsalError, match="helper_of_library is a file of the workspace"):
        kept_import("import library_of_test", "module library_of_test", workspace)


def test_a_library_that_exits_keeps_nothing(workspace, tmp_path, monkeypatch):
    (tmp_path / "exits_in_test.py").write_text("raise SystemExit(1)")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(RehearsalError, match="The import of exits_in_test failed"):
        kept_import("import exits_in_test", "module exits_in_test", workspace)


def test_a_program_is_not_imported(workspace):
    with pytest.raises(RehearsalError, match=r"unittest\.__main__ is a program"):
        kept_import("import unittest.__main__ as program", "module unittest", workspace)
    with pytest.raises(RehearsalError, match="antigravity is a program"):
        kept_import("import antigravity", "module antigravity", workspace)


def test_a_future_import_is_kept(adopt):
    import __future__

    namespace: dict = {}
    adopt("from __future__ import annotations\nnew = 1", namespace)
    assert namespace == {"annotations": __future__.annotations, "new": 1}


def test_an_import_of_a_library_is_kept(workspace, monkeypatch):
    monkeypatch.delitem(sys.modules, "xml.sax.saxutils", raising=False)
    assert (
        kept_import("from xml.sax import saxutils", "module xml.sax.saxutils", workspace).escape("<")
        == "&lt;"
    )


OTHER_IMPORTS = {
    "from json import loads as parse\nif not parse:\n    from subprocess import getoutput as parse": "parse",
    "from json import loads\ndef unused():\n    from pickle import loads": "loads",
    "import math as m\nif not m:\n    from os import path as m": "",
    "import math\nif not math:\n    import os as math": "",
}


@pytest.mark.parametrize("code", OTHER_IMPORTS)
def test_a_name_of_several_imports_is_what_the_copy_had(adopt, workspace, code):
    """The other import, which did not run, would bind something else than the effects show."""
    name = OTHER_IMPORTS[code]
    findings = findings_of(code, {}, workspace)
    if name:
        assert [one.problem != "" for one in findings.variables if one.name == name] == [True]
    else:
        namespace: dict = {}
        adopt(code, namespace)
        assert math in namespace.values()


def test_an_import_that_did_not_run_binds_nothing_else(workspace):
    code = "import math\nm = math\nif not m:\n    import os as m"
    findings = findings_of(code, {}, workspace)
    with pytest.raises(RehearsalError, match="something else than in the rehearsal"):
        keep(findings, {}, Backups(workspace / "backups"))
    (effect,) = findings_of("from json import loads", {}, workspace).variables
    assert effect.after == "function loads, from json"


def test_an_import_over_a_value_is_a_change(workspace):
    findings = findings_of("import json as sightings\nfrom math import pow", {"sightings": [1]}, workspace)
    assert {one.name: one.is_import for one in findings.variables} == {"sightings": False, "pow": False}
    assert findings.effects.headline == "Creates `pow` (function pow, from math). Changes `sightings`."


def test_a_change_without_a_known_earlier_state_is_not_kept(workspace):
    namespace = {"x": [1], "n": 1}
    frames = frames_of("x = [2]; n = 2; y = [3]", namespace)
    assert frames[0][0]["what"] == "digests"
    findings = find_effects(frames[1:], Baseline.take("", namespace), workspace)
    assert findings.effects.problems == ("x: its earlier state is unknown",)
    with pytest.raises(RehearsalError, match="earlier state is unknown"):
        keep(findings, namespace, Backups(workspace / "backups"))


@pytest.mark.parametrize(
    "code",
    [
        "x = 1", "del x", "x += [2]", "for x in [[2]]: pass", "def x(): pass", "import json as x", "from math import pi as x", "from string import *",
        "global x\nx = 2", "match [2]:\n    case x: pass", "with memoryview(b'') as x: x = 1", "(x := 2)", "[x := 2]", "vars()['x'] = 2", "set_x()",
    ],
)  # fmt: skip
def test_the_earlier_state_of_a_changed_variable_is_known(workspace, code):
    namespace: dict = {"x": [1], "digits": [1]}
    exec("def set_x():\n    global x\n    x = 2", namespace)
    findings = findings_of(code, namespace, workspace)
    assert [one for one in findings.variables if "earlier state" in one.problem] == []
    assert {"x", "digits"} & {one.name for one in findings.variables}


@pytest.mark.parametrize(
    ("code", "problem"),
    [("f = lambda: 0", "a function has no safe form"), ("class Own: pass", "a type has no safe form"), ("x = object()", "an object has no safe form"),
     ("x = open('/dev/null')", "a TextIOWrapper has no safe form"), ("x = [1, iter([])]", "a list_iterator has no safe form")],
)  # fmt: skip
def test_values_without_a_safe_form_are_named_and_not_kept(adopt, workspace, code, problem):
    namespace = {"safe": 1}
    findings = findings_of(f"{code}\nsafe = 2", namespace, workspace)
    assert findings.effects.problems == (f"{findings.variables[-1].name}: {problem}",) or problem in str(
        findings.effects.problems
    )
    with pytest.raises(RehearsalError, match=problem):
        adopt(f"{code}\nsafe = 2", namespace)
    assert namespace["safe"] == 1


def test_a_variable_changed_after_the_rehearsal_is_not_overwritten(workspace, tmp_path):
    def findings_after(change, code="y = sum(x)\nz = 1"):
        namespace = {"x": [1, 2], "other": 1}
        findings = findings_of(code, namespace, workspace)
        change(namespace)
        return findings, namespace

    for change, names in (
        (lambda ns: ns.update(other=2), ()), (lambda ns: ns["x"].append(3), ("x",)), (lambda ns: ns.update(x=[1, 2]), ("x",)),
        (lambda ns: ns.pop("x"), ("x",)), (lambda ns: ns.update(y=0), ("y",)),
    ):  # fmt: skip
        findings, namespace = findings_after(change)
        assert findings.changed_since(namespace) == names
        if names:
            with pytest.raises(RehearsalError, match=f"{names[0]} changed after the rehearsal"):
                keep(findings, namespace, Backups(tmp_path / "backups"))
            assert "z" not in namespace


def test_undo_leaves_a_variable_that_changed_since(adopt):
    namespace = {"x": 1}
    change = adopt("x = [2]; y = [3]", namespace)
    namespace["y"].append(4)
    states = {item.name: item.state for item in change.preview()}
    assert states == {"x": "restorable", "y": "changed since"}
    change.undo()
    assert namespace == namespace | {"x": 1, "y": [3, 4]}
    assert [item.state for item in change.undo(force={"y"})] == ["restorable"]
    assert "y" not in namespace


def test_settings_are_kept_and_undone(adopt, monkeypatch, workspace):
    monkeypatch.setenv("REHEARSAL_TEST_OLD", "1")
    (workspace / "sub").mkdir()
    with pd.option_context("display.max_rows", 60), np.printoptions(precision=8):
        change = adopt(
            "import os\nos.environ['REHEARSAL_TEST_NEW'] = 'x'\ndel os.environ['REHEARSAL_TEST_OLD']\nos.chdir('sub')\n"
            "pd.set_option('display.max_rows', 7)\nnp.set_printoptions(precision=3)",
            {"pd": pd, "np": np},
        )
        assert (
            os.environ["REHEARSAL_TEST_NEW"],
            "REHEARSAL_TEST_OLD" in os.environ,
            Path.cwd().name,
        ) == ("x", False, "sub")
        assert (pd.get_option("display.max_rows"), np.get_printoptions()["precision"]) == (7, 3)
        assert set(change.settings) >= {
            "os.environ['REHEARSAL_TEST_NEW']",
            "working folder",
            "pd.options['display.max_rows']",
        }
        change.undo()
        assert (
            "REHEARSAL_TEST_NEW" in os.environ,
            os.environ["REHEARSAL_TEST_OLD"],
            Path.cwd().name,
        ) == (False, "1", "work")
        assert (pd.get_option("display.max_rows"), np.get_printoptions()["precision"]) == (60, 8)


def test_random_states_are_kept(adopt):
    random.seed(5)
    expected = [random.random(), random.random()]
    random.seed(5)
    namespace = {"random": random}
    adopt("first = random.random()", namespace)
    assert [namespace["first"], random.random()] == expected


def test_unsafe_settings_are_named(workspace):
    findings = findings_of("import sys; sys.path.append('/tmp/evil')", {}, workspace)
    assert "run in the kernel" in findings.settings[0].problem


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import decimal; decimal.getcontext().prec = 5", "decimal context"),
        ("import logging; logging.getLogger().addHandler(logging.NullHandler())", "root logger"),
        ("import logging; logging.getLogger('own').setLevel(10)", "logger 'own'"),
        ("import numpy; numpy.seterr(all='ignore')", "np.geterr()"),
        ("import os; os.umask(0o12)", "file mode mask"),
        ("import signal; signal.signal(signal.SIGUSR1, lambda *_: 1)", "signal handlers"),
        ("import socket; socket.setdefaulttimeout(9)", "timeout of sockets"),
        ("import sys; sys.setrecursionlimit(4321)", "recursion limit"),
        ("import sys; sys.displayhook = print", "sys.displayhook"),
        ("import pandas as pd; pd.DataFrame.own = 1", "pd.DataFrame.own"),
        ("import csv\ncsv.reader = 1", "csv.reader"),
        ("import csv\ndel csv.reader", "csv.reader"),
    ],
)
def test_settings_of_the_process_are_named(rehearse, code, name):
    (effect,) = rehearse(f"{code};").settings
    assert (effect.name, effect.problem) == (name, "it is set only by a run in the kernel")


def test_filters_of_warnings_are_kept_and_undone(adopt):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        before = list(warnings.filters)
        code = "import warnings\nwarnings.simplefilter('ignore')\nwarnings.filterwarnings('once', category=UserWarning)"
        change = adopt(code, {})
        assert [one[::2] for one in warnings.filters[:2]] == [
            ("once", UserWarning, 0),
            ("ignore", Warning, 0),
        ]
        assert warnings.filters[2:] == before
        change.undo()
        assert warnings.filters == before


@pytest.mark.parametrize(
    "name",
    [
        "HTTPS_PROXY",
        "no_proxy",
        "OPENAI_BASE_URL",
        "PATH",
        "PYTHONPATH",
        "TRACT_HOME",
        "git_ssh",
        "LD_PRELOAD",
        "BASH_ENV",
        "NODE_OPTIONS",
        "PIP_INDEX_URL",
        "AWS_ENDPOINT_URL_S3",
        "SSH_ASKPASS",
        "PAGER",
        "MPLBACKEND",
        "NUMBA_CUDA_DRIVER",
        "OPENSSL_CONF",
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "DATABASE_URL",
        "MLFLOW_TRACKING_URI",
        "OLLAMA_HOST",
        "PGHOST",
        "QT_PLUGIN_PATH",
        "HOSTALIASES",
        "LDFLAGS",
        "PATH_TO_DATA",
        "HF_HOME",
        "N",
    ],
)
def test_security_relevant_environment_variables_are_reported(workspace, name):
    findings = findings_of(f"import os; os.environ[{name!r}] = 'x'", {}, workspace)
    is_plain = name in {"PATH_TO_DATA", "HF_HOME", "N"}
    assert [bool(one.problem) for one in findings.settings] == [not is_plain]


def test_a_change_behind_the_cut_of_a_long_setting_is_shown(workspace, monkeypatch):
    monkeypatch.setenv("REHEARSAL_LONG", "a" * 200 + "good")
    code = "import os; os.environ['REHEARSAL_LONG'] = 'a' * 200 + 'evil'"
    (setting,) = findings_of(code, {}, workspace).settings
    assert setting.before.startswith("…a")
    assert (setting.before[-4:], setting.after[-4:]) == ("good", "evil")


def test_adopting_a_large_table_costs_about_a_copy(adopt, workspace):
    import time

    rows = 1_000_000
    frame = pd.DataFrame(
        {
            "a": np.arange(rows),
            "b": np.random.default_rng(1).random(rows),
            "t": pd.date_range("2000", periods=rows, freq="s"),
        }
    )
    findings = findings_of("new = df.assign(c=df.a * 2)", {"df": frame}, workspace)
    copy_seconds = min(_seconds(findings.values["new"].copy, time) for _ in range(3))
    namespace = {"df": frame}
    keep_seconds = _seconds(lambda: keep(findings, namespace, Backups(workspace / "backups")), time)
    assert keep_seconds < 20 * copy_seconds + 0.2  # digests of two tables; the benchmarks measure this


def _seconds(work, time):
    start = time.process_time()
    work()
    return time.process_time() - start


def test_a_drawing_is_left_out_and_the_rest_is_kept(workspace, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    old = plt.figure()
    namespace = {"fig": old, "plt": plt, "held": old}
    code = "fig, ax = plt.subplots()\nlines = ax.plot([1, 2])\ntotal = 3"
    findings = findings_of(code, namespace, workspace)
    assert findings.effects.left_out == ("fig", "ax", "lines")
    assert findings.effects.headline == "Creates `total` (int 3). Not kept: `fig`, `ax` and `lines`."
    change = keep(findings, namespace, Backups(tmp_path / "backups"))
    assert (namespace["fig"], namespace["total"]) == (old, 3)
    assert namespace.keys().isdisjoint({"ax", "lines"})
    assert change.variables == ("total",)
    change.undo()
    assert namespace == {"fig": old, "plt": plt, "held": old}
    plt.close("all")


def test_a_drawing_that_changes_in_place_must_run_in_the_kernel(workspace):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    figure, axes = plt.subplots()
    effects = findings_of("ax.plot([1, 2])", {"fig": figure, "ax": axes}, workspace).effects
    assert effects.left_out == ()
    assert "ax: an Axes has no safe form" in effects.problems
    plt.close("all")
