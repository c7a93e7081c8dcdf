"""Repeated scripts: if a script did not complete, its finished calls are answered from a log, not
repeated."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click
from tests.scripts.desk import FAILS, NO_MORE
from tract_jupyter.scripts import ScriptLimits, ScriptStatus
from tract_jupyter.toolkit import Permission


def test_finished_calls_are_answered_and_the_rest_is_made(desk):
    first = desk.run(FAILS)
    assert (first.status, first.notes, desk.rows()) == (ScriptStatus.FAILED, (), 1)
    desk.variables["go_on"] = True
    second = desk.run(FAILS)
    assert second.value == ({"was": 1}, "put 2", "put 3")
    assert desk.made == ["look 1", "put 2", "put 3"]
    assert [call.replayed for call in second.calls] == [True, True, False]
    assert (second.call_count, second.replayed_count, second.savings.calls) == (3, 2, 1)
    (note,) = second.notes
    assert note.startswith("2 calls were answered from the run of 20")
    assert second.to_dict()["notes"] == [note]
    assert desk.rows() == 0


def test_a_completed_script_leaves_no_log(desk):
    desk.variables["go_on"] = True
    for _ in range(2):
        assert desk.run(FAILS).replayed_count == 0
    assert len(desk.made) == 6
    assert desk.rows() == 0


def test_another_process_continues_the_script(opened):
    opened().run(FAILS)
    second = opened()
    second.variables["go_on"] = True
    assert second.run(FAILS).replayed_count == 2
    assert second.made == ["look 1", "put 2", "put 3"]


def test_the_totals_count_each_call_once(desk):
    desk.run(FAILS)
    desk.variables["go_on"] = True
    desk.run(FAILS)
    assert desk.tract.scripts.savings.calls == 3
    assert [record.tool for record in desk.tract.tools.call_log] == ["look", "put", "put"]
    assert [event.data["replayed_calls"] for event in desk.tract.events("script")] == [2, 0]


def test_a_script_can_fail_and_continue_repeatedly(desk):
    code = "for n in range(6):\n    if n >= most: raise ValueError(n)\n    tools.put(n=n)\n'done'"
    for most in (2, 2, 3, 5, 6):
        desk.variables["most"] = most
        result = desk.run(code)
    assert result.value == "done"
    assert desk.made == [f"put {n}" for n in range(6)]


@pytest.mark.parametrize(
    ("change", "options"), [("", {"anew": True}), (" ", {}), ("", {"notebook_id": "other"})]
)
def test_all_calls_run_again_with_anew_a_changed_script_or_another_notebook(desk, change, options):
    code = "tools.put(n=1)\n1 / 0"
    desk.run(code)
    assert desk.run(code + change, **options).replayed_count == 0
    assert desk.made == ["put 1", "put 1"]


def test_the_first_different_call_ends_the_replay(desk):
    code = "tools.put(n=1)\ntools.put(n=second)\ntools.put(n=3)\n1 / 0"
    desk.variables["second"] = 2
    desk.run(code)
    desk.variables["second"] = 20
    assert desk.run(code).replayed_count == 1
    assert desk.made == ["put 1", "put 2", "put 3", "put 20", "put 3"]
    assert desk.run(code).replayed_count == 3  # from the newest run


def test_an_uncaught_failed_call_is_repeated_and_a_caught_one_is_not(desk):
    code = (
        "try:\n    tools.put(n=-1)\nexcept ToolExecutionError as error:\n    said = error.reason\n"
        "tools.put(n=1)\ntools.put(n=-2)\n"
    )
    for _ in range(2):
        result = desk.run(code + "said")
        assert "no room" in result.error.message
    assert desk.made == ["put -1", "put 1", "put -2", "put -2"]
    assert [(call.success, call.replayed) for call in result.calls] == [
        (False, True),
        (True, True),
        (False, False),
    ]
    assert desk.variables["said"] == "ValueError: no room"


def test_a_call_that_was_refused_is_asked_about_again_and_no_other(desk):
    desk.tract.executor.permission = lambda tool, _: (
        Permission.ASK if tool.name == "put" else Permission.ALLOW
    )
    code = (
        "tools.put(n=1)\ntry:\n    tools.put(n=2)\nexcept ToolDenied:\n    pass\nlook = tools.look(n=3)\n"
        f"tools.put(n=4)\n{NO_MORE}\nlook"
    )

    def answers(*actions):
        steps = [(lambda ticket, action=action: click(ticket, action)) for action in actions]
        desk.tract.reviewer.channel = FakeChannel(*steps)

    answers("approve", "reject", "approve")
    desk.run(code)
    assert desk.made == ["put 1", "look 3", "put 4"]
    answers("reject")
    assert desk.run(code).replayed_count == 3
    assert desk.made == ["put 1", "look 3", "put 4"]
    answers("approve")
    desk.run(code)
    assert desk.made[3:] == ["put 2", "look 3"]  # a later read may give another result
    desk.variables["go_on"] = True
    assert desk.run(code).value == {"was": 5}
    assert len(desk.made) == 5


def test_only_the_undecided_call_is_requested_again_in_the_next_run(opened):
    first = opened()
    ask_about = lambda tool, _: Permission.ASK if tool.name == "put" else Permission.ALLOW  # noqa: E731
    first.tract.executor.permission = ask_about
    code = "tools.look(n=1)\ntools.put(n=2)"
    assert "no user is available" in first.run(code).error.message
    second = opened()
    second.tract.executor.permission = ask_about
    channel = second.tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    assert second.run(code).value == "put 2"
    assert second.made == ["look 1", "put 2"]
    assert channel.shown[0][0].title == "Call tool put"


def test_a_changed_tool_ends_the_replay(desk):
    desk.run(FAILS)

    def put(n: int) -> str:
        """Write something else."""
        desk.made.append(f"other {n}")
        return "other"

    desk.tract.executor.remove_tool("put")
    desk.tract.tool(put, name="put")
    assert desk.run(FAILS).replayed_count == 1
    assert desk.made == ["look 1", "put 2", "other 2"]


def test_a_locked_or_denied_tool_is_refused_instead_of_answered(desk):
    desk.run(FAILS)
    desk.tract.executor.lock_tool("look", "not now")
    assert "locked: not now" in desk.run(FAILS).error.message
    desk.tract.executor.unlock_tool("look")
    desk.tract.executor.permission = lambda tool, _: Permission.DENY
    assert "has no permission to call" in desk.run(FAILS).error.message
    desk.tract.executor.permission = lambda *_: Permission.ALLOW
    assert desk.run(FAILS).replayed_count == 2  # the log is unchanged


def test_a_profile_also_limits_calls_answered_from_the_log(desk):
    code = "tools.gc(dry_run=True)\n1 / 0"
    desk.run(code)
    desk.tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    toolset = desk.tract.toolset(profile="self", actor="agent:1")
    result = toolset.execute("notebook_execute", {"code": code, "backend": "kernel"})
    assert "no tool 'gc' in the profile 'self'" in result.output["output"]


def test_answers_count_in_the_limits_and_are_not_waited_for(desk):
    desk.run(FAILS)
    desk.variables["go_on"] = True
    assert "limit of 2 tool calls" in desk.run(FAILS, limits=ScriptLimits(calls=2)).error.message
    assert desk.made == ["look 1", "put 2"]


def test_an_answer_is_a_value_of_its_own(desk):
    seen = desk.variables["seen"] = []
    for _ in range(3):
        desk.run("a = tools.look(n=1)\nseen.append(dict(a))\na['was'] = 'changed'\n1 / 0")
    assert seen == [{"was": 1}] * 3
    assert desk.made == ["look 1"]


def test_arguments_are_recorded_as_they_were_at_the_call(desk):
    def store(rows: list[int]) -> int:
        """Write rows, and empty the list."""
        desk.made.append(f"store {rows}")
        rows.clear()
        return 1

    desk.tract.tool(store)
    code = "rows = [1, 2]\ntools.store(rows=rows)\n1 / 0"
    desk.run(code)
    assert desk.run(code).replayed_count == 1
    assert desk.made == ["store [1, 2]"]


def test_keys_keep_their_order(desk):
    desk.tract.tool(lambda: {"b": 1, "a": [None, 1.5, "é\ud800"]}, name="plain", description="Give data.")
    code = "x = tools.plain()\nlist(x), x, fails"
    desk.run(code)
    desk.variables["fails"] = False
    result = desk.run(code)
    assert result.replayed_count == 1
    assert result.value == (["b", "a"], {"b": 1, "a": [None, 1.5, "é\ud800"]}, False)


@pytest.mark.parametrize(
    "output",
    [(1, 2), {1: 2}, {1}, b"x", float("nan"), object(), "x" * 300_000],
    ids=["tuple", "number as key", "set", "bytes", "nan", "object", "large"],
)
def test_an_unstorable_read_is_repeated_and_an_unstorable_write_ends_the_log(desk, output):
    def give(reads: bool) -> object:
        desk.made.append(f"give {reads}")
        return output

    desk.tract.tool(lambda: give(True), name="read", description="Read.", read_only=True)
    desk.tract.tool(lambda: give(False), name="write", description="Write.")
    code = "tools.put(n=1)\ntools.read()\ntools.put(n=2)\n{}\n1 / 0"
    for _ in range(2):
        desk.made.clear()
        result = desk.run(code.format(""))
        assert result.notes == () or result.replayed_count
    assert desk.made == ["give True"]
    desk.made.clear()
    ends = code.format("tools.write()\ntools.put(n=3)")
    result = desk.run(ends)
    assert "a second time: a call of write has no plain JSON, or more than 256,000 bytes" in result.notes[0]
    assert desk.run(ends).replayed_count == 2
    assert desk.made == [
        "put 1", "give True", "put 2", "give False", "put 3", "give True", "give False", "put 3",
    ]  # fmt: skip


def test_a_log_is_bounded(desk, monkeypatch):
    monkeypatch.setattr("tract_jupyter.scripts.call_log._MOST_CALLS", 3)
    code = "for n in range(5): tools.put(n=n)\n1 / 0"
    assert "up to 3 calls" in desk.run(code).notes[0]
    assert desk.run(code).replayed_count == 3


def test_of_many_results_only_the_calls_that_write_need_room(desk, monkeypatch):
    monkeypatch.setattr("tract_jupyter.scripts.call_log._MOST_BYTES", 100)
    code = "for n in range(9): tools.look(n=n)\n1 / 0"
    desk.run(code)
    assert 0 < desk.run(code).replayed_count < 9


def test_old_runs_go(desk, monkeypatch):
    monkeypatch.setattr("tract_jupyter.storage.journal.KEPT_SCRIPTS", 2)
    codes = [f"tools.put(n={n})\ntools.put(n=9)\n1 / 0" for n in range(3)]
    for code in codes:
        desk.run(code)
    assert desk.rows() == 4
    assert [desk.run(code).replayed_count for code in reversed(codes)] == [2, 2, 0]


def test_calls_rolled_back_by_a_batch_are_made_again(desk):
    desk.variables["batch"] = desk.tract.batch
    code = f"tools.put(n=1)\nwith batch():\n    tools.put(n=2)\n    {NO_MORE}"
    desk.run(code)
    desk.variables["go_on"] = True
    assert desk.run(code).replayed_count == 1
    assert desk.made == ["put 1", "put 2", "put 2"]


def test_a_batch_that_ended_well_is_kept(desk):
    desk.variables["batch"] = desk.tract.batch
    code = f"with batch():\n    tools.put(n=1)\n    tools.put(n=2)\n{NO_MORE}"
    desk.run(code)
    assert desk.run(code).replayed_count == 2


def test_a_nested_call_is_answered_as_part_of_its_outer_call(desk):
    def outer() -> str:
        """Write by another tool."""
        return desk.tract.tools.put(n=7)

    desk.tract.tool(outer)
    code = "tools.outer()\n1 / 0"
    desk.run(code)
    second = desk.run(code)
    assert [(call.tool, call.replayed) for call in second.calls] == [("outer", True)]
    assert desk.made == ["put 7"]


def test_calls_of_several_threads_are_answered_if_their_order_is_the_same(desk):
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
        f"    found = list(pool.map(lambda _: tools.look(n=1), range(8)))\n{NO_MORE}\nlen(found)"
    )
    desk.run(code)
    desk.variables["go_on"] = True
    result = desk.run(code)
    assert (result.value, result.replayed_count) == (8, 8)
    assert len(desk.made) == 8


@pytest.mark.parametrize(
    ("code", "status"), [("while True: pass", "timed_out"), ("raise KeyboardInterrupt", "interrupted")]
)
def test_finished_calls_are_answered_after_every_kind_of_ending(desk, code, status):
    code = f"tools.look(n=1)\n{code}"
    for _ in range(2):
        result = desk.run(code, limits=ScriptLimits(seconds=1 if status == "timed_out" else 100))
        assert result.status == status
    assert desk.made == ["look 1"]


def test_the_sandbox_makes_all_calls(desk):
    code = "tools.put(n=1)\n1 / 0"
    for _ in range(2):
        desk.run(code, backend="sandbox")
    assert len(desk.made) == 2
    assert desk.rows() == 0
