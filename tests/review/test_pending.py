"""Common behavior of pendings: decisions by Python, dict and tool call; failures and retries."""

from __future__ import annotations

import traceback

import pytest

from tract_jupyter.exceptions import ParameterError, PendingStateError, SpecError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef
from tract_jupyter.review import Pending


@pytest.fixture
def fire(tract, spec):
    """Fire an operation without fields. Its action `verify` has the given code."""

    def make(code: str = "pending.approve()", **options):
        if "citation_check" in tract.operations.registry.operation_names:
            tract.unregister_operation("citation_check")
        tract.register_operation(spec(code, fields={}))
        return tract.fire("citation_check", review=True, **options)

    return make


def test_the_same_decision_four_ways(fire):
    for decide in (
        lambda p: p.verify(strict=True),
        lambda p: p.apply_decision({"action": "verify", "args": {"strict": True}}),
        lambda p: p.execute_tool(p.to_tools()[-1]["function"]["name"], {"strict": True}),
        lambda p: p.verify(True),
    ):
        pending = fire("pending.result = strict\npending.approve()")
        decide(pending)
        assert (pending.status, pending.result) == ("approved", True)


@pytest.mark.parametrize(
    ("decision", "error", "words"),
    [
        ({}, SpecError, '"action" is missing'),
        ({"action": "aprove"}, SpecError, "Did you mean 'approve'"),
        ({"action": "_fail"}, SpecError, "offers no action '_fail'"),
        ({"action": "__init__"}, SpecError, "offers no action"),
        ({"action": "execute_tool"}, SpecError, "offers no action"),
        ({"action": None}, SpecError, "offers no action None"),
        ({"action": ["approve"]}, SpecError, "offers no action"),
        ({"action": "reject", "args": {"reson": "x"}}, ParameterError, "Did you mean 'reason'"),
        ({"action": "reject", "args": {"reason": 3}}, ParameterError, "'reason' should be a valid string"),
        ({"action": "reject", "args": ["x"]}, ParameterError, "dict of values"),
        ({"action": "verify", "args": {"strict": 1}}, ParameterError, "'strict'"),
        ({"action": "approve", "args": {"x": 1}}, ParameterError, "'x' is unknown. It takes edits"),
    ],
)
def test_an_invalid_decision_is_refused_and_the_pending_stays_open(fire, decision, error, words):
    pending = fire()
    with pytest.raises(error, match=words):
        pending.apply_decision(decision)
    assert pending.status is PendingStatus.PENDING


def test_an_action_that_raises_is_failed_with_its_error_and_can_be_retried(fire):
    pending = fire("attempts = globals().setdefault('attempts', [])\nattempts.append(1)\n"
                   "if len(attempts) == 1:\n    raise OSError('the net is down')\npending.approve()")  # fmt: skip
    with pytest.raises(OSError, match="net is down") as caught:
        pending.verify()
    assert pending.status is PendingStatus.FAILED
    assert pending.error == "OSError: the net is down"
    assert pending.executed_at is None
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno) == ("<action:citation_check.verify>", 4)
    assert frame.line == "raise OSError('the net is down')"
    pending.verify()
    assert (pending.status, pending.error) == (PendingStatus.APPROVED, None)


def test_a_failed_one_can_be_rejected(fire):
    pending = fire("1 / 0")
    with pytest.raises(ZeroDivisionError):
        pending.verify()
    pending.reject("give up")
    assert pending.status is PendingStatus.REJECTED


def test_an_approval_fails_with_execute_fn_and_can_be_retried(fire):
    outcomes = iter([RuntimeError("first"), "second"])

    def execute(pending):
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    pending = fire(execute_fn=execute)
    with pytest.raises(RuntimeError, match="first"):
        pending.approve()
    assert (pending.status, pending.error, pending.executed_at) == ("failed", "RuntimeError: first", None)
    assert pending.approve() == "second"
    assert (pending.status, pending.error, pending.result) == ("approved", None, "second")
    with pytest.raises(PendingStateError):
        pending.approve()


@pytest.mark.parametrize("how", ["approve", "verify"])
def test_interrupted_half_way_is_failed_and_can_be_tried_again(fire, how):
    def interrupt(pending):
        raise KeyboardInterrupt

    pending = fire("raise KeyboardInterrupt", execute_fn=interrupt)
    with pytest.raises(KeyboardInterrupt):
        getattr(pending, how)()
    assert (pending.status, pending.error) == ("failed", "KeyboardInterrupt")
    pending.reject()
    assert pending.status is PendingStatus.REJECTED


def test_raising_after_the_decision_does_not_undo_it(fire):
    pending = fire("pending.approve()\nraise ValueError('late')")
    with pytest.raises(ValueError, match="late"):
        pending.verify()
    assert (pending.status, pending.error) == ("approved", "ValueError: late")
    pending = fire("pending.reject('no')\nraise ValueError('late')")
    with pytest.raises(ValueError, match="late"):
        pending.verify()
    assert pending.status is PendingStatus.REJECTED


def test_an_error_with_a_lone_surrogate_can_be_stored(fire):
    pending = fire("raise ValueError('\\ud800')")
    with pytest.raises(ValueError):
        pending.verify()
    assert pending.error.encode() == b"ValueError: \\ud800"


def test_control_characters_of_an_error_are_escaped_in_the_repr(fire):
    pending = fire("raise ValueError('\\x1b[2J gone \\u202e')")
    with pytest.raises(ValueError, match="gone"):
        pending.verify()
    assert "ValueError: \ufffd[2J gone \ufffd" in repr(pending)


def test_the_return_value_of_an_action_is_the_result(fire):
    pending = fire("return 42")
    assert pending.verify() == 42
    assert (pending.result, pending.status) == (42, "pending")


def test_actions_may_call_each_other(tract, spec):
    actions = {
        "first": ActionDef("first", "", {}, "pending.second(3)"),
        "second": ActionDef("second", "", {"n": "int"}, "pending.result = n\npending.approve()"),
    }
    tract.register_operation(spec(fields={}, actions=actions))
    pending = tract.fire("citation_check", review=True)
    pending.first()
    assert (pending.status, pending.result) == ("approved", 3)


def test_a_built_in_pending_describes_itself_too(tract):
    pending = Pending("tool_result", tract=tract, fields={"n": 10**5000, "text": "x" * 1_000})
    assert pending.to_dict()["fields"]["text"].endswith("(1,000 characters)")
    assert "int that cannot be shown" in pending.describe_api()
    assert "tool_result" in repr(pending) or "Pending" in repr(pending)
    assert pending.resumable is False
