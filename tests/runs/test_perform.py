"""Every behavior of an operation gives a result."""

import asyncio
import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.kinds.support import context_of, operation_of
from tract_jupyter.concurrency import Stopped, StopSignal, stopped_by
from tract_jupyter.exceptions import BudgetExceededError, TemplateError
from tract_jupyter.runs import (
    MAX_DEBUG,
    MAX_ERROR_TEXT,
    Hook,
    OperationStatus,
    Persistence,
    perform,
)
from tract_jupyter.runs.kinds import OperationFailed, OperationOutput, Skipped, Waits


def performed(made, operation=None, **context):
    """The result of an operation that returns or raises the value."""

    def run(_):
        if isinstance(made, BaseException):
            raise made
        return made() if callable(made) else made

    return perform(
        operation or operation_of("any", required=True, debug={"enabled": True}), run, context_of(**context)
    )


def upsert(tag, value="x"):
    return {"type": "artifact.upsert", "tag": tag, "value": value}


PROMPT = {"type": "prompt.system_update", "mode": "append", "payload": "p"}


class HostileError(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(("error", "code"), [
    (ValueError("x"), "operation_error"), (SystemExit(3), "operation_error"), (KeyboardInterrupt(), "operation_error"),
    (GeneratorExit(), "operation_error"), (asyncio.CancelledError(), "operation_error"), (MemoryError(), "operation_error"),
    (RecursionError("x"), "operation_error"), (HostileError(), "operation_error"), (StopIteration(), "operation_error"),
    (ExceptionGroup("g", [ValueError("x")]), "operation_error"),
    (TimeoutError(), "timeout"), (TemplateError("x", 3), "template_render_error"), (BudgetExceededError("x"), "budget_exceeded"),
    (OperationFailed("provider_error", "m"), "provider_error"), (OperationFailed("my_own", "m"), "my_own"),
])  # fmt: skip
def test_no_exception_leaves_an_operation(error, code):
    """R53, R55: any exception becomes an error with a stable code; even SystemExit does not escape."""
    result = performed(error)
    assert (result.status, result.error.code, result.effects) == (OperationStatus.ERROR, code, ())
    assert result.required
    assert json.loads(json.dumps(result.to_dict()))


@pytest.mark.parametrize("error", [
    ValueError("x" * 10**6), OperationFailed("c" * 999, "m" * 10**6, {"much": "x" * 10**6}), ValueError("\ud800 \x1b[31m"),
    OperationFailed("", ""), OperationFailed("c", "m", {"no JSON": object(), "nan": float("nan")}),
])  # fmt: skip
def test_errors_are_bounded_and_safe(error):
    """R54: message, code and details have limits, and can be stored and displayed."""
    told = performed(error).error
    assert len(told.message) <= MAX_ERROR_TEXT
    assert 1 <= len(told.code) <= 64
    assert len(json.dumps(told.details)) <= MAX_DEBUG
    assert "\x1b" not in told.message
    told.message.encode()


def test_errors_tell_no_secrets():
    """R54, R57: key-like texts are masked in messages, details and debug."""
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz"
    failed = performed(OperationFailed("c", f"with {key}", {"header": [f"Bearer {key}"]}))
    done = performed(
        OperationOutput(
            value="x", debug={"a": {"b": f"password={key}"}}, inputs={"url": f"https://x?token={key}&a=1"}
        )
    )
    assert key not in str(failed)
    assert key not in str(done)
    assert "masked" in failed.error.message


@pytest.mark.parametrize(("made", "code"), [
    (None, "validation_error"), ("text", "validation_error"), ({"effects": []}, "validation_error"), (3, "validation_error"), (OperationOutput, None),
    (OperationOutput(effects="x"), "validation_error"), (OperationOutput(effects={"type": "ui.inline"}), "validation_error"), (OperationOutput(effects=[3]), "validation_error"),
    (OperationOutput(effects=[{"type": "prompt.delete_message"}]), "validation_error"), (OperationOutput(effects=[{}]), "validation_error"),
    (OperationOutput(effects=[upsert("A b")]), "validation_error"), (OperationOutput(effects=[upsert("a", float("nan"))]), "validation_error"),
    (OperationOutput(effects=[upsert("a"), upsert("b")]), "artifact_conflict"), (OperationOutput(effects=[PROMPT] * 101), "validation_error"),
    (OperationOutput(effects=[{**PROMPT, "payload": "x" * 1_000_001}]), "validation_error"), (OperationOutput(effects=[{**PROMPT, "extra": 1}]), "validation_error"),
    (OperationOutput(value="x" * 50_000_000), "validation_error"), (OperationOutput(value=float("inf")), "validation_error"), (OperationOutput(value=object()), "validation_error"),
    (OperationOutput(value={1: 2}), "validation_error"), (OperationOutput(value=b"x"), "validation_error"), (OperationOutput(value=[0] * 10**6), "validation_error"),
])  # fmt: skip
def test_garbage_is_an_error_before_anything_is_applied(made, code):
    """R51, R53, G23, G24: wrong types, 50 MB, NaN, two tags, unknown effects: refused as a whole."""
    result = performed(made)
    assert (result.error.code if result.error else None) == code
    assert (result.effects == ()) == (code is not None)


def test_a_value_that_contains_itself_is_refused():
    """R53: even a value that cannot be serialized becomes a normal error."""
    circle = []
    circle.append(circle)
    assert performed(OperationOutput(value=circle)).error.code == "validation_error"


def test_one_operation_one_tag():
    """R51, R63: several effects of one tag are fine; world state and its diff are two operations."""
    effects = [upsert("state"), PROMPT, upsert("state", "y")]
    assert (
        len(performed(OperationOutput(effects=effects), operation_of("any", artifact="state")).effects) == 3
    )
    assert (
        performed(OperationOutput(effects=[upsert("state"), upsert("state_diff")])).error.code
        == "artifact_conflict"
    )


@pytest.mark.parametrize(
    ("artifact", "told"), [("other", r"declares art\.other. .*tag='state'"), (None, "declares no artifact")]
)
def test_a_tag_that_is_not_declared_is_not_written(artifact, told):
    """E16: a profile shows all tags that it may write; all effects of the operation are refused."""
    result = performed(
        OperationOutput(effects=[PROMPT, upsert("state")]), operation_of("any", artifact=artifact)
    )
    assert (result.error.code, result.effects) == ("policy_error", ())
    assert re.search(told, result.error.message)


@pytest.mark.parametrize("persistence", ["persisted", "run_only"])
def test_an_effect_with_another_persistence_than_declared_is_refused(persistence):
    """R6, E16: in both directions."""
    other = "run_only" if persistence == "persisted" else "persisted"
    operation = operation_of("any")
    spec = operation.config.artifact.model_copy(update={"persistence": Persistence(other)})
    operation = operation.model_copy(
        update={"config": operation.config.model_copy(update={"artifact": spec})}
    )
    result = performed(OperationOutput(effects=[{**upsert("made"), "persistence": persistence}]), operation)
    assert result.error.code == "policy_error"
    assert f"keep={persistence == 'persisted'}" in result.error.message


@pytest.mark.parametrize("hook", Hook)
def test_effects_that_the_hook_forbids_are_left_to_the_commit(hook):
    """R33, G22: they are well-formed, so the operation is done; the commit reports the policy error."""
    effects = [PROMPT, {"type": "turn.assistant.replace_text", "text": "t"}]
    assert [one.type for one in performed(OperationOutput(effects=effects), hook=hook).effects] == [
        one["type"] for one in effects
    ]


def test_a_value_becomes_the_artifact_and_its_exposures():
    """R50, X04: the artifact first, then its exposures; nothing is written without an artifact."""
    operation = operation_of("any", exposures=[{"type": "prompt_message", "role": "system"}])
    written, shown = performed(OperationOutput(value={"x": True}), operation).effects
    assert (written.type, written.value) == ("artifact.upsert", {"x": True})
    assert (shown.type, shown.content) == ("prompt.append_after_last_user", '{"x":true}')
    assert performed(OperationOutput(value="x"), operation_of("any", artifact=None)).effects == ()


def test_a_skipped_operation_is_not_an_error():
    """R36, R37, R40: skipping is deliberate; it has a reason and no effects."""
    result = performed(Skipped("condition_false", {"source": "g"}))
    assert (result.status, result.error, result.effects) == (OperationStatus.SKIPPED, None, ())
    assert (result.skip.reason, result.skip.condition) == ("condition_false", {"source": "g"})


def test_a_waiting_operation_names_its_pending():
    result = performed(Waits("pending-1"))
    assert (result.status, result.waits_for) == (OperationStatus.WAITING, "pending-1")


def test_an_aborted_operation_is_not_an_error():
    """R32, G25: an operation that stops on request, or raises any exception after the signal, is aborted."""
    assert performed(Stopped()).status is OperationStatus.ABORTED
    abort = StopSignal()
    abort.set()
    with stopped_by(abort):
        assert performed(ValueError("broken off")).status is OperationStatus.ABORTED
        assert performed(OperationOutput(value="x")).status is OperationStatus.DONE


def test_debug_and_summaries_are_bounded():
    """R35, R56: debug data has limits. A note replaces longer data."""
    result = performed(
        OperationOutput(
            value="x",
            debug={"a": "x" * 10**6},
            inputs={"a": object()},
            outputs={"n": 1},
            usage={"t": float("nan")},
        )
    )
    assert list(result.debug) == ["omitted"]
    assert result.outputs_summary == {"n": 1}
    assert len(json.dumps(result.to_dict())) < 3_000


def test_a_result_can_be_sent():
    """R34: results and failures can go to another process."""
    for made in (OperationOutput(value="x"), OperationFailed("c", "m"), TemplateError("x", 2)):
        result = performed(made)
        assert pickle.loads(pickle.dumps(result)) == result
    assert str(pickle.loads(pickle.dumps(TemplateError("x", 2)))) == "line 2: x"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(object()) | st.sampled_from(
        ["artifact.upsert", "prompt.system_update", "tag", "value", "type", "mode", "append", "ui.inline", "role", "content"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.sampled_from(["type", "tag", "value"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(value=ANYTHING, effects=ANYTHING, debug=ANYTHING, code=st.text(), message=st.text())
def test_anything_that_an_operation_gives_becomes_a_result(value, effects, debug, code, message):
    """R53, R54: results can always be written as JSON and read back."""
    for made in (
        OperationOutput(value=value),
        OperationOutput(effects=effects),
        OperationOutput(value="x", debug=debug),
        value,
        OperationFailed(code, message, {"d": debug}),
    ):
        result = performed(made)
        assert type(result).from_dict(json.loads(json.dumps(result.to_dict()))).to_dict() == result.to_dict()
