"""Undo of a whole turn: variables, files and settings that its scripts changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply, said
from tract_jupyter import Tract
from tract_jupyter.rehearsal import Watch


class Notebook:
    """A tract with turns whose scripts change variables and files."""

    def __init__(self, folder):
        self.folder = folder
        self.tract = Tract.open(folder / "t.db")
        self.tract.configure_llm(ScriptedClient(usual="Done."))
        self.workspace = folder / "work"
        self.workspace.mkdir(exist_ok=True)
        self.names = {}

    @property
    def backups(self):
        return self.tract._parts.backups

    def turn(self, *codes, text="Do it"):
        """Run a turn with these scripts, and return its question."""
        self.tract.chat(text)
        question = self.tract.loop.turns()[-1].question
        recorder = self.tract.effects.recorder(lambda: question)
        for code in codes:
            watched = Watch(code, self.names, self.workspace, self.backups)
            exec(code, self.names)
            for name in ("__builtins__", "os"):
                self.names.pop(name, None)
            recorder.changed(watched.finish())
        return question

    def digest(self):
        """The content of the variables and the files."""
        files = sorted(path for path in self.workspace.rglob("*") if path.is_file())
        contents = [(path.relative_to(self.workspace), path.read_bytes()) for path in files]
        return hashlib.sha256(repr((sorted(self.names.items()), contents)).encode()).hexdigest()


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    made = Notebook(tmp_path)
    monkeypatch.chdir(made.workspace)
    yield made
    made.tract.close()


def states(undo):
    return {item.name: item.state for item in undo.items}


OVERWRITES = "table = [1, 2]\n__import__('pathlib').Path('a.csv').write_text('new')"


def test_a_turn_is_undone_with_its_variables_and_files(notebook):
    (notebook.workspace / "a.csv").write_text("old")
    notebook.names["count"] = 1
    before = notebook.digest()
    question = notebook.turn(OVERWRITES, "count += 1")
    assert states(notebook.tract.preview_undo(question)) == {
        "conversation": "restorable", "count": "restorable", "table": "restorable", "a.csv": "restorable",
    }  # fmt: skip
    assert not notebook.tract.preview_undo(question).is_exact  # the scripts ran without a copy
    after = notebook.digest()
    notebook.tract.undo(question)
    assert notebook.digest() == before
    assert said(notebook.tract) == []
    notebook.tract.redo(question)
    assert notebook.digest() == after
    assert len(notebook.tract.loop.turns()) == 1


def test_a_script_without_rehearsals_is_undone(notebook):
    tract = notebook.tract
    assert not tract.scripts.rehearsing.is_on
    (notebook.workspace / "a.csv").write_text("old")
    tract.loop.tools = "self"
    tract.scripts.notebooks.user_namespace = notebook.names
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    script = {"code": OVERWRITES, "backend": "kernel", "notebook_id": "user"}
    tract.configure_llm(ScriptedClient(reply(None, call("notebook_execute", script)), "Done."))
    tract.chat("Overwrite the file.")
    assert notebook.names["table"] == [1, 2]
    done = tract.undo(tract.loop.turns()[-1].question)
    assert states(done) == {"conversation": "restorable", "table": "restorable", "a.csv": "restorable"}
    assert "table" not in notebook.names
    assert (notebook.workspace / "a.csv").read_text() == "old"


def test_the_preview_has_the_differences(notebook):
    pandas = pytest.importorskip("pandas")
    (notebook.workspace / "a.csv").write_text("species\ngraet tit\n")
    notebook.names["table"] = pandas.DataFrame({"species": ["graet tit", "wren"]})
    code = "table = table.replace('graet tit', 'great tit')\ntable.to_csv('a.csv', index=False)"
    question = notebook.turn(code, "other = 1")
    items = {item.name: item.differences for item in notebook.tract.preview_undo(question).items}
    assert (items["conversation"], items["other"]) == (None, None)
    assert items["table"].changed_cells == (("species", 1),)
    assert items["a.csv"].splitlines()[2:] == [
        "@@ -1,3 +1,2 @@",
        " species",
        "-great tit",
        "-wren",
        "+graet tit",
    ]
    done = notebook.tract.undo(question)
    assert {item.differences for item in done.items} == {None}


def test_a_value_changed_by_the_user_is_not_undone_without_force(notebook):
    question = notebook.turn("table = [1]", "other = 1")
    notebook.names["table"] = "of the user"
    assert states(notebook.tract.preview_undo(question))["table"] == "changed since"
    done = notebook.tract.undo(question)
    assert states(done) == {"conversation": "restorable", "other": "restorable", "table": "changed since"}
    assert notebook.names == {"table": "of the user"}


def test_a_forced_item_is_restored(notebook):
    notebook.names["table"] = before = [0]
    question = notebook.turn("table = [1]", "table = [2]")
    notebook.names["table"] = "of the user"
    notebook.tract.undo(question, force=["table"])
    assert notebook.names["table"] is before


@pytest.mark.parametrize(
    ("first", "second"),
    [("a\u200b.txt", "a\u202e.txt"), ("a\x01.txt", "a\x02.txt"), ("caf\u00e9.txt", "cafe\u0301.txt")],
    ids=["bidirectional", "control", "normal forms"],
)
def test_files_that_look_alike_are_not_confused(notebook, first, second):
    for name in (first, second):
        (notebook.workspace / name).write_text("old")
    question = notebook.turn(
        f"for name in ({first!r}, {second!r}):\n    with open(name, 'w') as file: file.write('new')"
    )
    (notebook.workspace / first).write_text("mine")
    plan = notebook.tract.preview_undo(question)
    files = {item.exact: item for item in plan.items if item.kind == "file"}
    assert [files[name].state for name in (first, second)] == ["changed since", "restorable"]
    assert ascii(first) in files[first].detail
    assert ascii(second) in files[second].detail
    notebook.tract.undo(question)
    assert (notebook.workspace / first).read_text() == "mine"
    assert (notebook.workspace / second).read_text() == "old"


def test_only_the_chosen_file_is_forced(notebook):
    first, second = "data\u200b", "data\u202e"
    for name in (first, second):
        (notebook.workspace / name).write_text("old")
    code = f"data = 1\nfor name in ({first!r}, {second!r}, 'data'):\n    with open(name, 'w') as file: file.write('new')"
    question = notebook.turn(code)
    for name in (first, second, "data"):
        (notebook.workspace / name).write_text("mine")
    notebook.names["data"] = "mine"
    items = notebook.tract.preview_undo(question).items
    (chosen,) = (item for item in items if item.exact == second)
    notebook.tract.undo(question, force=[chosen.name, chosen.key])
    texts = {name: (notebook.workspace / name).read_text() for name in (first, second, "data")}
    assert texts == {first: "mine", second: "old", "data": "mine"}
    assert notebook.names["data"] == "mine"


def test_after_a_restart_files_come_back_and_variables_are_named(tmp_path, monkeypatch):
    notebook = Notebook(tmp_path)
    monkeypatch.chdir(notebook.workspace)
    (notebook.workspace / "a.csv").write_text("old")
    question = notebook.turn(OVERWRITES)
    notebook.tract.close()
    with Tract.open(tmp_path / "t.db") as tract:
        done = tract.undo(question)
        assert states(done) == {"conversation": "restorable", "table": "impossible", "a.csv": "restorable"}
        assert "the kernel was restarted" in str(done)
        assert (notebook.workspace / "a.csv").read_text() == "old"
        assert said(tract) == []


def test_the_oldest_values_are_dropped_at_the_budget(notebook):
    notebook.names |= {"big": "x" * 10_000, "small": "y"}
    first = notebook.turn("big = 1")
    notebook.tract.effects.memory_budget = 5_000
    second = notebook.turn("small = 2")
    plan = notebook.tract.preview_undo(second)
    assert states(plan)["small"] == "restorable"
    assert 0 < plan.memory_used <= plan.memory_budget == 5_000
    assert "memory for earlier values is full" in str(notebook.tract.preview_undo(first))


def test_the_undo_preview_names_unsaved_changes(notebook):
    notebook.tract.chat("Do it")
    question = notebook.tract.loop.turns()[-1].question
    notebook.tract.effects.recorder(lambda: question).left("the changes of a script")
    assert states(notebook.tract.preview_undo(question))["the changes of a script"] == "impossible"


STEPS = st.lists(st.sampled_from(["make", "change", "write", "delete", "undo", "redo"]), max_size=12)
CODES = {
    "make": "v{n} = [{n}]",
    "change": "v0 = {n}",
    "write": "__import__('pathlib').Path('f{f}.txt').write_text('{n}')",
    "delete": "import os\nos.path.exists('f0.txt') and os.remove('f0.txt')",
}


@pytest.mark.slow
@given(STEPS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_turns_undos_and_redos_restores_the_same_state(tmp_path_factory, monkeypatch, steps):
    folder = tmp_path_factory.mktemp("steps")
    notebook = Notebook(folder)
    monkeypatch.chdir(notebook.workspace)
    done, undone = [], []  # (question, digest before, digest after)
    for number, step in enumerate(steps):
        if step == "undo" and done:
            turn = done.pop()
            notebook.tract.undo(turn[0])
            assert notebook.digest() == turn[1]
            undone.append(turn)
        elif step == "redo" and undone:
            turn = undone.pop()
            notebook.tract.redo(turn[0])
            assert notebook.digest() == turn[2]
            done.append(turn)
        elif step in CODES:
            before = notebook.digest()
            question = notebook.turn(CODES[step].format(n=number, f=number % 2))
            done.append((question, before, notebook.digest()))
            undone.clear()
        assert len(notebook.tract.loop.turns()) == len(done)
    notebook.tract.close()
    assert Path.cwd() == notebook.workspace
