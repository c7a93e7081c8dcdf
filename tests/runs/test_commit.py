from __future__ import annotations

import pytest

from tract_jupyter.exceptions import PlanError, RunError
from tract_jupyter.runs import (
    MAX_EFFECTS,
    CommitItem,
    CommitReport,
    Hook,
    MemoryTarget,
    Operation,
    OperationResult,
    OperationStatus,
    Prompt,
    Turn,
    commit,
    commit_order,
)


def system(payload, mode="append"):
    return {"type": "prompt.system_update", "mode": mode, "payload": payload}


def user(text):
    return {"type": "turn.user.replace_text", "text": text}


def reply(text):
    return {"type": "turn.assistant.replace_text", "text": text}


def artifact(value, tag="t", persistence="run_only"):
    return {"type": "artifact.upsert", "tag": tag, "value": value, "persistence": persistence}


NOTE = {"type": "ui.inline", "role": "system", "content": "look"}


def item(name, *effects, order=10, after=(), required=False, status="done"):
    return CommitItem(name, order, after, required, OperationStatus(status), effects)


def turn_of(*, reply=None, part="u0"):
    prompt = Prompt.of([{"role": "system", "content": "S"}, {"role": "user", "content": "U"}])
    return Turn(prompt, "U", part, reply)


def commit_now(*queue, hook=Hook.BEFORE, turn=None, target=None):
    return commit(hook, queue, turn or turn_of(), target or MemoryTarget())


def texts(turn):
    return [one.content for one in turn.prompt.messages]


def outcomes(report):
    return [
        (one.operation_id, one.effect_index, one.error.code if one.error else one.status)
        for one in report.entries
    ]


DISK_FULL = OSError("disk full")


class BrokenTarget(MemoryTarget):
    """A target whose named methods raise an error."""

    def __init__(self, *broken, error=DISK_FULL, **options):
        super().__init__(**options)
        self._broken, self._error = broken, error

    def _check(self, name):
        if name in self._broken:
            raise self._error

    def rewrite(self, target, part, text, operation_id):
        self._check(text)
        return super().rewrite(target, part, text, operation_id)

    def put_artifacts(self, artifacts):
        super().put_artifacts(artifacts)
        self._check("put")

    def record(self, report):
        super().record(report)
        self._check("record")


# --- order


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([("a", 30, ()), ("b", 10, ("a",))], "ab"),
        ([("b", 10, ()), ("a", 10, ()), ("B", 10, ())], "Bab"),
        ([("a", 1, ()), ("x", 5, ()), ("y", 0, ("a",))], "ayx"),  # ready late, it still comes first
        ([("a", 2, ("gone",)), ("b", 1, ("a", "gone"))], "ab"),
        ([("a", 2.5, ()), ("b", -1, ())], "ba"),
        ([], ""),
    ],
)
def test_dependencies_come_first_then_order_then_the_id(nodes, expected):
    """R60, G8, G9: a ready queue, ids by code point."""
    queue = [item(name, order=order, after=after) for name, order, after in nodes]
    assert commit_order(queue) == commit_order(queue[::-1]) == tuple(expected)


def test_ids_are_compared_by_code_point():
    """G8: `op10` comes before `op2`, and a letter beyond the first plane comes after all others."""
    names = ["\U0001f600", "\uffff", "op2", "op10", "B", "a"]
    assert commit_order([item(name) for name in names]) == ("B", "a", "op10", "op2", "\uffff", "\U0001f600")


@pytest.mark.parametrize(
    ("queue", "code"),
    [
        ([item("a", after=["b"]), item("b", after=["a"]), item("c")], "CYCLE_DETECTED"),
        ([item("a", after=["a"])], "CYCLE_DETECTED"),
        ([item("a"), item("a")], "DUPLICATE_TASK_ID"),
        ([item("a", order=float("nan"))], "INVALID_TASK_ORDER"),
        ([item("a", order=float("inf"))], "INVALID_TASK_ORDER"),
    ],
)
def test_operations_without_an_order_are_refused_before_anything_is_applied(queue, code):
    """G6, E1: with a stable code."""
    target = MemoryTarget()
    with pytest.raises(PlanError) as caught:
        commit_now(*queue, item("z", user("new")), target=target)
    assert caught.value.code == code
    assert target.parts == {}


def test_an_item_is_made_of_an_operation_and_its_result():
    """E2: the fields of a commit item."""
    operation = Operation.from_dict({
        "definition": {"operationId": "op", "name": "Op", "kind": "template"},
        "config": {"order": 3, "required": True, "dependsOn": ["x"]},
    })  # fmt: skip
    result = OperationResult.from_dict({"operationId": "op", "status": "done", "effects": [system("+")]})
    one = CommitItem.of(operation, result)
    assert (one.operation_id, one.order, one.depends_on, one.required, one.status) == (
        "op",
        3,
        ("x",),
        True,
        "done",
    )
    assert texts(commit_now(one).turn) == ["S+", "U"]


# --- applied effects


@pytest.mark.parametrize("status", ["skipped", "error", "aborted", "waiting"])
def test_only_operations_with_status_done_have_effects(status):
    """R37, R59: the report contains nothing about the others."""
    turn, report = commit_now(item("a", system("+"), user("new"), artifact(1), required=True, status=status))
    assert turn == turn_of()
    assert (report.entries, report.order, report.required_error, report.status) == ((), (), False, "done")


def test_all_kinds_of_effects_are_applied_in_list_order():
    """E3, R40, R49: prompt, user's message, artifact and note."""
    turn, report = commit_now(item("a", system("1"), artifact("v"), user("new"), NOTE, system("2")))
    assert texts(turn) == ["S12", "new"]
    assert (turn.user_text, turn.artifacts.view["t"].value) == ("new", "v")
    assert [(name, one.content) for name, one in turn.notes] == [("a", "look")]
    assert [one.effect_index for one in report.entries] == [0, 1, 2, 3, 4]
    assert {one.status for one in report.entries} == {"applied"}


def test_a_note_is_in_no_prompt():
    """R41, X05: at both hooks."""
    for hook in Hook:
        assert texts(commit_now(item("a", NOTE), hook=hook).turn) == ["S", "U"]


def test_each_changed_message_names_its_operation():
    """R46: as information about the prompt."""
    turn = commit_now(item("a", system("+")), item("b", user("new"))).turn
    assert [one.label for one in turn.prompt.messages] == ["a", "b"]


def test_a_dependents_effects_come_after_all_of_its_dependency():
    """R60, E3: even if its order is smaller."""
    queue = [
        item("b", system("3"), system("4"), order=1, after=["a"]),
        item("a", system("1"), system("2"), order=2),
    ]
    assert texts(commit_now(*queue).turn)[0] == "S1234"


def test_later_writes_of_one_tag_win_and_all_are_in_its_history():
    """R58, E16: for any order of the input; a profile with two writers is refused when it is saved."""
    queue = [item("late", artifact(2), order=20), item("early", artifact(1), order=10)]
    view = commit_now(*queue).turn.artifacts.view["t"]
    assert (view.value, view.history) == (2, (1, 2))


# --- refused effects


def test_a_bad_effect_leaves_the_others_of_its_operation():
    """R41, E6, G21, G22, X06: it is reported; a required operation fails the run."""
    bad = [system("1"), reply("no"), {"type": "nothing"}, system("2")]
    for required in (False, True):
        turn, report = commit_now(item("a", *bad, required=required), item("b", system("3"), order=20))
        assert texts(turn)[0] == "S123"
        assert [code for *_, code in outcomes(report)] == [
            "applied", "policy_error", "validation_error", "applied", "applied",
        ]  # fmt: skip
        assert (report.required_error, report.status) == (required, "error" if required else "done")


def test_an_optional_operations_error_is_visible_and_fails_nothing():
    """E7, G22: also together with a required operation with valid effects."""
    report = commit_now(item("a", reply("no")), item("b", system("+"), required=True)).report
    assert not report.required_error
    assert report.entries[0].error.message.startswith(
        "turn.assistant.replace_text is not allowed in before_main_llm"
    )


def test_an_operation_that_writes_two_tags_has_no_effects():
    """R51, G23: its other effects are not applied. Effects of other operations are applied."""
    conflicting = item("a", system("no"), artifact(1, "one"), artifact(2, "two"))
    turn, report = commit_now(conflicting, item("b", system("+"), order=20))
    assert texts(turn)[0] == "S+"
    assert turn.artifacts.view == {}
    assert [code for *_, code in outcomes(report)] == ["artifact_conflict"] * 3 + ["applied"]


def test_an_operation_with_too_many_effects_is_refused_with_a_short_report():
    """E5: for any number."""
    turn, report = commit_now(item("a", *[system("+")] * 10_000, required=True))
    assert texts(turn)[0] == "S"
    assert len(report.entries) == MAX_EFFECTS + 1
    assert {code for *_, code in outcomes(report)} == {"validation_error"}
    assert report.required_error


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        3,
        "x",
        {"type": "artifact.upsert", "tag": "", "value": 1},
        artifact(float("nan")),
        artifact("x" * 50_000_000),
    ],
)
def test_garbage_is_found_before_anything_is_applied(garbage):
    """E5, R53: any value becomes an error of that effect."""
    turn, report = commit_now(item("a", garbage, system("+")))
    assert [code for *_, code in outcomes(report)] == ["validation_error", "applied"]
    assert texts(turn)[0] == "S+"


# --- rewrites


def test_rewrites_follow_each_other():
    """R49, R60, G30: the second rewrite replaces the result of the first."""
    target = MemoryTarget()
    turn, report = commit_now(item("a", user("A")), item("b", user("B"), order=20), target=target)
    assert [(one.before, one.after, one.replaced, one.part) for one in report.rewrites] == [
        ("U", "A", "u0", "user:1"), ("A", "B", "user:1", "user:2"),
    ]  # fmt: skip
    assert (turn.user_text, turn.user_part, texts(turn)) == ("B", "user:2", ["S", "B"])
    assert dict(target.parts) == {"user:1": "A", "user:2": "B"}


def test_a_rewrite_at_the_second_hook_replaces_the_one_of_the_first_hook():
    """G30, R47: one turn, two commits."""
    target = MemoryTarget()
    turn = commit_now(item("a", user("A")), target=target).turn
    report = commit_now(item("b", user("B")), hook=Hook.AFTER, turn=turn, target=target).report
    assert (report.rewrites[0].before, report.rewrites[0].replaced) == ("A", "user:1")


def test_a_rewrite_after_the_main_call_does_not_change_the_sent_prompt():
    """R4, R5: it changes the turn, not the record of the prompt."""
    turn = commit_now(
        item("a", user("new"), reply("better")), hook=Hook.AFTER, turn=turn_of(reply="raw")
    ).turn
    assert texts(turn) == ["S", "U"]
    assert (turn.user_text, turn.reply) == ("new", "better")


def test_a_refused_rewrite_is_that_effects_error():
    """R49, G21: the text is unchanged, and the next rewrite follows the last accepted one."""
    target = BrokenTarget("bad", error=RunError("no such part"))
    turn, report = commit_now(item("a", user("A"), user("bad"), user("B"), system("+")), target=target)
    assert [code for *_, code in outcomes(report)] == ["applied", "storage_error", "applied", "applied"]
    assert report.entries[1].error.message == "no such part"
    assert [one.after for one in report.rewrites] == ["A", "B"]
    assert texts(turn) == ["S+", "B"]


def test_without_a_reply_there_is_nothing_to_rewrite():
    """R48: an empty reply counts as a reply."""
    assert outcomes(commit_now(item("a", reply("x")), hook=Hook.AFTER).report)[0][2] == "storage_error"
    assert commit_now(item("a", reply("x")), hook=Hook.AFTER, turn=turn_of(reply="")).turn.reply == "x"


# --- artifacts


def test_persisted_artifacts_outlive_the_run():
    """R50, E11: with their history; a run without a session cannot write them."""
    first = MemoryTarget(session="s")
    commit_now(item("a", artifact(1, persistence="persisted")), target=first)
    turn = commit_now(item("a", artifact(2, persistence="persisted")), hook=Hook.AFTER, target=first).turn
    assert first.artifacts()["t"].history == turn.artifacts.view["t"].history == (1, 2)
    turn, report = commit_now(item("a", artifact(1, persistence="persisted"), system("+")))
    assert [code for *_, code in outcomes(report)] == ["storage_error", "applied"]
    assert "session key" in report.entries[0].error.message
    assert turn.artifacts.view == {}


def test_artifacts_persisted_by_another_run_in_the_meantime_are_kept():
    """R50: a write is added to the stored state, not to the state at the start of the run."""
    target = MemoryTarget(session="s")
    began = turn_of()
    commit_now(item("other", artifact("theirs", persistence="persisted")), target=target)
    turn = commit_now(
        item("mine", artifact("mine", persistence="persisted")), hook=Hook.AFTER, turn=began, target=target
    ).turn
    assert turn.artifacts.view["t"].history == ("theirs", "mine")


# --- the transaction


@pytest.mark.parametrize("where", ["put", "record"])
def test_a_failed_transaction_keeps_nothing(where):
    """E1, E8: all its effects become a `storage_error`; earlier refusals keep their reason."""
    target = BrokenTarget(where, session="s")
    queue = [
        item("a", system("+"), user("A"), artifact(1, persistence="persisted"), required=True),
        item("b", reply("no")),
    ]
    turn, report = commit_now(*queue, target=target)
    assert turn == turn_of()
    assert [code for *_, code in outcomes(report)] == ["storage_error"] * 3 + ["policy_error"]
    assert report.required_error
    assert report.entries[0].error.message == "OSError: disk full"
    assert (dict(target.parts), dict(target.artifacts()), target.committed(Hook.BEFORE)) == ({}, {}, None)


def test_a_failed_transaction_of_optional_operations_fails_no_run():
    """E7: the error is visible."""
    report = commit_now(item("a", user("A"), order=1), target=BrokenTarget("record")).report
    assert outcomes(report) == [("a", 0, "storage_error")]
    assert not report.required_error


def test_an_interrupt_passes_and_keeps_nothing():
    """E1: a stopped process leaves no partial turn."""
    target = BrokenTarget("record", error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        commit_now(item("a", user("A")), target=target)
    assert dict(target.parts) == {}


def test_an_error_of_the_target_is_bounded_and_readable():
    """R54: for any message."""
    target = BrokenTarget("A", error=ValueError("\ud800" + "x" * 10_000))
    error = commit_now(item("a", user("A")), target=target).report.entries[0].error
    assert len(error.message) <= 2_000
    error.message.encode()


def test_a_commit_is_applied_once():
    """R58: a resumed run gets the same turn and report, and writes nothing."""
    target = MemoryTarget(session="s")
    queue = [
        item(
            "a", system("+"), user("A"), reply("no"), artifact(1, persistence="persisted"), artifact(2), NOTE
        )
    ]
    first = commit_now(*queue, target=target)
    again = commit_now(*queue, target=target)
    assert again == first
    assert dict(target.parts) == {"user:1": "A"}
    assert target.artifacts()["t"].history == (1,)


def test_another_commit_at_the_same_hook_is_refused():
    """R58: results that differ from the committed ones."""
    target = MemoryTarget()
    commit_now(item("a", user("A")), target=target)
    for other in ([item("b", user("A"))], [item("a", user("A"), user("B"))], [item("a", system("+"))], []):
        with pytest.raises(RunError, match="committed other effects in before_main_llm"):
            commit_now(*other, target=target)
    assert dict(target.parts) == {"user:1": "A"}


def test_effects_that_end_with_the_run_need_no_transaction():
    class Refusing(MemoryTarget):
        def transaction(self):
            raise AssertionError("nothing of this commit is stored")

    turn, report = commit_now(item("a", system("+"), artifact(1), NOTE), target=Refusing())
    assert [one.status for one in report.entries] == ["applied"] * 3
    assert texts(turn)[0].endswith("+")
    assert turn.artifacts.view["t"].value == 1


def test_an_empty_commit_is_one():
    """E1: nothing is refused, nothing is written."""
    assert commit_now().report == CommitReport(hook=Hook.BEFORE)


def test_a_report_is_read_back_unchanged():
    """E8: hook, operation, index, type, status and error of each effect."""
    report = commit_now(item("a", system("+"), reply("no"), user("A"), required=True)).report
    assert CommitReport.from_dict(report.to_dict()) == report
    assert report.to_dict()["entries"][1]["error"]["code"] == "policy_error"
