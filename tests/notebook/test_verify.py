"""What a headless run would refuse, told without running anything."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import nbformat
import pytest

import tract_jupyter
from tests.review.rigging import project
from tract_jupyter import Tract, verify, verify_store
from tract_jupyter.__main__ import main
from tract_jupyter.exceptions import ContentError, StoreError, TrustError
from tract_jupyter.notebook import parse_fire, steps
from tract_jupyter.review import PROJECT_FILE, RecordedDecision, read_lock, write_lock
from tract_jupyter.runs.profile import OperationProfile, run_operation

LOAD = "%load_ext tract_jupyter"
DEFINE = """%%tract_operation deploy --ask
'''Put it online.'''
x: int = 1

def go(pending, n: int = 2):
    import os
    os.system("touch /tmp/it_ran")
    pending.approve()
"""
FIRE = "p = %tract_fire deploy x=3"


@pytest.fixture
def book(tmp_path):
    """Writes a notebook with these code cells after a text."""

    def write(*sources, name="book.ipynb"):
        cells = [nbformat.v4.new_markdown_cell("%tract_fire deploy")]
        cells += [nbformat.v4.new_code_cell(source) for source in sources]
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        return path

    return write


@pytest.fixture
def lock(tmp_path):
    """Records answers as a live notebook would: made of what is really asked there, in order."""

    def record(*sources, answers=None, folder=tmp_path):
        entries = []
        with Tract.open() as tract:
            for source in sources:
                (step,) = steps(source)
                if hasattr(step, "parsed"):
                    pending = tract.propose_operation(step.parsed.spec)
                    entries.append(entry(pending, "activation", **(answers or {}).get(source, {})))
                    pending.approve()
                else:
                    given = parse_fire(step.text, {})
                    pending = tract.fire(given.operation, given.fields, review=True)
                    entries.append(entry(pending, "operation", **(answers or {}).get(source, {})))
        project(folder / "tract.lock.json").keep()
        write_lock(folder / "tract.lock.json", entries)
        return folder / "tract.lock.json"

    def entry(pending, kind, **changes):
        made = RecordedDecision(
            kind, pending.title, pending.identity, "approve", {}, "ada", "2026-01-02T03:04:05.000006+00:00"
        )
        return replace(made, **changes).signed(project())

    return record


def told(found):
    return [(r.kind, r.cell, r.line, r.what) for r in found]


# --- what is recorded


def test_nothing_is_refused_where_all_is_recorded(book, lock):
    lock(DEFINE, FIRE)
    assert verify(book(LOAD, DEFINE, FIRE)) == []
    assert verify(str(book(LOAD, DEFINE, FIRE).parent)) == []


def test_nothing_is_recorded(book):
    path = book(LOAD, DEFINE, FIRE)
    activation, fired = verify(path)
    assert (activation.cell, activation.line, activation.what) == (3, 1, "activate operation deploy")
    assert activation.why == "tract.lock.json has no entry for 'Activate operation deploy'"
    assert fired.why == "operation 'deploy' would not be active: its activation in cell 3 would be refused"
    assert str(fired) == f"{path}, cell 4, line 1: refused: %tract_fire deploy: {fired.why}"


@pytest.mark.parametrize("changed", [DEFINE.replace("touch", "Touch"), DEFINE.replace("= 2", "= 3"),
                                     DEFINE.replace("online", "on line"), DEFINE.replace(" --ask", "")])  # fmt: skip
def test_one_changed_character(book, lock, changed):
    lock(DEFINE)
    assert "for other code or other values" in verify(book(changed))[0].why


def test_changed_values(book, lock):
    lock(DEFINE, FIRE)
    refused, unused = verify(book(DEFINE, FIRE.replace("3", "4")))
    assert "for other code or other values" in refused.why
    assert (unused.kind, unused.what) == ("unused", "entry 2, deploy")


def test_asked_more_often_than_answered(book, lock):
    lock(DEFINE, FIRE)
    (found,) = verify(book(DEFINE, FIRE, FIRE))
    assert (found.cell, found.why) == (4, "tract.lock.json answers 'deploy' once, and it is asked more often")


def test_what_is_not_asked_is_not_listed(book):
    own = DEFINE.replace(" --ask", " --activate")
    assert verify(book(LOAD, own, FIRE, "%tract ops", "1 + 1", "!ls", "tract.user('x')")) == []
    (found,) = verify(book(own, FIRE + " --review"))
    assert found.what == "%tract_fire deploy"


def test_running_the_same_cell_again_asks_nothing(book, lock):
    lock(DEFINE)
    assert verify(book(DEFINE, DEFINE)) == []


def test_an_entry_for_a_version_in_a_later_cell(book, lock):
    later = DEFINE.replace("touch", "rm")
    lock(DEFINE, later, FIRE)
    found, unused = verify(book(DEFINE, FIRE, later))
    assert unused.kind == "unused"
    assert (found.cell, found.why) == (
        3,
        "the entry in tract.lock.json is for the version of 'deploy' in cell 4",
    )


def test_fired_before_it_is_defined(book, lock):
    lock(DEFINE, FIRE)
    found = verify(book(FIRE, DEFINE))
    assert found[0].why == "operation 'deploy' is not active yet: it is defined in cell 3"


def test_a_recorded_rejection(book, lock):
    lock(DEFINE, answers={DEFINE: {"action": "reject"}})
    assert verify(book(DEFINE)) == []
    (found,) = verify(book(DEFINE, FIRE))
    assert "would not be active: ada rejected it" in found.why
    (found,) = verify(book(DEFINE.replace("--ask", "--ask --wait")))
    assert "'--wait' stops the run there" in found.why


def test_the_version_before_stays_active(book, lock):
    own = DEFINE.replace(" --ask", " --activate")
    (found,) = verify(book(own, DEFINE, FIRE))
    assert (found.cell, found.what) == (3, "activate operation deploy")


# --- who signed


@pytest.mark.parametrize("name", ["action", "decided_by", "signature"])
def test_an_entry_that_was_changed(book, lock, name):
    path = lock(DEFINE)
    data = json.loads(path.read_text())
    data["entries"][0][name] = "0" * 64
    path.write_text(json.dumps(data))
    refused, unsigned = verify(book(DEFINE))
    assert refused.why.startswith(
        "the entry for 'Activate operation deploy' in tract.lock.json is not signed with your"
    )
    assert (unsigned.kind, unsigned.path, unsigned.cell) == ("unsigned", path, None)


def test_without_the_secret_and_with_that_of_the_environment(book, lock, data_dir, monkeypatch):
    lock(DEFINE)
    secret = data_dir / "tract_jupyter" / "secret"
    value = secret.read_bytes().hex()
    secret.unlink()
    assert [r.kind for r in verify(book(DEFINE))] == ["refused", "unsigned"]
    assert not secret.exists()
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", value)
    assert verify(book(DEFINE)) == []
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", "x")
    with pytest.raises(TrustError):
        verify(book(DEFINE))


def test_what_was_recorded_elsewhere_is_told(book, lock, tmp_path):
    path = lock(DEFINE)
    (tmp_path / PROJECT_FILE).rename(tmp_path / "kept.json")
    refused, foreign = verify(book(DEFINE))
    assert "nothing says that this folder is that one" in refused.why
    assert (foreign.kind, foreign.path) == ("foreign", path)
    (tmp_path / PROJECT_FILE).write_text(json.dumps({"version": 1, "project": "0" * 32}))
    refused, foreign = verify(book(DEFINE))
    assert (foreign.kind, "was recorded in another project" in refused.why) == ("foreign", True)
    (tmp_path / PROJECT_FILE).write_text("{")
    (damaged,) = verify(book(DEFINE))
    assert "holds no id of a project" in damaged.why


def test_what_was_recorded_in_another_notebook_is_told(book, lock, tmp_path):
    lock(DEFINE, answers={DEFINE: {"notebook": "first.ipynb"}})
    refused, foreign = verify(book(DEFINE))
    assert "was recorded in the notebook first.ipynb, which is not here" in refused.why
    assert foreign.kind == "foreign"
    first = book(LOAD, DEFINE, name="first.ipynb")
    assert verify(first) == []
    assert verify(book(DEFINE.replace("x: int", "x:int"), name="second.ipynb"))[0].why.endswith(
        "the cell that asks is not in that"
    )


def test_a_damaged_lock_file(book, tmp_path):
    (tmp_path / "tract.lock.json").write_text("{")
    (found,) = verify(book(DEFINE))
    assert (found.kind, found.path) == ("refused", tmp_path / "tract.lock.json")
    assert "cannot be read as a lock file" in found.why


# --- what only a run tells


@pytest.mark.parametrize(("cell", "why"), [
    ("%tract_fire deploy x=$n", "values of its variables"),
    ("%tract_fire deploy --fields $all", "values of its variables"),
    ("%tract_fire deploy \\\n x=3", "values of its variables"),
    ("for i in range(3):\n    %tract_fire deploy x=3", "the code around it decides"),
    ("if 'deploy' in tract.status().operations:\n    p = %tract_fire deploy y=$n --review", "the code around it decides"),
    ("if 'other' in tract.status().operations:\n    p = %tract_fire other", "the code around it decides"),
    ("tools.fire_deploy(x=3)", "Python code"),
    ("await tract.fire('deploy', {'x': 3})", "Python code"),
    ("tract.fire(name)", "Python code"),
    ("tract.propose_operation(spec)", "Python code"),
    ("tools.propose_operation(name='x', actions={})", "Python code"),
    ("get_ipython().run_line_magic('tract_fire', line)", "Python code"),
    ("%run other.py", "Python code"),
    ("tract.on('deploy', f)\n%tract_fire deploy x=3", "a handler may decide"),
    ("tract.on('*', f)\n%tract_fire deploy x=3", "a handler may decide"),
])  # fmt: skip
def test_what_cannot_be_told_is_not_called_refused_and_its_entries_not_unused(book, lock, cell, why):
    lock(DEFINE, FIRE)
    found, *rest = verify(book(DEFINE, cell))
    assert (found.kind, found.cell) == ("unknown", 3)
    assert why in found.why
    assert [other.kind for other in rest] == (["unused"] if "'other'" in cell else [])


@pytest.mark.timeout(60)  # quickly: a fraction of a second each
@pytest.mark.parametrize("length", [300, 900, 3_000])
@pytest.mark.parametrize("name", ["strip", "fire", "fire_deploy", "on"])
def test_long_chains_of_calls_are_told_quickly(book, lock, name, length):
    found = verify(book("x = tract" + f".{name}()" * length))
    assert {r.kind for r in found} <= {"unknown"}
    assert all(len(r.what) < 20 * length for r in found)
    if name == "strip":
        assert found == []


def test_an_operation_that_no_cell_defines(book):
    (found,) = verify(book("tract.register_operation(spec)", FIRE))
    assert (found.kind, found.why) == ("unknown", "no cell before defines operation 'deploy'")


def test_a_tool_of_an_operation_that_asks_nobody(book):
    assert verify(book(DEFINE.replace("--ask", "--activate"), "tools.fire_deploy(x=3)")) == []


def test_an_action_that_may_leave_it_open_may_ask_again(book, lock):
    lock(DEFINE, FIRE, FIRE.replace("3", "4"), answers={FIRE: {"action": "go"}})
    assert verify(book(DEFINE, FIRE)) == []


# --- what would stop the run anyway


@pytest.mark.parametrize(("cell", "line", "why"), [
    ("%%tract_operation deploy\nx = 1", 1, "line 2: "), ("%%tract_operation\nx: int", 1, "name the operation"),
    ("%%tract_operation a b\nx: int", 1, "'b' is too much in the line"),
    ("\n\n%%tract_operation deploy\ndef go(pending):\n    yield 1", 3, "yield"),
    ("%%tract_operation x --json\n{", 1, "not valid JSON"),
    (DEFINE.replace("--ask", "--activate --ask") + "\ndef approve(pending):\n    pass", 1, "reserved"),
])  # fmt: skip
def test_a_definition_that_is_none(book, cell, line, why):
    (found,) = verify(book(cell))
    assert (found.kind, found.cell, found.line) == ("refused", 2, line)
    assert why in found.why


@pytest.mark.parametrize("line", ["%tract_fire", "%tract_fire deploy y=1", "%tract_fire deploy x='a'", "%tract_fire deploy x=(1",
                                  "%tract_fire deploy x=1 x=2"])  # fmt: skip
def test_a_line_that_cannot_be_fired(book, line):
    own = DEFINE.replace("--ask", "--activate --ask")
    (found,) = verify(book(own, "y = 2\n" + line))
    assert (found.kind, found.cell, found.line) == ("refused", 3, 2)


def test_cells_that_are_not_python_say_nothing(book):
    assert (
        verify(book("%%bash\n%tract_fire deploy", "this is no Python", "'''\n%tract_fire deploy\n'''")) == []
    )


def test_a_magic_within_a_timed_cell_and_an_indented_cell(book, lock):
    lock(DEFINE, FIRE)
    indented = "\n" + "".join(
        f"  {line}" if line.strip() else line for line in DEFINE.splitlines(keepends=True)
    )
    assert verify(book(indented, "%%time\n" + FIRE)) == []


def test_the_other_forms_of_a_definition(book, lock):
    form = {"description": "", "fields": {}, "actions": {"go": {"code": "pending.approve()"}}}
    cell = "%%tract_operation x --json --ask\n" + json.dumps(form)
    lock(cell, "%tract_fire x")
    assert verify(book(cell, "%tract_fire x")) == []


# --- which notebooks


def test_notebooks_that_share_a_lock_file_use_each_others_entries(book, lock, tmp_path):
    lock(DEFINE, FIRE)
    one, two = book(DEFINE, name="one.ipynb"), book(DEFINE, FIRE, name="two.ipynb")
    assert verify(one) == verify(two) == verify(tmp_path) == []
    two.write_text("no notebook")
    assert told(verify(one)) == [("unused", None, None, "entry 2, deploy")]


def test_a_folder_has_all_below_it_but_jupyters_copies(book, lock, tmp_path):
    book(DEFINE, name="a/one.ipynb")
    book(DEFINE, name="b/two.ipynb")
    book(DEFINE, name="b/.ipynb_checkpoints/two.ipynb")
    (tmp_path / "b" / "broken.ipynb").write_text("{")
    lock(DEFINE, folder=tmp_path / "a")
    found = verify(tmp_path)
    assert [(r.path.relative_to(tmp_path).as_posix(), r.what) for r in found] == [
        ("b/broken.ipynb", "the notebook"),
        ("b/two.ipynb", "activate operation deploy"),
    ]


def test_another_name_of_the_lock_file(book, lock):
    lock(DEFINE).rename(book(DEFINE).parent / "other.json")
    assert verify(book(DEFINE), lock_file="other.json") == []
    assert len(verify(book(DEFINE))) == 1


def test_what_is_no_notebook(tmp_path):
    (tmp_path / "x.ipynb").write_text("{")
    for path in (tmp_path / "x.ipynb", tmp_path / "none.ipynb"):
        with pytest.raises(ContentError):
            verify(path)


def test_what_it_says_is_what_is_asked_in_a_notebook(shell, book, lock, tmp_path):
    entries = read_lock(lock(DEFINE, FIRE))
    shell.run(DEFINE)
    shell.run("tract.operations.rebuild(tract.review.inbox()[0]).approve()")
    shell.run(FIRE)
    asked = {stored.identity for stored in shell.namespace["tract"].review.inbox()}
    assert asked == {entry.identity for entry in entries if entry.kind == "operation"}


# --- the command line


def test_what_it_prints_hides_nothing(book):
    path = book("tools['\x1b[2K\u202e'].fire_x()", "%%tract_operation a\x1b[2K\nx: int")
    assert {r.kind for r in verify(path)} == {"unknown", "refused"}
    assert not any(set("\x1b\u202e") & set(str(found)) for found in verify(path))


def test_the_command_line(book, lock, capsys, tmp_path):
    path = book(DEFINE, "tools.fire_x()")
    assert main(["verify", str(path)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path}, cell 2, line 1: refused: activate operation deploy: ")
    assert ": unknown: tools.fire_x(...)" in second
    lock(DEFINE)
    assert main(["verify", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    (tmp_path / "tract.lock.json").rename(tmp_path / "l.json")
    assert main(["verify", str(path), "--lock-file", "l.json"]) == 0


def test_the_command_line_says_what_it_cannot_tell(tmp_path, capsys, monkeypatch, lock, book):
    assert main(["verify", str(tmp_path / "none.ipynb")]) == 2
    assert "none.ipynb cannot be read" in capsys.readouterr().err
    lock(DEFINE)
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", "0f" * 31)
    assert main(["verify", str(book(DEFINE))]) == 2
    error = capsys.readouterr().err
    assert "holds no secret" in error
    assert "0f0f" not in error


@pytest.mark.parametrize("words", [[], ["verify"], ["other"], ["verify", "a", "b"]])
def test_bad_usage(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert "usage: tract-jupyter" in capsys.readouterr().err


def test_it_runs_as_a_module_without_ipython(book):
    path = book(DEFINE)
    code = f"import sys, runpy; sys.argv = ['x', 'verify', {str(path)!r}]\ntry: runpy.run_module('tract_jupyter', run_name='__main__')\nexcept SystemExit as stop: print(stop.code, 'IPython' in sys.modules, 'sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].startswith("1 False")
    assert done.stderr == ""


def test_it_is_public():
    assert {"verify", "Refusal"} <= set(tract_jupyter.__all__)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sqlite:///{}/none.db", "there is no store sqlite:///"),
        ("sqlite:///file:{}/none.db?uri=true", "there is no store sqlite:///"),
        ("{}/no folder/none.db", "there is no store"),
        ("sqlite:///{}/empty.db", "is no store: the file is empty"),
        ("{}/empty.db", "is no store: the file is empty"),
        ("{}/garbage.sqlite", "is no store: it does not begin as an SQLite file does"),
        ("sqlite://", "a store in memory, which is always empty"),
        ("nonsense://x", "there is no driver for nonsense://x"),
        ("{}/" + "x" * 300 + ".db", "there is no store"),
    ],
)
def test_a_store_that_is_none_is_refused_and_none_is_made(tmp_path, capsys, text, told):
    (tmp_path / "empty.db").touch()
    (tmp_path / "garbage.sqlite").write_text("garbage")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    store = text.format(tmp_path)
    with pytest.raises(StoreError, match=re.escape(told)):
        verify_store(store)
    for command in ("verify", "mcp-server"):
        assert main([command, store]) == 2
        shown = capsys.readouterr()
        assert told in shown.err
        assert shown.out == ""
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_in_a_database_without_a_store_none_is_made(postgres_server, capsys):
    with postgres_server.database() as url:
        with pytest.raises(StoreError, match="there is no store in postgresql.*Nothing was changed"):
            verify_store(url)
        for command in ("verify", "mcp-server"):
            assert main([command, url]) == 2
            assert "there is no store" in capsys.readouterr().err
        database = url.partition("@/")[2].partition("?")[0]
        assert postgres_server.sql("SELECT 1 FROM pg_tables WHERE schemaname = 'public'", database) == []


def test_a_path_with_the_signs_of_a_url_is_a_path(tmp_path):
    path = tmp_path / "a?b%20c.db"
    with Tract.open(path) as tract:
        tract.user("x")
    assert [found.tract_id for found in verify_store(path)] == [tract.tract_id]
    assert [
        found.tract_id for found in verify_store(f"sqlite:///file:{tmp_path}/a%253Fb%252520c.db?uri=true")
    ]


def test_what_only_a_run_tells_leaves_the_exit_code_at_0(book, capsys):
    """As its help says."""
    assert main(["verify", str(book("tools.fire_x()"))]) == 0
    assert ": unknown: " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["verify", "--help"])
    assert "listed as unknown, leaves it at 0" in " ".join(capsys.readouterr().out.split())


def test_what_others_put_into_a_store_is_listed_and_is_no_damage(tmp_path, spec, monkeypatch, capsys):
    path = tmp_path / "t.db"
    with Tract.open(path) as tract:
        tract.register_operation(spec(name="own"))
        tract.fire("own", {"urls": []}, review=True).approve()
    assert verify_store(path)[0].unsigned == ()
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", "ab" * 32)  # another user
    with Tract.open(path) as tract:
        tract.register_operation(spec(name="theirs"))
        tract.hooks.save_handler("theirs", "guard", "pending.reject('no')")
        tract.fire("theirs", {"urls": []}, review=True).approve(scope="always")
        waiting = tract.fire("theirs", {"urls": ["a"]}, review=True)
        tract.profiles.save(
            OperationProfile.of("mine", [run_operation("mood", text="x", into="system", order=1)])
        )
    monkeypatch.delenv("TRACT_JUPYTER_SECRET")
    (found,) = verify_store(path)
    assert found.damaged == ()
    assert [line.partition(":")[0].split()[0] for line in found.unsigned] == [
        "operation", "handler", "profile", "grant", "question", "decision"
    ]  # fmt: skip
    told = "\n".join(found.unsigned)
    assert "operation 'theirs': nobody here has approved it" in told
    assert f"question {waiting.pending_id[:8]} 'theirs': not signed by you" in told
    assert re.search(r"decision 1 on \w{8}, 'approve' of '\w+': not signed by you", told)
    assert "'own'" not in told
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.count(f"{found.tract_id}: not yours: ") == len(found.unsigned)
