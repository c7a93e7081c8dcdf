"""Undo of a whole turn: tool calls by their reverts, and the conversation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.review.fakes import FakeChannel, answering, click
from tests.review.scripted import ScriptedClient, call, reply, said
from tract_jupyter import Tract
from tract_jupyter.exceptions import CodeDecisionError, HistoryError, SpecError
from tract_jupyter.operations import ActionDef, OperationSpec
from tract_jupyter.rehearsal import Watch
from tract_jupyter.toolkit import Permission


@pytest.fixture
def world():
    """The effects of the tools: bookings, in order."""
    return {"rooms": [], "log": [], "breaks": False}


@pytest.fixture
def desk(tract, world):
    """A tract with a revertible tool, one that cannot be reverted, and a read-only tool."""
    define(tract, world)
    tract.loop.tools = "self"
    tract.executor.permission = lambda tool, actor: Permission.ALLOW
    return tract


def define(tract, world):
    def cancel(room: str, result: int) -> None:
        """Cancel a booking."""
        world["log"].append(("cancel", room, result))
        if world["breaks"]:
            raise ConnectionError("the hotel does not answer")
        world["rooms"].remove(room)

    @tract.tool(revert=cancel)
    def book(room: str, nights: int = 1) -> int:
        """Book a room."""
        world["log"].append(("book", room))
        world["rooms"].append(room)
        return len(world["log"])

    @tract.tool
    def notify(channel: str) -> str:
        """Send a message."""
        world["log"].append(("notify", channel))
        if channel == "#none":
            raise ValueError("there is no such channel")
        return "sent"

    @tract.tool(read_only=True)
    def rooms() -> list[str]:
        """List the rooms."""
        return list(world["rooms"])


def chat(tract, text, *calls):
    replies = [reply(None, *calls)] if calls else []
    tract.configure_llm(ScriptedClient(*replies, "Done."))
    tract.chat(text)
    return tract.loop.turns()[-1]


def states(undo):
    return {item.name: item.state for item in undo.items}


def test_a_turn_is_undone_with_its_calls_in_reverse_order(desk, world):
    desk.user("before")
    turn = chat(desk, "Book two", call("book", {"room": "A"}, "c1"), call("book", {"room": "B"}, "c2"))
    plan = desk.preview_undo(turn)
    assert [(item.kind, item.name, item.state) for item in plan.items] == [
        ("conversation", "conversation", "restorable"),
        ("call", 'book("B", 1)', "restorable"),
        ("call", 'book("A", 1)', "restorable"),
    ]
    assert "cancel takes it back" in plan.items[1].detail
    assert world["rooms"] == ["A", "B"]
    done = desk.undo(turn)
    assert done.is_done
    assert set(states(done).values()) == {"restorable"}
    assert world["log"][2:] == [("cancel", "B", 2), ("cancel", "A", 1)]
    assert said(desk) == [("user", "before")]


def test_the_undo_preview_lists_calls_that_cannot_be_undone(desk, world):
    turn = chat(
        desk, "Tell them", call("notify", {"channel": "#birds"}), call("rooms", {}, "c2"),
        call("notify", {"channel": "#none"}, "c3"),
    )  # fmt: skip
    items = desk.preview_undo(turn).items_in("impossible")
    assert [item.name for item in items] == ['notify("#none")', 'notify("#birds")']
    assert "its effect is unknown" in items[0].detail
    assert items[1].detail.endswith("cannot be undone")
    desk.undo(turn)
    assert desk.head is None


def test_context_tools_are_undone_with_the_context(desk):
    turn = chat(desk, "Pin it", call("commit", {"content": "A note.", "role": "user"}))
    assert desk.preview_undo(turn).has_only_conversation


def test_a_revert_that_fails_is_tried_again(desk, world):
    turn = chat(desk, "Book", call("book", {"room": "A"}), call("notify", {"channel": "#a"}, "c2"))
    world["breaks"] = True
    done = desk.undo(turn)
    assert states(done) == {
        "conversation": "changed since",
        'book("A", 1)': "failed",
        'notify("#a")': "impossible",
    }
    assert "the hotel does not answer" in str(done)
    assert desk.loop.turns()[-1].question == turn.question
    assert "is tried again" in str(desk.preview_undo(turn))
    world["breaks"] = False
    assert states(desk.undo(turn))['book("A", 1)'] == "restorable"
    assert world["rooms"] == []
    assert desk.loop.turns() == []


def test_nothing_is_reverted_twice(desk, world):
    turn = chat(desk, "Book", call("book", {"room": "A"}))
    desk.undo(turn)
    again = desk.undo(turn)
    assert again.items == ()
    assert world["log"].count(("cancel", "A", 1)) == 1


def test_redo_makes_the_calls_again(desk, world):
    desk.user("before")
    turn = chat(desk, "Book", call("book", {"room": "A"}), call("notify", {"channel": "#a"}, "c2"))
    after = desk.head
    with pytest.raises(HistoryError, match="nothing to redo"):
        desk.redo(turn)
    desk.undo(turn)
    assert states(desk.preview_undo(turn, redo=True)) == {
        "conversation": "restorable",
        'book("A", 1)': "restorable",
    }
    desk.redo(turn)
    assert (desk.head, world["rooms"]) == (after, ["A"])
    desk.undo(turn)
    assert world["log"][-1] == ("cancel", "A", 4)  # the result of the second call
    assert world["rooms"] == []


def test_the_first_turn_is_one_step_of_undo(desk):
    turn = chat(desk, "Hello")
    desk.undo(turn)
    assert desk.head is None
    desk.undo()
    assert desk.loop.turns()[-1].question == turn.question


def test_only_the_conversation(desk, world):
    turn = chat(desk, "Book", call("book", {"room": "A"}))
    done = desk.undo(turn, only_conversation=True)
    assert states(done) == {"conversation": "restorable"}
    assert world["rooms"] == ["A"]
    assert desk.loop.turns() == []
    assert states(desk.undo(turn.question)) == {'book("A", 1)': "restorable"}
    assert world["rooms"] == []


def test_a_turn_that_later_turns_build_on(desk, world):
    turn = chat(desk, "Book", call("book", {"room": "A"}))
    chat(desk, "Thanks")
    plan = desk.preview_undo(turn)
    assert states(plan) == {"conversation": "impossible", 'book("A", 1)': "restorable"}
    assert "1 later turn builds on it" in plan.items[0].detail
    desk.undo(turn)
    assert world["rooms"] == []
    assert len(desk.loop.turns()) == 2


def test_a_turn_of_another_branch(desk):
    turn = chat(desk, "Hello")
    desk.branch("other", is_empty=True)
    assert states(desk.undo(turn)) == {"conversation": "impossible"}
    assert desk.loop.turns("main")


def test_a_commit_that_is_in_no_turn(desk):
    info = desk.system("Be brief.")
    with pytest.raises(HistoryError, match="is not in a turn"):
        desk.undo(info.commit_hash)


def test_a_script_counts(desk, world):
    desk.reviewer.channel = FakeChannel(answering("approve"))
    code = "for room in ('A', 'B'):\n    tools.book(room=room)"
    turn = chat(desk, "Book", call("notebook_execute", {"code": code}))
    assert world["rooms"] == ["A", "B"]
    desk.undo(turn)
    assert world["rooms"] == []


def test_a_revert_covers_the_calls_of_its_tool(desk, world):
    def unplan() -> None:
        world["rooms"].clear()

    @desk.tool(revert=unplan)
    def plan() -> None:
        """Plan a trip."""
        desk.tools.book(room="A")

    turn = chat(desk, "Plan", call("plan"))
    assert world["rooms"] == ["A"]
    assert [item.name for item in desk.undo(turn).items] == ["conversation", "plan()"]
    assert world["log"] == [("book", "A")]


def test_the_undo_preview_explains_which_effects_of_operations_and_agents_remain(desk):
    kernel, sandbox = (
        ActionDef("go", "Do it.", {}, "pending.approve()", isolation=place) for place in ("kernel", "sandbox")
    )
    for name, go in {"deploy": kernel, "check": sandbox}.items():
        desk.register_operation(OperationSpec(name, "Do it.", {}, {"go": go}))
    desk.reviewer.channel = FakeChannel(*[lambda ticket: click(ticket, "approve")] * 3)
    fired = chat(desk, "Deploy", call("fire_deploy", {}, "c1"), call("fire_check", {}, "c2"))
    desk.loop.tools = "agents"
    ada = {"name": "ada", "description": "Counts birds.", "instructions": "Count."}
    made = chat(desk, "Make an agent", call("agent_create", ada))
    said = [
        (item.name.partition("(")[0], item.detail)
        for turn in (fired, made)
        for item in desk.preview_undo(turn).items_in("impossible")
        if item.kind == "call"
    ]
    assert said == [
        (
            "fire_deploy",
            "its code ran in the kernel, and its changes were not saved; the rest leaves with the context",
        ),
        ("Create agent ada", "the agent stays; %tract agents retire NAME prevents further calls"),
    ]


def test_a_locked_tool_is_not_reverted(desk, world):
    turn = chat(desk, "Book", call("book", {"room": "A"}))
    desk.executor.lock_tool("book", "the hotel is closed")
    assert "the hotel is closed" in str(desk.undo(turn))
    assert world["rooms"] == ["A"]
    desk.executor.unlock_tool("book")
    desk.undo(turn)
    assert world["rooms"] == []


def test_a_model_cannot_undo_a_turn(desk):
    turn = chat(desk, "Hello")

    @desk.tool
    def sneak() -> None:
        """Undo."""
        desk.undo(turn)

    chat(desk, "Sneak", call("sneak"))
    (answer,) = [text for role, text in said(desk) if role == "tool"]
    assert CodeDecisionError.__name__ in answer
    assert len(desk.loop.turns()) == 2


def test_the_request_says_that_a_call_cannot_be_undone(tract, world):
    define(tract, world)
    whys = []

    def look(ticket):
        whys.append(ticket.request.why)
        answering("approve")(ticket)

    tract.reviewer.channel = FakeChannel(look, look)
    for name, arguments in (("notify", {"channel": "#a"}), ("book", {"room": "A"})):
        tract.executor.execute(name, arguments, actor="agent:chat")
    assert ["cannot be undone" in why for why in whys] == [True, False]


def test_the_request_for_a_script_names_calls_that_cannot_be_undone(desk):
    desk.reviewer.channel = channel = FakeChannel(answering("no"))
    code = "tools.notify(channel='#a')\ntools.book(room='A')"
    chat(desk, "Tell them", call("notebook_execute", {"code": code, "backend": "kernel"}))
    assert "Cannot be undone: calls of notify." in channel.shown[0][0].why


def test_a_revert_takes_arguments_of_the_tool(tract):
    def wrong(price: int) -> None:
        """Take it back."""

    with pytest.raises(SpecError, match="takes 'price', so it cannot revert 'buy'"):

        @tract.tool(revert=wrong)
        def buy(what: str) -> None:
            """Buy."""


def test_after_a_restart(tmp_path, world):
    path = tmp_path / "t.db"
    with Tract.open(path) as tract:
        define(tract, world)
        tract.loop.tools, tract.executor.permission = "self", lambda tool, actor: Permission.ALLOW
        question = chat(tract, "Book", call("book", {"room": "A"})).question
    with Tract.open(path) as tract:
        assert "its tool is not defined here" in str(tract.preview_undo(question))
        define(tract, world)
        tract.undo(question)
    assert world["rooms"] == []


def test_rows_of_another_writer_are_not_used(tmp_path, world):
    path = tmp_path / "t.db"
    with Tract.open(path) as tract:
        define(tract, world)
        question = chat(tract, "Hello").question
        forged = {"id": "f", "question": question, "tool": "book", "name": "book()", "signature": "0" * 64}
        with tract._repository.database.write() as connection:
            rows = tract._repository.events
            rows.append(connection, "effect.called", "user", {**forged, "arguments": {"room": "A"}})
            rows.append(connection, "effect.ended", "user", {"id": "f", "error": "", "result": 1})
        assert "not signed by you" in str(tract.undo(question))
        assert world["log"] == []


def test_many_later_effects_hide_no_effect_of_an_old_turn(tmp_path, world):
    with Tract.open(tmp_path / "t.db") as tract:
        define(tract, world)
        tract.loop.tools, tract.executor.permission = "self", lambda tool, actor: Permission.ALLOW
        question = chat(tract, "Book", call("book", {"room": "A"})).question
        with tract._repository.database.write() as connection:
            for number in range(20_000):
                later = {"id": str(number), "question": "a later turn"}
                tract._repository.events.append(connection, "effect.left", "user", later)
        tract.undo(question)
    assert world["rooms"] == []


JOB = """
import os, sys
from pathlib import Path
from tests.loop.test_turn_undo import finish

folder = Path(sys.argv[1])
finish(folder / "0", 0)  # imports everything
for stop in range(1, int(sys.argv[2])):
    for step in (stop, 0):  # killed at this step, and then undone to the end
        if os.fork() == 0:
            finish(folder / str(stop), step)
            os._exit(0)
        print(os.wait()[1])
"""
_STEPS = 14
"""Before and after each of these rows: two for each call and for the change, and one for the turn."""


def cancel_of(folder):
    def cancel(room: str) -> None:
        """Cancel a booking."""
        with (folder / "log").open("a") as file:
            file.write(f"{room}\n")

    return cancel


def with_tools(tract, folder):
    tract.loop.tools, tract.executor.permission = "self", lambda tool, actor: Permission.ALLOW

    @tract.tool(revert=cancel_of(folder))
    def book(room: str) -> None:
        """Book a room."""


def prepared(folder):
    """Run a turn that books two rooms and overwrites a file."""
    (folder / "work").mkdir(parents=True)
    path = folder / "work" / "a.csv"
    path.write_text("old")
    with Tract.open(folder / "t.db") as tract:
        with_tools(tract, folder)
        tract.user("before")
        turn = chat(tract, "Book", call("book", {"room": "A"}), call("book", {"room": "B"}, "c2"))
        code = f"open({str(path)!r}, 'w')"
        watched = Watch(code, {}, path.parent, tract._parts.backups)
        path.write_text("new")
        tract.effects.recorder(lambda: turn.question).changed(watched.finish())


def finish(folder, stop):
    """Undo the last turn, and kill this process before or after a step is recorded."""
    steps = iter(range(1, 100))

    def step():
        if next(steps) == stop:
            os.kill(os.getpid(), signal.SIGKILL)

    with Tract.open(folder / "t.db") as tract:
        with_tools(tract, folder)
        write = tract.effects.write

        def writes(*arguments, **options):
            step()
            write(*arguments, **options)
            step()

        tract.effects.write = writes
        for turn in tract.loop.turns()[-1:]:
            tract.undo(turn)


@pytest.mark.slow
def test_killed_between_the_steps_of_an_undo(tmp_path):
    for stop in range(_STEPS + 1):
        prepared(tmp_path / str(stop))
    command = [sys.executable, "-c", JOB, str(tmp_path), str(_STEPS + 1)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [int(code) for code in done.stdout.split()] == [signal.SIGKILL, 0] * _STEPS
    for stop in range(_STEPS + 1):
        folder = tmp_path / str(stop)
        assert (folder / "work" / "a.csv").read_text() == "old", stop
        lines = (folder / "log").read_text().split("\n")[:-1]
        assert len(lines) == len(set(lines)), stop  # no line occurs twice
        with Tract.open(folder / "t.db") as tract:
            assert said(tract) == [("user", "before")], stop
            calls = [one for one in tract.effects.of(tract.effects.undone()[0].question) if one.tool]
            # a revert with an unknown outcome does not run again automatically
            assert [one.state for one in calls].count("unknown") <= 1
            assert all(one.state in {"undone", "unknown"} for one in calls), stop
