"""Scripts of the kernel that only read run without a question, if the user switched that on. All others are asked about."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.review.fakes import FakeChannel, click
from tests.scripts.reading import MORE_THAN_READING, ORDINARY, PATCHED, PATCHES, SETUP
from tract_jupyter import Tract
from tract_jupyter.analysis import CodeAnalyzer, why_not_reading
from tract_jupyter.exceptions import GrantError
from tract_jupyter.review import deciding
from tract_jupyter.scripts import READS, KernelVariables, reading_scripts

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

CHAT = "agent:chat"


def kept(namespace):
    """The user's values, as text: a library may arrange a table's columns in another way."""
    tables = [namespace[name] for name in ("df", "regions")]
    others = [namespace[name] for name in ["arr", "rows", "words", "settings", "text", "total"]]
    return repr([[table.to_dict(), table.dtypes.to_dict(), table.index.names] for table in tables]), repr(
        others
    )


@pytest.fixture(scope="module")
def namespace():
    """The variables of a notebook."""
    made = {}
    exec(SETUP, made)  # what the notebook's user ran
    return made


@pytest.fixture(scope="module")
def analyzer():
    return CodeAnalyzer()


def why(code, namespace, analyzer):
    if analyzer.analyze(code, cells_before=[SETUP]).findings:
        return "it has findings"
    return why_not_reading(code, KernelVariables(namespace))


@pytest.mark.slow
@pytest.mark.parametrize("code", ORDINARY.values(), ids=ORDINARY)
def test_an_ordinary_script_only_reads(code, namespace, analyzer):
    assert why(code, namespace, analyzer) == ""
    before = kept(namespace)
    exec(code, dict(namespace))  # it passed
    namespace["plt"].close("all")
    assert kept(namespace) == before
    assert namespace["account"].log == []


@pytest.mark.parametrize("code", MORE_THAN_READING.values(), ids=MORE_THAN_READING)
def test_a_script_that_may_do_more_is_asked_about(code, namespace):
    assert why_not_reading(code, KernelVariables(namespace))
    assert namespace["account"].log == []  # finding that out runs nothing


@pytest.mark.parametrize(
    "code",
    [
        "pd.Series([{'text/html': '<script>'}]).apply(display, raw=True)",
        "pd.Series([{'text/html': '<script>'}]).agg(display, raw=True)",
        "list(map(display, [1]))",
        "display({'text/html': '<script>'}, raw=True)",
    ],
)
def test_what_shows_html_is_asked_about(code, namespace, monkeypatch):
    from IPython.display import display

    monkeypatch.setattr("builtins.display", display, raising=False)
    assert why_not_reading("display(df)", KernelVariables(namespace)) == ""
    assert why_not_reading(code, KernelVariables(namespace))


def test_a_figure_of_the_user_is_not_drawn_on(namespace, tract, monkeypatch):
    plt = namespace["plt"]
    assert why_not_reading("plt.title('x')", KernelVariables(namespace)) == ""
    monkeypatch.setitem(plt.rcParams, "text.usetex", True)
    assert "LaTeX" in why_not_reading("plt.title('x')", KernelVariables(namespace))
    monkeypatch.setitem(plt.rcParams, "text.usetex", False)
    made = plt.figure()
    for code in ["plt.title('x')", "df.plot()", "df['price'].hist()", "plt.figure(1, clear=True)"]:
        assert "figure of yours" in why_not_reading(code, KernelVariables(namespace))
    plt.close(made)
    tract.scripts.run("import matplotlib.pyplot\nmatplotlib.pyplot.figure()")
    assert why_not_reading("plt.title('x')", KernelVariables(namespace)) == ""  # that figure is a script's
    plt.close("all")


@pytest.mark.slow
def test_names_that_were_given_another_meaning_are_asked_about():
    """In a process of its own: what is changed stays changed."""
    for name, patch in PATCHES.items():
        code = f"""
from tests.scripts.reading import SETUP
from tract_jupyter.analysis import why_not_reading
from tract_jupyter.scripts import KernelVariables
made = {{}}
exec(SETUP, made)
assert not why_not_reading({PATCHED[name]!r}, KernelVariables(made))
exec({patch!r}, made)
why = why_not_reading({PATCHED[name]!r}, KernelVariables(made))
"""
        done = subprocess.run(
            [sys.executable, "-c", f"{code}import os; os._exit(0 if why else 7)"], check=False, timeout=60
        )
        assert done.returncode == 0, name


def test_a_package_that_is_not_loaded_is_asked_about(namespace, monkeypatch):
    monkeypatch.delitem(sys.modules, "statistics")
    assert "not loaded yet" in why_not_reading("import statistics", KernelVariables(namespace))


def test_a_module_that_lies_beside_the_notebook_is_asked_about(namespace, tmp_path, monkeypatch):
    (tmp_path / "seaborn.py").write_text("def lineplot(x): return 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "seaborn", raising=False)
    __import__("seaborn")
    assert "not loaded yet" in why_not_reading("import seaborn as sns", KernelVariables(namespace))
    monkeypatch.delitem(sys.modules, "seaborn")


@pytest.mark.parametrize("code", ["x = 1\n" * 20_000, "x = (" * 500, "(" * 5_000, "x = 1 +", "\0"])
def test_what_cannot_be_read_is_asked_about(code, namespace):
    assert why_not_reading(code, KernelVariables(namespace))


# --- the switch


@pytest.fixture
def call(tract):
    def execute(code, actor=CHAT, backend="kernel"):
        arguments = {"code": code, "backend": backend, "notebook_id": "user"}
        return tract.executor.execute("notebook_execute", arguments, actor=actor)

    return execute


@pytest.fixture
def on(tract):
    """A notebook with variables, where the user switched it on."""
    tract.scripts.notebooks.user_namespace = {"n": [1, 2, 3]}
    tract.reviewer.channel = FakeChannel()
    tract.review.grants.begin_rule(reading_scripts())
    return tract


def asked(tract):
    return list(dict.fromkeys(request.code[0].code for request, _ in tract.reviewer.channel.shown))


def test_it_is_off_by_default(tract, call):
    tract.scripts.notebooks.user_namespace = {"n": [1, 2, 3]}
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    assert call("sum(n)").output["result"] == "6"
    assert asked(tract) == ["sum(n)"]
    assert not tract.review.grants.has_rule()


def test_a_script_that_only_reads_runs_and_is_recorded_as_a_decision(on, call):
    assert call("sum(n)").output["result"] == "6"
    assert asked(on) == []
    (made,) = on.review.decisions()
    (grant,) = on.review.grants.all()
    assert (made.channel, made.decided_by, made.error) == ("grant", f"grant:{grant.grant_id}", None)
    assert made.signature
    assert made.finished_at is not None
    assert (grant.covers, grant.scope, grant.uses, grant.whom, grant.state) == (
        READS,
        "session",
        1,
        CHAT,
        "live",
    )


def test_two_scripts_are_two_questions(on, call):
    call("sum(n)")
    call("max(n)")
    first, second = on.review.decisions()
    assert first.fingerprint != second.fingerprint
    assert first.identity != second.identity


def test_all_others_are_asked_about(on, call):
    for code in ["n.append(4)", "open('x')", "tools.status()", "import os", "del n", "n = 1"]:
        on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
        assert call(code).denied
        assert asked(on) == [code]
    assert on.scripts.notebooks.user_namespace["n"] == [1, 2, 3]


ASKED_BECAUSE = {
    "n.append(4)": "line 1 may change your variable `n`",
    "k = 1\nn['a'] = k": "line 2 may change your variable `n`",
    "n += [1]": "line 1 may change your variable `n`",
    "k = n\nk.append(1)": "line 2 may change an object that the script did not make",
    "n = 1": "line 1 gives your variable `n` a new value",
    "del n": "line 1 uses `del`",
    "sum(n)\nopen('x')": "line 2 reads a file",
    "open('x')\nopen('y', 'w')": "line 2 writes a file inside the workspace",
    "import shutil\nshutil.rmtree('x')": "line 2 deletes, moves or changes files",
    "import subprocess\nsubprocess.run(['ls'])": "line 2 starts another program",
    "tools.status()": "the name `tools` is not known (line 1)",
    "import os": "line 1 imports os",
    "import wave": "line 1 imports wave, which is not known, or not loaded yet",
    "print(" + "1, " * 9_000 + ")": "it has more than 20,000 characters",
}


@pytest.mark.parametrize(("code", "reason"), ASKED_BECAUSE.items())
def test_a_request_says_why_the_script_did_not_run_at_once(on, call, code, reason):
    on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call(code).denied
    (request, _), *_ = on.reviewer.channel.shown
    assert request.why.startswith(f"Asked because {reason}. The model wrote this code.")


def test_without_automatic_runs_a_request_gives_no_such_reason(tract, call):
    tract.scripts.notebooks.user_namespace = {}
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call("open('x')").denied
    (request, _), *_ = tract.reviewer.channel.shown
    assert request.why.startswith("The model wrote this code.")


@pytest.mark.parametrize(
    "actor", ["agent:1", "agent:chat/x", "agent:chat:main", "orchestrator", "mcp", "policy:x"]
)
def test_only_the_model_of_the_conversation_has_it(on, call, actor):
    on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call("sum(n)", actor=actor).denied
    assert asked(on) == ["sum(n)"]


def test_a_script_keeps_its_own_names(on, call):
    assert call("best = max(n)").success
    assert call("best = best + 1\nbest").output["result"] == "4"
    on.scripts.notebooks.user_cells = lambda: ["print(best)"]
    on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call("best = 0").denied  # a cell of the user's uses it


@pytest.mark.parametrize(
    "first",
    ["[total for total in [1]]", "def f():\n    total = 1\n    return total"],
    ids=["loop", "function"],
)
def test_a_name_inside_a_script_makes_no_variable_its_own(on, call, first):
    on.scripts.notebooks.user_namespace["total"] = 5  # no cell mentions it: it came by `from lib import *`
    assert call(first).success
    on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call("total = 0").denied


def test_a_variable_that_changed_elsewhere_is_the_users(on, call):
    assert call("best = max(n)").success
    on.scripts.notebooks.user_namespace["best"] = [7]
    on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call("best = 0").denied


def test_a_cell_mentions_a_name_in_another_writing(on, call):
    assert call("\u03bc = max(n)").success
    on.scripts.notebooks.user_cells = lambda: ["print(\u00b5)"]  # the micro sign: the same name for Python
    on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call("\u03bc = 0").denied


def test_a_script_sees_the_variables_that_were_looked_at(on, call, monkeypatch):
    """Another thread gives a variable a value between the look and the run, and while it runs."""
    variables, restore = on.scripts.notebooks.user_namespace, on.scripts.notebooks.restore

    def changed(namespace):
        variables["x"] = variables["n"]
        restore(namespace)

    monkeypatch.setattr(on.scripts.notebooks, "restore", changed)  # it is called right before the run
    assert call("for i in []:\n    x = [0]\nx.append(4)").output["status"] == "failed"  # it has no x
    del variables["x"]
    assert call("y = 7\nx = [y]").output["status"] == "completed"
    assert variables["x"] is variables["n"]  # the value of the other thread is kept
    assert variables["n"] == [1, 2, 3]
    assert variables["y"] == 7


def test_a_function_of_a_script_sees_the_users_variables_later(on, call):
    assert call("y = 3\ndef f(a, *, b=1):\n    return a + b + y\nf(1)").output["result"] == "5"
    variables = on.scripts.notebooks.user_namespace
    variables["y"] = 10
    assert variables["f"](1) == 12


@pytest.mark.parametrize("code", ["def load(x):\n    return x", "load = lambda x: x"])
def test_a_function_that_a_cell_may_call_is_asked_about(on, call, code):
    on.scripts.notebooks.user_cells = lambda: ["def run(): return load(n)"]
    on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call(code).denied


def test_a_rule_that_is_switched_off_ends_it(on, call):
    from tract_jupyter.operations import Advice

    on.operations.advice = Advice(off=["TJ201"])
    on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call("sum(n)").denied


def test_switched_off_each_is_asked_about_again(on, call):
    assert on.review.grants.end_rules() == 1
    assert on.review.grants.end_rules() == 0
    on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call("sum(n)").denied


def test_it_ends_with_the_process(on, call, monkeypatch):
    monkeypatch.setattr("tract_jupyter.review.grants.this_process", lambda: "another")
    on.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    assert call("sum(n)").denied


def test_no_model_switches_it_on(tract):
    with deciding("model", "model:x"), pytest.raises(GrantError, match="only the user"):
        tract.review.grants.begin_rule(reading_scripts())


@pytest.fixture
def ask(tract, monkeypatch):
    """Have the user click with these arguments when a script is asked about."""
    from tract_jupyter.review import decision

    monkeypatch.setattr(decision, "_PERSONAL", decision._PERSONAL | {"fake"})
    tract.scripts.notebooks.user_namespace = {"n": [1, 2, 3]}

    def clicking(code, **arguments):
        tract.reviewer.channel = FakeChannel(
            lambda ticket: click(ticket, "approve", **arguments), lambda ticket: click(ticket, "reject")
        )
        return tract.executor.execute(
            "notebook_execute", {"code": code, "backend": "kernel", "notebook_id": "user"}, actor=CHAT
        )

    return clicking


def test_it_is_switched_on_where_a_script_is_approved(tract, ask, call):
    assert ask("sum(n)", scope="session").output["result"] == "6"
    assert call("max(n)").output["result"] == "3"
    assert asked(tract) == ["sum(n)"]


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("sum(n)", {"scope": "always"}),
        ("sum(n)", {"scope": "session", "whom": "anybody"}),
        ("sum(n)", {"scope": "session", "edits": {"code": "import os"}}),
        ("n.append(1)", {"scope": "session"}),
    ],
    ids=["for good", "for anybody", "for a changed script that does more", "for a script that does more"],
)
def test_it_is_not_given_for_more(tract, ask, code, arguments):
    ask(code, **arguments)
    assert not tract.review.grants.has_rule()
    assert tract.scripts.notebooks.user_namespace["n"] == [1, 2, 3]


def test_another_store_gives_none(on, own_store, call):
    with Tract.open(url=own_store) as other:
        assert not other.review.grants.has_rule()


DATABASE = """
import sqlite3
con = sqlite3.connect(":memory:")
con.execute("create table t (a)")
cur = con.cursor()
connections, holder = [con], {"con": con}
sql = "insert into t values (1)"
def run(q): return con.execute(q)
"""
DATABASE_WRITES = [
    "con.execute('insert into t values (1)')", "con.execute(sql)", "con.execute(f'insert into {text} values (1)')",
    "cur.execute(sql)", "cur.executemany('insert into t values (?)', rows)", "con.executescript(sql)", "con.commit()",
    "con.cursor().execute(sql)", "connections[0].execute(sql)", "holder['con'].execute(sql)",
    "[c.execute(sql) for c in connections]", "run(sql)", "list(map(con.execute, [sql]))", "list(map(run, [sql]))",
    "import sqlite3\nsqlite3.connect('shop.db').execute(sql)", "from sqlite3 import connect\nconnect('shop.db')",
    "sqlite3.connect('shop.db')", "df.to_sql('t', con)", "df.to_sql('t', con, if_exists='replace')",
    "df.to_sql(name='t', con='sqlite:///shop.db')", "pd.DataFrame.to_sql(df, 't', con)", "df.to_sql",
    "pd.read_sql(sql, con)", "pd.read_sql_query(sql, 'sqlite:///shop.db')", "pd.io.sql.execute(sql, con)",
    "df.pipe(pd.DataFrame.to_sql, 't', con)", "df.pipe(lambda d: d.to_sql('t', con))",
    "df.apply(lambda r: con.execute(sql), axis=1)", "df['units'].map(con.execute)", "sorted([sql], key=con.execute)",
    "with con:\n    con.execute(sql)", "getattr(con, 'execute')(sql)", "x = con\nx.execute(sql)",
    "def f(c=con):\n    c.execute(sql)\nf()", "f'{con.execute(sql)}'", "max([sql], key=con.execute)",
    "functools.reduce(lambda a, b: con.execute(b), [sql, sql])", "df.query('@con.execute(@sql)')",
    "pd.eval('con.execute(sql)')", "df.eval('x = @con.execute(@sql)')", "con.row_factory = None", "con.backup(con)",
    "import duckdb\nduckdb.sql(sql)", "import sqlalchemy\nsqlalchemy.create_engine('sqlite:///shop.db')",
]  # fmt: skip


@pytest.mark.parametrize("code", DATABASE_WRITES)
def test_a_script_that_may_change_a_database_is_asked_about(code, namespace):
    variables = dict(namespace)
    exec(DATABASE, variables)
    assert why_not_reading(code, KernelVariables(variables))
    assert variables["con"].total_changes == 0
