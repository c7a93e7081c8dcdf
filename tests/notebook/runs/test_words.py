"""The reason why an operation or a run failed, in plain words."""

import pytest

from tests.notebook.runs.examples import op, run
from tract_jupyter.notebook.runs import duration, outcome, why
from tract_jupyter.runs import ErrorCode, Skip, SkippedReason


@pytest.mark.parametrize(
    ("skip", "said"),
    [
        (Skip(reason="disabled"), "It is switched off in the profile."),
        (Skip(reason="trigger_mismatch"), "It does not run when the trigger is generate."),
        (Skip(reason="unsupported_kind"), "Nothing here runs operations of the kind 'odd'."),
        (Skip(reason="filtered_out"), "It was filtered out of this run."),
        (Skip(reason="run_aborted"), "The run was aborted before it began."),
        (Skip(reason="condition_false"), "One of its conditions does not hold."),
        (
            Skip(
                reason="condition_false",
                condition={"source": "g", "output": "ok", "is": True, "actual": None},
            ),
            "Its condition does not hold: g.ok is absent, and should be true.",
        ),
        (
            Skip(reason="condition_false", condition={"source": "g", "output": "ok", "is": False}),
            "Its condition does not hold: g.ok should be false.",
        ),
        (
            Skip(reason="dependency_failed", dep="missing", blocked_by=("a",)),
            "It depends on a, which is not part of this run.",
        ),
        (
            Skip(reason="dependency_failed", dep="not_done", blocked_by=("a", "b")),
            "It depends on a, b, which did not end as done.",
        ),
        (
            Skip(reason="dependency_failed", blocked_by=("a",), blocked_by_reason="activation_not_reached"),
            "It depends on a, which did not end as done (activation not reached).",
        ),
        (Skip(reason="dependency_failed"), "A dependency did not end as done."),
        (Skip(reason="activation_not_reached"), "It is not due yet."),
        (
            Skip(reason="activation_not_reached", activation={"turns": 2, "of": 5}),
            "It is not due yet (turns 2, of 5).",
        ),
        (Skip(reason="nothing to say"), "It skipped itself: nothing to say."),
    ],
)
def test_a_skip_says_why(skip, said):
    """R38, R39, G2, G5: each reason has its own text."""
    assert why(op("x", status="skipped", kind="odd", skip=skip)) == said


def test_every_reason_and_code_has_words_of_its_own():
    skips = {reason: why(op("x", status="skipped", skip=Skip.because(reason))) for reason in SkippedReason}
    assert not [said for said in skips.values() if "skipped itself" in said]
    errors = [why(op("x", status="error", error_code=code)) for code in ErrorCode]
    assert len(set(errors)) == len(ErrorCode)


def test_the_reason_alone_is_enough():
    assert why(op("x", status="skipped", skipped_reason="policy")) == "A policy blocked it."
    assert why(op("x", status="skipped")) == "It was skipped."


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"error_code": "timeout", "error_message": "no answer after 2 s"},
            "It took too long: no answer after 2 s.",
        ),
        ({"error_code": "own_code", "error_message": "odd!"}, "It failed (own_code): odd!"),
        ({"error_code": "provider_error", "attempts": 3}, "The provider failed. It was tried 3 times."),
        ({}, "It failed."),
    ],
)
def test_an_error_shows_its_reason_message_and_attempts(parts, said):
    """R54: the code in words, the message, the number of attempts."""
    assert why(op("x", status="error", **parts)) == said


def test_others():
    assert why(op("x")) == ""
    assert "stopped" in why(op("x", status="aborted"))
    assert "%tract inbox" in why(op("x", status="waiting"))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"status": "done"}, ""),
        ({"status": "running"}, ""),
        ({"status": "waiting"}, "A request needs a decision: %tract inbox. Then %tract run 7f3a9c1e --resume resumes it."),
        ({"status": "aborted"}, "It was aborted after the reply. The reply stays."),
        ({"status": "aborted", "reply_commit": None}, "It was aborted. Nothing was committed afterwards."),
        (
            {"status": "failed", "failed_type": "before_barrier", "failed_details": {"operationId": "a"}},
            "Failed before the main call. Required operation a: It took too long.",
        ),
        (
            {"status": "failed", "failed_type": "after_main_llm", "failed_details": {"operationId": "b"}},
            "Failed after the main call. Required operation b: its effects could not be committed.",
        ),
        (
            {"status": "failed", "failed_type": "main_llm",
             "failed_details": {"errorCode": "rate_limited", "errorMessage": "429"}},
            "Failed in the main call. The provider refused: too many requests: 429.",
        ),
    ],
)  # fmt: skip
def test_how_a_run_ended(parts, said):
    """R11, R12, E6: the phase of the failure and its operation."""
    assert outcome(run(op("a", status="error", error_code="timeout"), op("b"), **parts)) == said


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "0 ms"),
        (12.4, "12 ms"),
        (999.7, "1.00 s"),
        (1240, "1.24 s"),
        (125_000, "2 min 05 s"),
        (59_999, "60.00 s"),
    ],
)
def test_durations(milliseconds, said):
    assert duration(milliseconds) == said
