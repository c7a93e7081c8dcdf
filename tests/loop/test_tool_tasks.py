"""Notebook tasks that call tools: the rehearsal ends at the first call that writes, and an undo reverts all calls."""

from __future__ import annotations

import contextlib

import pytest

from tests.rehearsal.conftest import skip_unless
from tests.rehearsal.folders import tree_of
from tests.rehearsal.tasks import TOOL_TASKS, World, content, in_order, marked, started
from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply

pytest.importorskip("pandas")
SHARED = {"tools", "ToolDenied", "ToolExecutionError"}


@pytest.fixture
def workspace(tract, tmp_path, monkeypatch):
    """The workspace, with real rehearsals."""
    skip_unless("full")
    monkeypatch.chdir(tmp_path)
    tract.scripts.rehearsing.is_on = True
    tract.loop.tools = "self"
    yield tmp_path
    tract.scripts.rehearsing.rehearser.close()


def effects_between(before, after):
    """Return the marks of the names that two states do not share."""
    marks = {
        name: "+" if name not in before else "-" if name not in after else "~" for name in before | after
    }
    return " ".join(
        sorted(mark + name for name, mark in marks.items() if before.get(name) != after.get(name))
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", TOOL_TASKS)
def test_effects_run_and_undo(tract, workspace, tmp_path_factory, name):
    task, world = TOOL_TASKS[name], World()
    world.define_tools(tract)
    namespace = started(workspace)
    tract.scripts.notebooks.user_namespace = namespace
    namespace["tools"] = tract.tools
    tract.scripts.notebooks.restore(namespace)

    def state():
        return {**content(namespace), **tree_of(workspace)}, world.state()

    before = state()

    def decide(ticket):
        effects = ticket.request.effects
        if effects is not None:
            assert state() == before
            changes = [one for one in effects.variables if not one.is_import], effects.files
            found = f"{marked(changes[0], 'name')} {marked(changes[1], 'path')}"
            assert in_order(found) == in_order(task.rehearsed)
            assert [one.tool for one in effects.calls if not one.is_answered] == (
                [task.asks] if task.asks else []
            )
            assert effects.can_be_kept is not bool(task.asks)
        click(ticket, "approve" if effects is None or task.asks else "keep")

    tract.reviewer.channel = FakeChannel(*[decide] * 9)
    script = {"code": task.code, "backend": "kernel", "notebook_id": "user"}
    tract.configure_llm(ScriptedClient(reply(None, call("notebook_execute", script)), "Done."))
    tract.chat("Do it.")
    (result,) = tract.scripts.results
    assert (result.error.name if result.error else "") == task.error
    after, outside = state()
    assert effects_between(before[0], after) == in_order(task.changed)
    assert outside == {**before[1], **task.world}
    turn = tract.loop.turns()[-1]
    assert not tract.preview_undo(turn).items_in("impossible")
    assert {item.state for item in tract.undo(turn).items} == {"restorable"}
    assert state() == before
    direct = Direct()
    folder = tmp_path_factory.mktemp("direct")
    names = {**started(folder), "tools": direct}
    with contextlib.suppress(KeyError):
        exec(task.code, names)
    same = {name: value for name, value in content(names).items() if name != "tools"}
    assert {**same, **tree_of(folder)} == {name: value for name, value in after.items() if name not in SHARED}
    assert direct.world.state() == outside


class Direct:
    """The tools as plain functions, with a world of their own."""

    def __init__(self):
        self.world = World()
        self.world.define_tools(self)

    def tool(self, function=None, **_):
        return self.tool if function is None else setattr(self, function.__name__, function)
