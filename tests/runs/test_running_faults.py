"""Misbehaving operations and clients: the run reports them, and the tract remains valid."""

from __future__ import annotations

import os
import signal
from threading import Event

import pytest

from tests.review.scripted import ScriptedClient, needs_metres, said
from tests.runs.running import compute, effects, errors, story, until_told_to_stop, upsert
from tract_jupyter.concurrency import StopSignal
from tract_jupyter.exceptions import (
    BudgetExceededError,
    ContentError,
    DetachedHeadError,
    LLMError,
    RejectedError,
    RunFailedError,
    UndecidedError,
)
from tract_jupyter.models import TokenBudget
from tract_jupyter.runs import Limits, RunOptions
from tract_jupyter.runs.profile import OperationProfile, run_operation


@pytest.fixture
def asked(tract):
    """A tract with a question, and a model that answers twice."""
    tract.configure_llm(ScriptedClient("On the mat.", "Under it."))
    tract.user("Where is it?")
    return tract


def run_with(tract, function, *, run=None, **config):
    """A run with one operation that calls a function; return the run, also if it failed."""
    tract.functions.register("it")(function)
    profile = OperationProfile.of("p", [compute("it", **config)])
    try:
        found = tract.generate(profile=profile, run=run).run
    except RunFailedError as error:
        found = error.run
    assert found == tract.runs.get(found.run_id)
    assert tract.verify() == []
    return found


def raising(error):
    def function(context, arguments):
        raise error

    return function


class Unreadable:
    def __repr__(self):
        raise OSError("no")


AFTER_USER = {"type": "prompt.append_after_last_user", "role": "system", "content": "x"}
FORBIDDEN = {"type": "turn.assistant.replace_text", "text": "x"}
FAULTS = {
    "raises": (raising(ValueError("a secret? no")), "operation_error"),
    "raises nothing usual": (raising(SystemExit(3)), "operation_error"),
    "raises as if interrupted": (raising(KeyboardInterrupt()), "operation_error"),
    "garbage": (lambda c, a: Unreadable(), "validation_error"),
    "no Unicode": (lambda c, a: "\ud800", "validation_error"),
    "no JSON": (lambda c, a: float("nan"), "validation_error"),
    "50 MB": (lambda c, a: "x" * 50_000_000, "validation_error"),
    "two tags": (effects(upsert("one"), upsert("two")), "artifact_conflict"),
    "no such effect": (effects({"type": "world.end"}), "validation_error"),
    "no effects": (effects(5), "validation_error"),
}


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_operation_that_misbehaves_is_an_error_with_a_code(asked, fault, required):
    """R12, R20, R51, R53, R54, G23: only a required operation stops the run, for any behavior."""
    function, code = FAULTS[fault]
    run = run_with(asked, function, required=required, artifact={"tag": "it", "exposures": [EXPOSURE]})
    assert errors(run) == {"it": code}
    assert run.status == ("failed" if required else "done")
    assert run.failed_type == ("before_barrier" if required else None)
    assert len(asked.llm.asked) == (0 if required else 1)
    assert not any("entries" in report for report in run.reports)
    assert asked.runs.replay(run.run_id).root_hash == run.root_hash


EXPOSURE = {"type": "prompt_message", "role": "system", "anchor": "after_last_user"}


@pytest.mark.parametrize("required", [False, True])
def test_an_effect_that_the_hook_forbids_is_refused_by_the_commit(asked, required):
    """G22, R48: for an optional operation it is reported; for a required one the run fails."""
    run = run_with(asked, effects(AFTER_USER, FORBIDDEN), required=required)
    entry, other = run.reports[0]["entries"]
    assert (entry["status"], other["status"], other["error"]["code"]) == ("applied", "error", "policy_error")
    assert (run.status, len(asked.llm.asked)) == (("failed", 0) if required else ("done", 1))
    assert asked.runs.replay(run.run_id).root_hash == run.root_hash


@pytest.mark.parametrize("required", [False, True])
def test_an_operation_that_hangs_is_too_late(asked, required):
    """R32, E14: after its timeout it gets the stop signal; the run waits only for the grace period."""
    end = Event()
    options = RunOptions(limits=Limits(grace_ms=1))
    try:
        run = run_with(asked, lambda c, a: end.wait(), run=options, timeout_ms=1, required=required)
    finally:
        end.set()
    assert errors(run) == {"it": "timeout"}
    assert run.status == ("failed" if required else "done")


def test_an_operation_that_obeys_the_timeout_signal_still_has_a_timeout_error(asked):
    """E14: a late operation is a `timeout`, even if it stopped on request."""
    assert errors(run_with(asked, until_told_to_stop, timeout_ms=1)) == {"it": "timeout"}


@pytest.mark.parametrize("cooperates", [True, False])
def test_an_aborted_run_commits_nothing_and_sends_no_request(asked, cooperates):
    """G26, G28: even if an operation ignores the signal and ends as done."""
    abort = StopSignal()

    def function(context, arguments):
        abort.set()
        return until_told_to_stop(context, arguments) if cooperates else "done nevertheless"

    run = run_with(
        asked, function, run=RunOptions(abort=abort), artifact={"tag": "it", "exposures": [EXPOSURE]}
    )
    assert (run.status, run.reports, asked.llm.asked) == ("aborted", (), [])
    assert [one.status for one in run.operations] == ["aborted" if cooperates else "done"]


def test_the_time_of_a_run_counts_beside_the_callers_signal(asked):
    """E14: both reasons to stop work, and the caller's signal is not set by the run."""
    abort = StopSignal()
    run = run_with(asked, until_told_to_stop, run=RunOptions(abort=abort, timeout=0.001))
    assert (run.status, abort.is_set()) == ("aborted", False)


def test_an_abort_during_the_main_call_keeps_the_reply_and_skips_later_operations(asked):
    """E14, R21: the reply is stored and visible; the required operation after it did not run."""
    abort = StopSignal()
    answer = asked.llm.chat
    asked.llm.chat = lambda messages, **options: (abort.set(), answer(messages, **options))[1]
    response = asked.generate(profile=story(), run=RunOptions(abort=abort))
    assert (response.text, response.run.status, response.run.failed_type) == ("On the mat.", "aborted", None)
    assert errors(response.run)["polish"] == "run_aborted"
    assert said(asked)[-1] == ("assistant", "On the mat.")
    assert asked.verify() == []


# --- the main call


class Raising:
    def __init__(self, error):
        self.error = error
        self.asked = 0

    def chat(self, messages, **options):
        self.asked += 1
        raise self.error


@pytest.mark.parametrize(
    ("client", "code"),
    [
        (Raising(OSError("the line is dead")), "provider_error"),
        (Raising(LLMError("no")), "operation_error"),
        (ScriptedClient({"choices": []}), None),
        (ScriptedClient({"choices": [{"message": {"role": "assistant", "content": 5}}]}), None),
    ],
)
def test_a_client_that_gives_no_reply_fails_the_run(tract, client, code):
    """R13, E12: earlier results are kept, and the error has its code."""
    tract.user("Where is it?")
    tract.configure_llm(client)
    with pytest.raises(RunFailedError, match="the main call failed") as caught:
        tract.generate(profile=story())
    run = caught.value.run
    assert (run.status, run.failed_type, run.reply) == ("failed", "main_llm", None)
    assert code in {None, run.failed_details["errorCode"]}
    assert caught.value.__cause__ is not None
    assert said(tract) == [("user", "Where is the cat?")]
    assert tract.verify() == []
    assert tract.runs.replay(run.run_id).root_hash == run.root_hash


def test_ctrl_c_in_the_main_call_is_raised_and_aborts_the_run(tract):
    """E14: later operations do not run."""
    tract.user("Where is it?")
    tract.configure_llm(Raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        tract.generate(profile=story())
    (run,) = tract.runs()
    assert (run.status, run.finish_reason) == ("aborted", "user_abort")
    assert {one.skipped_reason for one in run.operations if one.hook == "after_main_llm"} == {"run_aborted"}
    assert tract.verify() == []


def test_ctrl_c_during_operations_is_raised_and_stops_them(asked):
    """E14, G27: the run is recorded as aborted, without commits."""
    stopped = Event()

    def function(context, arguments):
        os.kill(os.getpid(), signal.SIGINT)
        try:
            return until_told_to_stop(context, arguments)
        finally:
            stopped.set()

    asked.functions.register("it")(function)
    profile = OperationProfile.of("p", [compute("it"), compute("it2", "it", after="it")])
    with pytest.raises(KeyboardInterrupt):
        asked.generate(profile=profile)
    assert stopped.wait(10)
    (run,) = asked.runs()
    assert (run.status, run.reports) == ("aborted", ())
    assert {one.operation_id: one.status for one in run.operations} == {"it": "aborted", "it2": "skipped"}
    assert asked.verify() == []
    assert asked.generate().text == "On the mat."


def test_a_validator_has_the_model_try_again(asked):
    """R13: this is one main call, with several attempts."""
    asked.llm.replies = ["It is tall.", "Ten metres."]
    response = asked.generate(profile=story(), validator=needs_metres)
    assert (response.run.status, len(asked.llm.asked)) == ("done", 2)
    assert asked.llm.asked[1][0][:2] == asked.llm.asked[0][0][:2]  # the effective prompt, both times


def test_a_validator_that_rejects_all_fails_the_run(asked):
    """R13, E12: the model's replies are not committed."""
    with pytest.raises(RunFailedError, match="metres") as caught:
        asked.generate(profile=story(), validator=needs_metres, max_retries=1)
    assert (caught.value.run.failed_details["errorCode"], len(asked.llm.asked)) == ("policy_error", 2)
    assert isinstance(caught.value.__cause__, RejectedError)


def test_a_handler_that_rejects_the_reply_fails_the_run(asked):
    """R13, E12: a veto works in a run, too."""
    asked.on("generate", lambda pending: pending.reject("not now"))
    with pytest.raises(RunFailedError, match="not now"):
        asked.generate(profile=story())
    assert said(asked) == [("user", "Where is the cat?")]


def test_a_reply_left_open_by_a_handler_can_be_approved_in_the_inbox(asked):
    """R13, E12: the paid reply is not lost with the run."""
    asked.on("generate", lambda pending: None)
    with pytest.raises(RunFailedError) as caught:
        asked.generate(profile=story())
    assert isinstance(caught.value.__cause__, UndecidedError)
    asked.operations.rebuild(asked.review.inbox()[0]).approve()
    assert said(asked)[-1] == ("assistant", "On the mat.")
    assert asked.verify() == []


def test_a_budget_that_refuses_the_reply_fails_the_run(any_store):
    """R13, E12: the reply waits in the inbox."""
    tract = any_store(budget=TokenBudget(max_tokens=12, action="reject"))
    tract.user("Where?")
    tract.configure_llm(ScriptedClient("On the mat, where else would it be at this time of the day?"))
    with pytest.raises(RunFailedError) as caught:
        tract.generate(
            trigger="generate",
            profile=OperationProfile.of("p", [run_operation("x", order=1, text="x", into="tail")]),
        )
    assert isinstance(caught.value.__cause__, BudgetExceededError)
    assert len(tract.review.inbox()) == 1
    assert tract.verify() == []


# --- a run that cannot begin


def test_a_run_that_cannot_begin_is_not_recorded(tract):
    """R9: no counter or record changes, and no operation runs."""
    tract.configure_llm(ScriptedClient())
    for trigger in ("generate", "regenerate"):
        with pytest.raises(ContentError, match="The context is empty"):
            tract.generate(profile=story(), trigger=trigger)
    info = tract.user("Where is it?")
    with pytest.raises(ContentError, match="There is no reply to regenerate"):
        tract.generate(profile=story(), trigger="regenerate")
    with pytest.raises(LLMError, match=r"within batch\(\)"), tract.batch():
        tract.generate(profile=story())
    tract.checkout(info.commit_hash)
    with pytest.raises(DetachedHeadError):
        tract.generate(profile=story())
    assert tract.runs() == []
    assert tract._parts.engine.artifacts.at(tract.head).counters.get("story", {}) == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_writes_to_its_own_branch_after_a_switch(asked, when):
    """R5, R47: the branch on which it began."""
    asked.branch("side", switch=False)
    asked.functions.register("it")(lambda c, a: str(asked.switch("side")))
    profile = OperationProfile.of("p", [compute("it", hooks=[f"{when}_main_llm"]),
                               run_operation("pol", order=20, text="It sleeps.", into="reply", when="after")])  # fmt: skip
    run = asked.generate(profile=profile).run
    assert asked.runs.replay(run.run_id).root_hash == run.root_hash
    assert asked.current_branch == "side"
    assert said(asked) == [("user", "Where is it?")]
    asked.switch("main")
    assert said(asked) == [("user", "Where is it?"), ("assistant", "It sleeps.")]
    assert asked.verify() == []


def test_another_variant_takes_the_place_of_the_reply(asked):
    """R9, R49: its operations run again, and all of it can be replayed."""
    asked.generate(profile=story())
    before = asked.log()
    response = asked.generate(profile=story(), trigger="regenerate")
    assert said(asked) == [("user", "Where is the cat?"), ("assistant", "It sleeps.")]
    assert len(asked.log()) > len(before)
    assert [one["role"] for one in asked.llm.last_messages if one["role"] != "system"] == ["user"]
    assert (response.run.status, response.run.trigger, asked.verify()) == ("done", "regenerate", [])
    assert asked.runs.replay(response.run.run_id).root_hash == response.run.root_hash


def test_another_variant_without_a_profile(asked):
    """R9: it is a run without operations."""
    asked.generate()
    response = asked.generate(trigger="regenerate")
    assert (response.text, response.run.operations) == ("Under it.", ())
    assert said(asked) == [("user", "Where is it?"), ("assistant", "Under it.")]
    assert asked.runs.replay(response.run.run_id).root_hash == response.run.root_hash
    assert asked.verify() == []
