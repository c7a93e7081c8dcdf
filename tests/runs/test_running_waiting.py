"""Runs that wait for the user: decided immediately, or later in another process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, said
from tests.runs.running import compute, errors
from tract_jupyter import Tract
from tract_jupyter.concurrency import StopSignal
from tract_jupyter.exceptions import (
    BranchMovedError,
    LLMConfigError,
    RunError,
    RunFailedError,
    UndecidedError,
)
from tract_jupyter.runs import RunOptions
from tract_jupyter.runs.profile import OperationProfile, run_operation

SYSTEM = {"type": "prompt_part", "target": "system"}


def checked(name="check", **config):
    """An operation that needs the user's decision."""
    return run_operation(
        name,
        "dynamic",
        operation="citation_check",
        tag=name,
        fields={"urls": [name]},
        **{"order": 10, **config},
    )


def profile(*operations, **config):
    more = [
        run_operation("mood", order=5, text="Be kind.", into="system"),
        run_operation(
            "sources", order=20, text="Sources: {{ art.check.value.urls }}", into="system", after="check"
        ),
    ]
    return OperationProfile.of("p", [checked(**config), *more, *operations])


@pytest.fixture
def reopened(any_store, spec):
    """Open the tract as another process would."""

    def reopened(*replies):
        tract = any_store()
        tract.configure_llm(ScriptedClient(*replies or ["On the mat."]))
        return tract

    with_operation = reopened()
    with_operation.register_operation(spec(unhandled="ask"))
    with_operation.user("Where is it?")
    return reopened


def left_waiting(tract, **how):
    """Begin a run without an available user."""
    with pytest.raises(UndecidedError, match=r"waits for a decision about 'check'. .*runs\.resume"):
        tract.generate(**{"profile": profile(), **how})
    (run,) = tract.runs()
    assert (run.status, tract.llm.asked) == ("waiting", [])
    return run


def decided_elsewhere(tract, decide):
    for stored in tract.review.inbox():
        decide(tract.operations.rebuild(stored))


def test_a_run_waits_if_no_user_is_available_and_resumes_after_the_decision(reopened):
    """R11, R13: finished operations are not repeated; the decision and the resume are in two other
    processes."""
    waiting = left_waiting(reopened())
    assert {one.operation_id: one.status for one in waiting.operations} == {
        "check": "waiting",
        "mood": "done",
    }
    decided_elsewhere(reopened(), lambda pending: pending.approve(edits={"urls": ["a book"]}))
    tract = reopened()
    response = tract.runs.resume(waiting.run_id[:8])
    assert (response.text, response.run.status, response.run.run_id) == (
        "On the mat.",
        "done",
        waiting.run_id,
    )
    assert "a book" in tract.llm.last_messages[0]["content"]
    started = [
        one.data.operation_id for one in tract.runs.events(waiting.run_id) if one.type == "operation.started"
    ]
    assert sorted(started) == ["check", "check", "mood", "sources"]
    assert tract.runs.replay(waiting.run_id).root_hash == response.run.root_hash
    assert tract.verify() == []


@pytest.mark.parametrize("required", [False, True])
def test_an_operation_rejected_by_the_user_is_skipped(reopened, required):
    """R36, R40, G4: a required one fails the barrier; the reason is stored in the run, not as a
    user message."""
    run_id = left_waiting(reopened(), profile=profile(required=required)).run_id
    decided_elsewhere(reopened(), lambda pending: pending.reject("no such book"))
    tract = reopened()
    assert said(tract) == [("user", "Where is it?")]
    if required:
        with pytest.raises(RunFailedError, match="condition_false"):
            tract.runs.resume(run_id)
    else:
        tract.runs.resume(run_id)
        assert said(tract) == [("user", "Where is it?"), ("assistant", "On the mat.")]
    run = tract.runs.get(run_id)
    assert (run.status, run.failed_type) == (("failed", "before_barrier") if required else ("done", None))
    assert errors(run) == {"check": "condition_false", "mood": None, "sources": "dependency_failed"}
    (skipped,) = [one for one in run.operations if one.operation_id == "check"]
    assert skipped.skip.condition["reason"] == "no such book"
    assert tract.runs.replay(run_id).root_hash == run.root_hash
    assert tract.verify() == []


def test_a_run_resumed_without_a_decision_still_waits(reopened):
    """R11: for any number of resumes, with an error."""
    run_id = left_waiting(reopened()).run_id
    for _ in range(2):
        tract = reopened()
        with pytest.raises(UndecidedError):
            tract.runs.resume(run_id)
        run = tract.runs.get(run_id)
        assert (run.status, len(tract.review.inbox()), tract.llm.asked) == ("waiting", 1, [])
        with pytest.raises(RunError, match="has not ended"):
            tract.runs.replay(run_id)


def test_with_two_waiting_operations_the_user_can_decide_one_first(reopened):
    """R11, G12: the run continues as far as possible, and waits for the other."""
    two = profile(checked("other", order=30, when="before"))
    with pytest.raises(UndecidedError, match="'check', 'other'"):
        reopened().generate(profile=two)
    tract = reopened()
    run_id = tract.runs()[0].run_id
    tract.operations.rebuild(tract.review.inbox()[0]).approve()
    with pytest.raises(UndecidedError, match="about '(check|other)'\\. "):
        tract.runs.resume(run_id)
    last = reopened()
    assert last.runs.get(run_id).status == "waiting"
    last.operations.rebuild(last.review.inbox()[0]).approve()
    assert last.runs.resume(run_id).run.status == "done"


def test_an_operation_after_the_reply_may_wait_too(reopened):
    """R13, R21: the reply exists, and is not requested again."""
    tract = reopened()
    after = OperationProfile.of("p", [checked(when="after", required=True)])
    with pytest.raises(UndecidedError):
        tract.generate(profile=after)
    assert said(tract)[-1] == ("assistant", "On the mat.")
    run_id = tract.runs()[0].run_id
    decided_elsewhere(reopened(), lambda pending: pending.reject("no"))
    last = reopened()
    response = last.runs.resume(run_id)
    assert (response.text, response.run.status, response.run.failed_type) == (
        "On the mat.",
        "failed",
        "after_main_llm",
    )
    assert (response.usage["total_tokens"], last.llm.asked) == (12, [])


def test_the_run_of_another_branch_is_not_resumed_here(reopened):
    """R5: it belongs to the turn on which it began."""
    tract = reopened()
    run_id = left_waiting(tract).run_id
    tract.branch("side")
    with pytest.raises(BranchMovedError, match=r"belongs to branch 'main'. Call switch\('main'\)"):
        tract.runs.resume(run_id)
    tract.switch("main")
    with pytest.raises(UndecidedError):
        tract.runs.resume(run_id)


def test_a_run_with_a_validator_is_resumed_with_it(reopened):
    """R13: an unchecked reply is not treated as a checked one."""
    run_id = left_waiting(reopened("short", "On the mat."), validator=lambda text: None).run_id
    tract = reopened("short", "On the mat.")
    decided_elsewhere(tract, lambda pending: pending.approve())
    with pytest.raises(RunError, match=r"began with the validator '<lambda>'.*validator=\.\.\."):
        tract.runs.resume(run_id)
    response = tract.runs.resume(run_id, validator=lambda text: None if "mat" in text else "where?")
    assert (response.text, len(tract.llm.asked)) == ("On the mat.", 2)


# --- with an available user


def test_an_available_user_decides_during_the_call(tract, spec):
    """R11: the only worker runs other operations in the meantime."""
    tract.configure_llm(ScriptedClient("On the mat."))
    tract.register_operation(spec(unhandled="ask"))
    tract.user("Where is it?")
    others = []

    def asked(ticket):
        others.append([one.status for one in tract.runs()[0].operations])
        click(ticket, "approve")

    tract.reviewer.channel = FakeChannel(asked)
    tract.functions.register("work")(lambda c, a: "worked")
    response = tract.generate(profile=profile(compute("work", order=99)), run=RunOptions(concurrency=1))
    assert (response.run.status, tract.review.inbox()) == ("done", [])
    assert others == [["done", "waiting", "done"]]
    assert {one.status for one in response.run.operations} == {"done"}


def test_a_rejection_during_the_call_skips_the_operation(tract, spec):
    """R36, R40, R47: the reason is not committed within the turn."""
    tract.configure_llm(ScriptedClient("On the mat."))
    tract.register_operation(spec(unhandled="ask"))
    tract.user("Where is it?")
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="no such book"))
    rewrite = run_operation("rewrite", order=30, text="Where is the cat?", into="message")
    response = tract.generate(profile=profile(rewrite))
    assert errors(response.run)["check"] == "condition_false"
    assert said(tract) == [("user", "Where is the cat?"), ("assistant", "On the mat.")]


def test_after_one_of_two_decisions_the_error_names_only_the_other(tract, spec):
    """R11: the first decision counts, even if the other is left open."""
    tract.configure_llm(ScriptedClient("On the mat."))
    tract.register_operation(spec(unhandled="ask"))
    tract.user("Where is it?")
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"), ready=False)
    tract.reviewer.channel.prompts.extend([None, None, None])
    with pytest.raises(UndecidedError, match="about 'other'. "):
        tract.generate(profile=profile(checked("other", order=30)))
    run = tract.runs()[0]
    assert {one.operation_id: one.status for one in run.operations}["check"] == "done"
    assert run.status == "waiting"


def test_the_process_that_asked_decides_in_its_own_inbox(tract, spec):
    """R11: in a notebook, the user clicks in the panel after the cell, and the next cell resumes the run."""
    tract.configure_llm(ScriptedClient("On the mat."))
    tract.register_operation(spec(unhandled="ask"))
    tract.user("Where is it?")
    run_id = left_waiting(tract).run_id
    decided_elsewhere(tract, lambda pending: pending.approve())
    assert tract.runs.resume(run_id).run.status == "done"


def test_two_tracts_of_one_process_do_not_resume_one_run_at_once(tmp_path, spec):
    """R13: the lease also works between threads."""
    with Tract.open(tmp_path / "t.db") as tract, Tract.open(tmp_path / "t.db") as other:
        tract.configure_llm(ScriptedClient("On the mat."))
        other.configure_llm(ScriptedClient("On the mat."))
        tract.register_operation(spec(unhandled="ask"))
        tract.user("Where is it?")
        run_id = left_waiting(tract).run_id
        decided_elsewhere(tract, lambda pending: pending.approve())
        refused = []

        def resume_too(event):
            if event.type == "main_llm.started":
                with pytest.raises(RunError, match="is being run by this process"):
                    other.runs.resume(run_id)
                refused.append(event)

        assert tract.runs.resume(run_id, on_event=resume_too).run.status == "done"
        assert (len(refused), other.llm.asked) == (1, [])


def test_threads_that_resume_one_run_at_the_same_time(tmp_path, spec):
    """R13: one thread resumes it, with one request."""
    with Tract.open(tmp_path / "t.db") as tract:
        tract.configure_llm(ScriptedClient("On the mat."))
        tract.register_operation(spec(unhandled="ask"))
        tract.user("Where is it?")
        run_id = left_waiting(tract).run_id
        decided_elsewhere(tract, lambda pending: pending.approve())
        together = threading.Barrier(4)

        def resume():
            together.wait()
            try:
                return tract.runs.resume(run_id).text
            except RunError as error:
                return str(error)

        with ThreadPoolExecutor(4) as threads:
            told = [one.result() for one in [threads.submit(resume) for _ in range(4)]]
        assert told.count("On the mat.") == 1
        assert all("is being run by" in one or "has ended" in one for one in told if one != "On the mat.")
        assert len(tract.llm.asked) == 1
        assert tract.verify() == []


def test_without_a_model_the_run_keeps_waiting(reopened, any_store):
    """R13: the main call is not lost if it could not be made here."""
    run_id = left_waiting(reopened()).run_id
    decided_elsewhere(reopened(), lambda pending: pending.approve())
    with pytest.raises(LLMConfigError):
        any_store().runs.resume(run_id)
    assert reopened().runs.resume(run_id).run.status == "done"


# --- two runs with the same request


CALLS = OperationProfile.of(
    "calls", [run_operation("send", "tool", order=1, tool="send", arguments={"to": "Ada"})]
)


@pytest.fixture
def sending(reopened):
    """A tract whose runs call a tool that needs approval, and the sent letters."""
    tract, sent = reopened(), []

    def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return "sent"

    tract.tool(send)
    return tract, sent


def undecided(tract, **how):
    with pytest.raises(UndecidedError):
        tract.generate(**how)
    return tract.runs()[0]


def test_each_run_has_its_own_request_and_withdraws_only_that_one(sending):
    tract, sent = sending
    first = undecided(tract, profile=CALLS)
    second = undecided(tract, profile=CALLS, temperature=0.5)
    asked = {stored.triggered_by: stored.pending_id for stored in tract.review.inbox()}
    assert set(asked) == {f"run {first.run_id}", f"run {second.run_id}"}
    abort = StopSignal()
    abort.set()
    with pytest.raises(RunFailedError, match="aborted"):
        tract.runs.resume(second.run_id, run=RunOptions(abort=abort))
    assert [stored.triggered_by for stored in tract.review.inbox()] == [f"run {first.run_id}"]
    tract.operations.rebuild(tract.review.inbox()[0]).approve()
    tract.runs.resume(first.run_id)
    assert (sent, tract.review.inbox()) == (["Ada"], [])


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [CALLS, profile()], ids=["tool", "dynamic"])
def test_repeating_a_waiting_turn_continues_its_run(sending, wanted):
    tract, _ = sending
    for _ in range(2):
        with pytest.raises(UndecidedError):
            tract.chat("Which?", profile=wanted)
    assert undecided(tract, profile=wanted).run_id == tract.runs()[-1].run_id
    assert len(tract.review.inbox()) == 1
    assert [text for _, text in said(tract)].count("Which?") == 1
    decided_elsewhere(tract, lambda pending: pending.approve())
    response = tract.chat("Which?", profile=wanted)
    assert (response.text, response.run.status, len(tract.runs())) == ("On the mat.", "done", 1)
    assert [text for _, text in said(tract)].count("Which?") == 1
