"""Stopped runs: during a request to the user or the model, and the remaining state."""

import asyncio

import pytest

from tests.review.fakes import FakeChannel
from tests.review.scripted import ScriptedClient, said
from tract_jupyter.concurrency import StopSignal
from tract_jupyter.exceptions import LLMRequestError, RunFailedError
from tract_jupyter.llm import ModelCall
from tract_jupyter.runs import RunOptions
from tract_jupyter.runs.profile import OperationProfile, run_operation

ASKS = OperationProfile.of("careful", [
    run_operation("style", order=1, text=" Be brief.", into="system"),
    run_operation("sure", "dynamic", order=2, operation="citation_check", fields={"urls": []}),
])  # fmt: skip


@pytest.fixture
def talk(tract, spec):
    tract.register_operation(spec(unhandled="ask"))
    tract.configure_llm(ScriptedClient("The survey."))
    tract.user("Which is newest?")
    return tract


def stopped(tract, abort, **options):
    """The run of a stopped call."""
    with pytest.raises(RunFailedError, match="was aborted") as caught:
        tract.generate(run=RunOptions(abort=abort, **options))
    return caught.value.run


def raising(error):
    def raise_it(*_, **__):
        raise error

    return raise_it


def test_an_abort_ends_the_asking(talk):
    """E14, G28: the main call is not made, and the request is withdrawn."""
    abort = StopSignal()
    talk.reviewer.channel = FakeChannel(lambda _: abort.set())
    talk.profiles.save(ASKS, activate=True)
    run = stopped(talk, abort)
    assert [one.status for one in run.operations] == ["done", "skipped"]
    assert run.operations[1].skipped_reason == "run_aborted"
    assert talk.llm.asked == []
    assert talk.review.inbox() == []
    assert talk.review.decisions()[-1].reason == "the run has ended"


def test_aborting_a_required_waiting_operation_aborts_the_run_instead_of_failing_it(talk):
    """An operation that did not run because of the abort does not make the run fail."""
    abort = StopSignal()
    talk.reviewer.channel = FakeChannel(lambda _: abort.set())
    required = run_operation(
        "sure", "dynamic", order=2, operation="citation_check", fields={"urls": []}, required=True
    )
    talk.profiles.save(OperationProfile.of("strict", [required]), activate=True)
    run = stopped(talk, abort)
    assert (run.status, run.operations[0].skipped_reason) == ("aborted", "run_aborted")
    assert talk.llm.asked == []


def test_the_timeout_of_a_run_includes_the_time_for_the_users_decision(talk):
    """E14: the deadline applies there, too."""
    talk.reviewer.channel = FakeChannel()
    talk.profiles.save(ASKS, activate=True)
    with pytest.raises(RunFailedError):
        talk.generate(run=RunOptions(timeout=0.05))
    assert talk.llm.asked == []
    assert talk.review.inbox() == []


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), asyncio.CancelledError()], ids=["ctrl-c", "cancelled"]
)
def test_an_interrupt_during_a_request_to_the_user_aborts_the_run(talk, error):
    talk.reviewer.channel = FakeChannel(raising(error))
    talk.profiles.save(ASKS, activate=True)
    with pytest.raises(type(error)):
        talk.generate()
    (run,) = talk.runs()
    assert run.status == "aborted"
    assert not talk.runs.is_active(run.run_id)
    assert talk.review.inbox() == []


def test_a_main_call_ended_by_an_abort_is_not_a_failure(talk):
    """E14: the main call gets the signal, and the run is aborted."""
    abort = StopSignal()

    def chat(*_, **__):
        with ModelCall() as call:
            abort.set()
            assert call.is_cancelled
        raise LLMRequestError("the call was ended", code="cancelled")

    talk.llm.chat = chat
    run = stopped(talk, abort)
    assert run.finish_reason == "user_abort"
    assert run.reply_commit is None
    assert said(talk) == [("user", "Which is newest?")]


def test_a_reply_that_arrives_after_the_abort_is_kept(talk):
    """E14: it is visible, and no later operation runs."""
    abort = StopSignal()
    answer = talk.llm.chat
    talk.llm.chat = lambda *given, **options: (abort.set(), answer(*given, **options))[1]
    after = run_operation(
        "shout", order=1, text="{{ lastAssistantMessage | upcase }}", into="reply", when="after"
    )
    talk.profiles.save(OperationProfile.of("loud", [after]), activate=True)
    response = talk.generate(run=RunOptions(abort=abort))
    assert response.run.status == "aborted"
    assert said(talk)[-1] == ("assistant", "The survey.")


def test_is_active_is_true_only_during_the_run(talk):
    seen = []
    talk.generate(on_event=lambda event: seen.append(talk.runs.is_active(event.run_id)))
    assert seen[0]
    (run,) = talk.runs()
    assert not talk.runs.is_active(run.run_id)


def test_a_call_without_profile_is_recorded_only_with_an_observer(talk):
    """E9: without a profile there are no operations."""
    talk.generate()
    assert talk.runs() == []
    talk.llm.replies.append("The census.")
    talk.user("And the largest?")
    seen = []
    talk.generate(on_event=seen.append)
    assert seen[-1].type == "run.finished"
    assert talk.runs()[0].operations == ()
