"""Requests to the user: later clicks, async and blocking waits, rounds, races, and changes after display."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.rigging import decisions, in_the_inbox_of, press
from tract_jupyter import Tract
from tract_jupyter.exceptions import NobodyToAskError, PendingStateError, UndecidedError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef
from tract_jupyter.review import Answer, Decision, checking, is_waited_for
from tract_jupyter.review import reviewer as reviewer_module

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.fixture
def ask(tract, spec):
    """Fire an operation with the given action code, and set a channel with the given user steps."""

    def make(code="pending.approve()", *steps, params=None, channel=None, **options):
        tract.register_operation(
            spec(actions={"verify": ActionDef("verify", "Look.", params or {}, code)},
                 fields={"n": {"type": "int", "default": 0}})
        )  # fmt: skip
        tract.reviewer.channel = channel or FakeChannel(*steps)
        return tract.fire("citation_check", review=True, **options)

    return make


def pressing(action, **arguments):
    return lambda ticket: click(ticket, action, **arguments)


# --- click later


def test_show_stores_it_and_returns_and_a_later_click_is_carried_out(tract, ask):
    pending = ask()
    ticket = tract.reviewer.show(pending)
    assert [stored.pending_id for stored in tract.review.inbox()] == [pending.pending_id]
    assert click(ticket, "approve")
    assert pending.status is PendingStatus.PENDING  # the click itself runs nothing
    tract.reviewer.channel.run_due()
    assert pending.status is PendingStatus.APPROVED
    assert ticket.settled.is_set()
    assert tract.review.inbox() == []
    assert tract.reviewer.channel.shown[-1][1] == "approved"
    (decision,) = decisions(tract)
    assert (decision["action"], decision["channel"], decision["pending_id"]) == (
        "approve",
        "fake",
        pending.pending_id,
    )
    assert decision["fingerprint"] == pending.fingerprint


def test_showing_twice_is_one_request(tract, ask):
    pending = ask()
    assert tract.reviewer.show(pending) is tract.reviewer.show(pending)
    assert len(tract.reviewer.channel.shown) == 1
    assert len(tract.review.inbox()) == 1


def test_show_again_moves_it_and_old_and_new_panel_are_one_ticket(tract, ask):
    pending = ask()
    first = tract.reviewer.show(pending)
    rebuilt = tract.operations.rebuild(tract.review.inbox()[0])
    assert tract.reviewer.show_again(rebuilt) is first
    assert tract.reviewer.channel.forgotten == [pending.pending_id]
    press(tract, first, "reject", reason="no")
    assert pending.rejection_reason == "no"


def test_a_decided_pending_cannot_be_shown_again(tract, ask):
    pending = ask()
    pending.reject()
    for again in (tract.reviewer.show, tract.reviewer.decide_now):
        with pytest.raises(PendingStateError, match="already decided"):
            again(pending)
    assert tract.review.inbox() == []


# --- waiting


def test_decide(tract, ask):
    pending = ask("pending.approve()", pressing("reject", reason="no"))
    decision = asyncio.run(tract.reviewer.decide(pending))
    assert isinstance(decision, Decision)
    assert (decision.action, decision.reason, decision.channel) == ("reject", "no", "fake")
    assert (pending.status, pending.rejection_reason) == ("rejected", "no")


def test_decide_now(tract, ask, ran):
    pending = ask("pending.approve()", pressing("approve"), execute_fn=ran.append)
    decision = tract.reviewer.decide_now(pending)
    assert (decision.action, decision.fingerprint) == ("approve", pending.fingerprint)
    assert ran == [pending]
    tract.reviewer.channel.run_due()
    assert ran == [pending]


def test_awaiting_a_pending(tract, ask):
    pending = ask("pending.approve()", pressing("verify"))

    async def main():
        return await pending, await pending  # the second await returns at once

    assert asyncio.run(main()) == (pending, pending)
    assert pending.status is PendingStatus.APPROVED


def test_the_event_loop_runs_while_it_is_awaited(tract, ask):
    pending = ask()

    async def main():
        waiting = asyncio.create_task(tract.reviewer.decide(pending))
        await tract.reviewer.channel.until_shown()
        click(tract.reviewer.show(pending), "approve")
        return await waiting

    assert asyncio.run(main()).action == "approve"


def test_a_click_from_another_thread_ends_a_blocking_wait(tract, ask):
    def step(ticket):
        thread = threading.Thread(target=click, args=(ticket, "approve"))
        thread.start()
        thread.join()

    pending = ask("pending.approve()", step)
    assert tract.reviewer.decide_now(pending).action == "approve"


@pytest.mark.parametrize("code", ["pending.approve()", "pending.reject('no')"])
def test_waiting_code_continues_after_a_decision_by_code(tract, ask, code):
    pending = ask(code, lambda ticket: pending.verify())
    decision = tract.reviewer.decide_now(pending)
    assert (decision.action, decision.channel) == ("verify", "code")
    assert [status for _, status in tract.reviewer.channel.shown] == ["pending", pending.status.value]


def test_waiting_code_continues_only_after_the_code_decision_has_run(tract, ask):
    go_on, looks = threading.Event(), []
    pending = ask("pass", lambda ticket: thread.start(), execute_fn=lambda p: go_on.wait(60))
    thread = threading.Thread(target=pending.approve)

    def look(ticket, waited):
        looks.append(pending.status)
        if looks.count(PendingStatus.APPROVED) > 2:  # decided, and polled again after that
            go_on.set()
        return True

    tract.reviewer.channel.panel_may_answer = look
    tract.reviewer.decide_now(pending)
    had_ended = go_on.is_set()
    go_on.set()
    thread.join()
    assert (had_ended, pending.result) == (True, True)


def test_a_displayed_request_shows_a_decision_by_code(tract, ask):
    pending = ask()
    ticket = tract.reviewer.show(pending)
    pending.approve()
    tract.reviewer.channel.look()
    assert ticket.settled.is_set()
    assert [status for _, status in tract.reviewer.channel.shown] == ["pending", "approved"]
    assert tract.reviewer.channel.looks == []  # there is no request to poll


def test_several_wait_for_one_decision(tract, ask):
    pending = ask()

    async def main():
        waiting = [asyncio.create_task(tract.reviewer.decide(pending)) for _ in range(5)]
        await tract.reviewer.channel.until_shown()
        click(tract.reviewer.show(pending), "verify")
        return await asyncio.gather(*waiting)

    assert {decision.action for decision in asyncio.run(main())} == {"verify"}
    assert len(decisions(tract)) == 1


# --- concurrent answers


def test_the_first_answer_wins(tract, ask):
    pending = ask()
    ticket = tract.reviewer.show(pending)
    assert click(ticket, "reject") is True
    assert click(ticket, "approve") is False
    tract.reviewer.channel.run_due()
    assert click(ticket, "approve") is False
    assert pending.status is PendingStatus.REJECTED


def test_the_first_answer_wins_from_many_threads(tract, ask, ran):
    pending = ask(execute_fn=ran.append)
    ticket = tract.reviewer.show(pending)
    barrier = threading.Barrier(16)
    round_id = ticket.round_id

    def press(number):
        barrier.wait()
        taken = ticket.submit(Answer("approve", {}, round_id), f"panel {number}")
        tract.reviewer.carry_out(ticket)
        return taken

    with ThreadPoolExecutor(16) as pool:
        taken = list(pool.map(press, range(16)))
    assert taken.count(True) == 1
    assert ran == [pending]
    (decision,) = decisions(tract)
    assert decision["channel"] == f"panel {taken.index(True)}"


@pytest.mark.parametrize("round_id", ["", "0" * 16, None])
def test_an_answer_to_another_showing_does_not_count(tract, ask, round_id):
    pending = ask()
    ticket = tract.reviewer.show(pending)
    assert ticket.submit(Answer("approve", {}, round_id), "fake") is False
    tract.reviewer.channel.run_due()
    assert pending.status is PendingStatus.PENDING


def test_nothing_can_be_submitted_while_an_answer_is_carried_out(tract, ask):
    taken = []

    def execute(pending):
        taken.extend(ticket.submit(Answer("approve", {}, r), "fake") for r in ("", ticket.round_id, shown))
        tract.reviewer.carry_out(ticket)

    ticket = tract.reviewer.show(ask(execute_fn=execute))
    shown = ticket.round_id
    press(tract, ticket, "approve")
    assert taken == [False, False, False]


def test_an_answer_is_taken_only_after_the_ticket_is_released(tract, ask):
    ticket = tract.reviewer.show(ask())
    with ticket.hold():
        assert click(ticket, "approve")
        assert ticket.take() is None
        with ticket.hold() as free:
            assert not free
        assert ticket.take() is None
    assert ticket.take() is not None


def test_a_stale_round_is_ignored(tract, ask):
    pending = ask("pending.fields['n'] += 1")
    ticket = tract.reviewer.show(pending)
    old = ticket.round_id
    press(tract, ticket, "verify")
    assert ticket.submit(Answer("approve", {}, old), "fake") is False
    assert pending.status is PendingStatus.PENDING
    assert click(ticket, "approve") is True


def test_an_action_that_was_not_offered_is_not_accepted(tract, ask):
    ticket = tract.reviewer.show(ask())
    for action in ("get_state", "pass_through", "_fail", "nothing", ""):
        assert click(ticket, action) is False
    assert click(ticket, "approve") is True


# --- rounds


def test_arguments_that_do_not_fit_give_a_new_round_with_a_note(tract, ask):
    pending = ask("pending.reject(str(n))", pressing("verify", n="x"), pressing("verify"), pressing("verify", n=3),
                  params={"n": "int"})  # fmt: skip
    tract.operations.registry.get_class("citation_check")
    tract.reviewer.decide_now(pending)
    notes = tract.reviewer.channel.notes
    assert "Nothing was run: verify: 'n' should be a valid integer, got 'x' (str)" in notes[1]
    assert pending.rejection_reason == "None"  # n is optional
    assert len(decisions(tract)) == 1


def test_the_inputs_of_an_action_are_offered(tract, ask):
    pending = ask(params={"n": "int"})
    (action,) = [a for a in pending.review_request().actions if a.name == "verify"]
    assert action.parameters.names == ("n",)
    assert [a.name for a in pending.review_request().actions] == ["verify", "approve", "reject"]


def test_an_action_that_leaves_it_open_gives_the_next_round(tract, ask):
    pending = ask(
        "print('counting')\npending.fields['n'] += 1",
        pressing("verify"),
        pressing("verify"),
        pressing("approve"),
    )
    tract.reviewer.decide_now(pending)
    assert (pending.status, pending.fields) == ("approved", {"n": 2})
    prints = [request.fingerprint for request, _ in tract.reviewer.channel.shown[:3]]
    assert len(set(prints)) == 3
    assert [d["action"] for d in decisions(tract)] == ["verify", "verify", "approve"]
    assert [d["fingerprint"] for d in decisions(tract)] == prints


def test_printed_output_of_an_action_is_kept_for_the_panel(tract, ask, capsys):
    ticket = tract.reviewer.show(ask("print('hello')\nprint('x' * 30_000)"))
    press(tract, ticket, "verify")
    assert ticket.output.startswith("hello\nxxx")
    assert "characters left out" in ticket.output
    assert len(ticket.output) < 11_000
    assert capsys.readouterr().out == ""


def test_an_action_that_raises_is_failed_and_can_be_retried(tract, ask):
    code = "n = globals().setdefault('n', []);  n.append(1)\nif len(n) < 2:\n    raise OSError('down')\npending.approve()"
    pending = ask(code, pressing("verify"), pressing("verify"))
    tract.reviewer.decide_now(pending)
    _, second, _ = tract.reviewer.channel.shown
    assert second[1] == "failed"
    assert second[0].note.splitlines() == [
        "<action:citation_check.verify>, line 3: raise OSError('down')", "OSError: down",
    ]  # fmt: skip
    assert [event.data["error"] for event in tract.events("failed")] == ["OSError: down"]
    assert (pending.status, pending.error) == ("approved", None)
    assert tract.review.inbox() == []


def test_a_failed_request_stays_in_the_inbox_with_its_error(tract, ask):
    ticket = tract.reviewer.show(ask("raise ValueError('\\ud800')"))
    press(tract, ticket, "verify")
    (stored,) = tract.review.inbox()
    assert (stored.status, stored.error) == ("failed", "ValueError: \\ud800")
    press(tract, ticket, "reject")
    assert tract.review.inbox() == []


def test_a_failed_execute_fn_can_be_retried(tract, ask):
    outcomes = iter([1, 0])
    pending = ask(
        "pass", pressing("approve"), pressing("approve"), execute_fn=lambda p: 1 // (1 - next(outcomes))
    )
    tract.reviewer.decide_now(pending)
    assert (pending.status, pending.result) == ("approved", 1)
    assert len(tract.events("failed")) == 1


def test_fields_without_a_json_form_are_put_back(tract, ask):
    pending = ask("pending.fields['n'] = object()", pressing("verify"), pressing("approve"))
    tract.reviewer.decide_now(pending)
    assert pending.fields == {"n": 0}
    assert "no JSON form" in tract.reviewer.channel.notes[1]


def test_interrupted_half_way_is_failed_in_memory_and_in_the_store(tract, ask):
    def interrupt(pending):
        raise KeyboardInterrupt

    pending = ask("pass", pressing("approve"), execute_fn=interrupt)
    with pytest.raises(KeyboardInterrupt):
        tract.reviewer.decide_now(pending)
    assert pending.status is PendingStatus.FAILED
    assert [stored.status for stored in tract.review.inbox()] == ["failed"]
    assert tract.reviewer.channel.notes[-1] == "Interrupted before it ended."
    press(tract, tract.reviewer.show(pending), "reject")
    assert tract.review.inbox() == []


# --- changes after display


def test_a_request_changed_after_display_does_not_run(tract, ask, ran):
    pending = ask(execute_fn=ran.append)
    ticket = tract.reviewer.show(pending)
    pending.fields["n"] = 99
    press(tract, ticket, "approve")
    assert (ran, pending.status) == ([], PendingStatus.PENDING)
    request, _ = tract.reviewer.channel.shown[-1]
    assert "the request has changed since you saw it" in request.note
    assert "99" in request.tables[0].rows[0].value
    assert decisions(tract) == []
    click(ticket, "approve")  # now the display is current
    tract.reviewer.channel.run_due()
    assert ran == [pending]


@pytest.mark.parametrize("change", ["replaced", "removed"])
@pytest.mark.parametrize("action", ["approve", "verify"])
def test_a_replaced_or_removed_operation_does_not_run_but_can_be_rejected(
    tract, ask, spec, change, action, ran
):
    pending = ask("pending.approve()", execute_fn=ran.append)
    ticket = tract.reviewer.show(pending)
    if change == "removed":
        tract.unregister_operation("citation_check")
    else:
        tract.propose_operation(spec("pending.approve() ")).approve()
    press(tract, ticket, action)
    assert (ran, pending.status) == ([], PendingStatus.PENDING)
    assert change in tract.reviewer.channel.notes[-1]
    assert len(tract.review.inbox()) == 1
    press(tract, ticket, "reject", reason="outdated")
    assert (ran, pending.rejection_reason) == ([], "outdated")
    assert tract.review.inbox() == []


def test_a_proposal_that_was_changed_after_it_was_shown_is_not_activated(tract, spec):
    tract.reviewer.channel = FakeChannel()
    pending = tract.propose_operation(spec())
    ticket = tract.reviewer.show(pending)
    pending.fields["spec"] = tract.propose_operation(spec("import os")).fields["spec"]
    press(tract, ticket, "approve")
    assert tract.operations.registry.operation_names == set()


# --- no user available


def test_without_a_user_deciding_raises_at_once_and_keeps_the_request(tract, spec):
    tract.register_operation(spec(fields={}))  # a tract without a notebook has no channel
    pending = tract.fire("citation_check", review=True)
    with pytest.raises(NobodyToAskError, match="inbox"):
        tract.reviewer.decide_now(pending)
    with pytest.raises(NobodyToAskError, match="inbox"):
        asyncio.run(tract.reviewer.decide(pending))
    assert [stored.pending_id for stored in tract.review.inbox()] == [pending.pending_id]
    assert pending.status is PendingStatus.PENDING


def test_a_panel_that_never_says_ready_gives_way_to_the_prompt(tract, ask):
    channel = FakeChannel(ready=False)
    channel.prompts.extend([("verify", {"n": "x"}), ("nothing", {}), ("reject", {"reason": "typed"})])
    pending = ask(params={"n": "int"}, channel=channel)
    decision = tract.reviewer.decide_now(pending)
    assert (decision.channel, pending.rejection_reason) == ("prompt", "typed")
    assert not channel.prompts


def test_without_panel_and_input_deciding_raises_and_keeps_the_request(tract, ask):
    channel = FakeChannel(ready=False)
    channel.prompts.append(None)
    pending = ask(channel=channel)
    with pytest.raises(NobodyToAskError, match="takes no input"):
        tract.reviewer.decide_now(pending)
    assert len(tract.review.inbox()) == 1
    click(tract.reviewer.show(pending), "approve")
    channel.run_due()
    assert pending.status is PendingStatus.APPROVED


def test_a_ready_panel_is_not_prompted_for(tract, ask):
    pending = ask("pending.approve()", lambda ticket: threading.Timer(0, click, (ticket, "approve")).start())
    assert tract.reviewer.decide_now(pending).channel == "fake"


# --- interrupted


@pytest.mark.parametrize("wait", [lambda r, p: r.decide_now(p), lambda r, p: asyncio.run(r.decide(p))])
def test_a_displayed_request_is_already_marked_as_waited_for(tract, ask, wait):
    """Otherwise a fast second process would run the operation itself instead of the asking process."""
    seen = []

    def look(ticket):
        seen.append(is_waited_for(tract.review.inbox()[0]))
        click(ticket, "approve")

    wait(tract.reviewer, ask("pending.approve()", look))
    assert seen == [True]


@pytest.mark.parametrize("wait", [lambda r, p: r.decide_now(p), lambda r, p: asyncio.run(r.decide(p))])
def test_waiting_for_a_decision_is_refused_in_a_batch(tract, ask, wait):
    pending = ask()
    with tract.batch(), pytest.raises(UndecidedError, match="blocks other writers"):
        wait(tract.reviewer, pending)
    assert [stored.pending_id for stored in tract.review.inbox()] == [pending.pending_id]


def test_asking_and_writing_at_once_do_not_wait_for_each_other(tract, ask):
    pendings, both = [ask(), tract.fire("citation_check", {"n": 1}, review=True)], threading.Barrier(2)

    def within_a_batch():
        with tract.batch():
            both.wait()
            tract.reviewer.show(pendings[0])

    def alone():
        both.wait()
        tract.reviewer.show(pendings[1])

    with ThreadPoolExecutor(2) as pool:
        for asked in [pool.submit(within_a_batch), pool.submit(alone)]:
            asked.result(timeout=60)
    assert len(tract.review.inbox()) == 2


async def interrupted(tract, pending, before=lambda: None):
    """Wait for a decision, and interrupt the wait."""
    waiting = asyncio.create_task(tract.reviewer.decide(pending))
    await tract.reviewer.channel.until_shown()
    before()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_an_interrupted_wait_leaves_it_decidable(tract, ask):
    pending = ask()
    asyncio.run(interrupted(tract, pending))
    assert len(tract.review.inbox()) == 1
    ticket = tract.reviewer.show(pending)
    assert ticket.waiting == 0
    press(tract, ticket, "approve")
    assert pending.status is PendingStatus.APPROVED


def test_a_click_just_before_the_interrupt_is_not_lost(tract, ask):
    pending = ask()
    asyncio.run(interrupted(tract, pending, lambda: click(tract.reviewer.show(pending), "approve")))
    assert pending.status is PendingStatus.PENDING
    tract.reviewer.channel.run_due()
    assert pending.status is PendingStatus.APPROVED


def test_all_waiting_threads_continue_only_after_the_operation_ran(tract, ask):
    beats = threading.Semaphore(0)
    went_on = []

    def wait():
        with checking(beats.release):
            return tract.reviewer.decide_now(pending)

    def execute(pending):  # the decision is already in the store
        while beats.acquire(blocking=False):
            pass
        for _ in range(3):  # the other waiting threads have polled three times
            assert beats.acquire(timeout=60)
        went_on.extend(waiting.done() for waiting in both)

    pending = ask("pending.approve()", execute_fn=execute)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(wait) for _ in range(2)]
        while not tract.reviewer.channel.shown:
            pass
        click(tract.reviewer.show(pending), "approve")
    assert went_on == [False, False]
    assert [waiting.result().action for waiting in both] == ["approve", "approve"]


@pytest.fixture
def no_heartbeat(monkeypatch):
    """A wait lasts an hour, unless an answer ends it."""
    monkeypatch.setattr(reviewer_module, "HEARTBEAT", 3600)


@pytest.mark.usefixtures("no_heartbeat")
def test_an_answer_ends_the_wait_of_a_thread(tract, ask):
    pendings = [ask("pending.approve()") for _ in range(2)]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tract.reviewer.decide_together, pendings)
        while len(tract.reviewer.channel.shown) < len(pendings):
            time.sleep(0)
        for pending in reversed(pendings):
            click(tract.reviewer.show(pending), "approve")
        assert waiting.result(60) == (pendings, None)
    assert [pending.status.value for pending in pendings] == ["approved", "approved"]


@pytest.mark.usefixtures("no_heartbeat")
def test_two_waits_for_one_request_end_with_its_answer(tract, ask):
    pending = ask("pending.approve()")
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(tract.reviewer.decide_now, pending) for _ in range(2)]
        while not tract.reviewer.channel.shown:
            time.sleep(0)
        click(tract.reviewer.show(pending), "approve")
        assert [waiting.result(60).action for waiting in both] == ["approve", "approve"]


@pytest.mark.usefixtures("no_heartbeat")
def test_an_answer_ends_the_wait_of_a_task(tract, ask):
    pending = ask("pending.approve()")

    async def wait():
        task = asyncio.create_task(tract.reviewer.decide(pending))
        while not tract.reviewer.channel.shown:  # noqa: ASYNC110 # the channel sets no event
            await asyncio.sleep(0)
        await asyncio.to_thread(click, tract.reviewer.show(pending), "approve")
        return await asyncio.wait_for(task, 60)

    assert asyncio.run(wait()).action == "approve"


def test_an_action_that_rejects_gives_its_reason_to_the_log(tract, ask):
    pending = ask("pending.reject('too ' + why)", pressing("verify", why="far"), params={"why": "str"})
    tract.reviewer.decide_now(pending)
    (event,) = tract.events("rejected")
    assert event.data == {"pending_id": pending.pending_id, "action": "verify", "reason": "too far"}


# --- several processes


@pytest.fixture
def two(tmp_path, spec):
    """Two tracts on one file, like in two kernels."""
    with Tract.open(tmp_path / "t.db") as first:
        first.register_operation(
            spec(fields={"n": {"type": "int", "default": 0}},
                 actions={"write": ActionDef("write", "", {}, "with open(__import__('os').environ['OUT'], 'a') as f:\n"
                                                              "    f.write('x')\npending.approve()")})
        )  # fmt: skip
        with Tract.open(tmp_path / "t.db") as second:
            first.reviewer.channel, second.reviewer.channel = FakeChannel(), FakeChannel()
            yield first, second


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    return tmp_path / "out"


def test_a_decision_of_another_process_is_noticed(two, out):
    first, second = two
    pending = first.fire("citation_check", review=True)

    def elsewhere(ticket):
        other = second.reviewer.show_again(second.operations.rebuild(second.review.inbox()[0]))
        press(second, other, "write")

    first.reviewer.channel.steps.append(elsewhere)
    decision = first.reviewer.decide_now(pending)
    assert (decision.action, decision.channel) == ("write", "fake")
    assert pending.status is PendingStatus.APPROVED
    assert "(fake) chose 'write'" in first.reviewer.channel.notes[-1]
    assert out.read_text() == "x"
    assert first.review.inbox() == second.review.inbox() == []


def test_clicks_after_another_decision_run_nothing(two, out):
    first, second = two
    pending = first.fire("citation_check", review=True)
    mine = first.reviewer.show(pending)
    other = second.reviewer.show_again(second.operations.rebuild(second.review.inbox()[0]))
    click(other, "write")
    press(second, mine, "write")
    first.reviewer.channel.run_due()
    assert first.reviewer.channel.notes[-1].startswith("another decision came first: ")
    click(mine, "write")
    first.reviewer.channel.run_due()
    assert out.read_text() == "x"
    assert pending.status is PendingStatus.APPROVED
    assert [event.data["action"] for event in first.events("decision")] == ["write"]


def test_a_round_that_was_renumbered_after_the_others_decision_runs_nothing(two, out):
    first, second = two
    mine = first.reviewer.show(first.fire("citation_check", review=True))
    other = second.reviewer.show_again(second.operations.rebuild(second.review.inbox()[0]))
    press(second, other, "write")
    click(mine, "reject", reason=3)  # invalid: a new round
    first.reviewer.channel.run_due()
    press(first, mine, "write")
    assert out.read_text() == "x"


def test_a_request_rebuilt_from_the_inbox_runs_exactly_once(two, out):
    first, second = two
    first.reviewer.show(first.fire("citation_check", {"n": 7}, review=True, triggered_by="a test"))
    (stored,) = second.review.inbox()
    rebuilt = second.operations.rebuild(stored)
    assert (rebuilt.fields, rebuilt.triggered_by, rebuilt.pending_id) == (
        {"n": 7},
        "a test",
        stored.pending_id,
    )
    press(second, second.reviewer.show_again(rebuilt), "write")
    stale = second.operations.rebuild(stored)  # from an earlier listing of the inbox
    ticket = second.reviewer.show_again(stale)
    press(second, ticket, "write")
    assert out.read_text() == "x"
    assert stale.status is PendingStatus.APPROVED


def test_a_proposal_can_be_approved_in_another_process(two, spec):
    first, second = two
    first.reviewer.show(first.propose_operation(spec(name="fresh"), triggered_by="a model"))
    (stored,) = second.review.inbox()
    pending = second.operations.rebuild(stored)
    assert pending.title == "Activate operation fresh"
    press(second, second.reviewer.show_again(pending), "approve")
    assert "fresh" in second.operations.registry.operation_names


def test_a_function_of_another_process_is_decided_here_and_runs_there(two, ran):
    first, second = two
    pending = first.fire("citation_check", review=True, execute_fn=lambda p: ran.append(p.fields["n"]))
    ticket = first.reviewer.show(pending)
    other = in_the_inbox_of(second)
    assert [action.name for action in other.request.actions] == ["write", "approve", "reject"]
    press(second, other, "approve", edits={"n": 5})
    assert (other.status, ran) == ("approved", [])
    assert "Handed to" in second.reviewer.channel.notes[-1]
    first.reviewer.channel.look()
    assert (pending.status, ran, ticket.settled.is_set()) == ("approved", [5], True)
    assert "chose 'approve'" in first.reviewer.channel.notes[-1]
    assert first.review.inbox() == []
    first.reviewer.channel.look()
    assert ran == [5]


def test_the_waiting_process_carries_out_a_decision_of_another_process(two, out):
    first, second = two
    pending = first.fire("citation_check", {"n": 1}, review=True)

    def elsewhere(ticket):
        first.reviewer.ledger.wait(pending.pending_id, 60)  # as the waiting code does
        press(second, in_the_inbox_of(second), "write")
        assert not out.exists()

    first.reviewer.channel.steps.append(elsewhere)
    assert first.reviewer.decide_now(pending).action == "write"
    assert (out.read_text(), pending.status) == ("x", "approved")
    assert first.review.inbox() == []


def test_a_rejection_in_another_process_reaches_waiting_code_with_its_reason(two):
    first, second = two
    pending = first.fire("citation_check", review=True, execute_fn=lambda p: None)

    def elsewhere(ticket):
        press(second, in_the_inbox_of(second), "reject", reason="not today")

    first.reviewer.channel.steps.append(elsewhere)
    decision = first.reviewer.decide_now(pending)
    assert (pending.status, pending.rejection_reason, decision.reason) == (
        "rejected",
        "not today",
        "not today",
    )


def test_a_request_survives_the_end_of_the_asking_process(tmp_path, spec, out):
    with Tract.open(tmp_path / "t.db") as t:
        t.register_operation(spec(fields={}, code=f"open({str(out)!r}, 'a').write('x')\npending.approve()"))
        t.reviewer.show(t.fire("citation_check", review=True))
    with Tract.open(tmp_path / "t.db") as t:
        t.reviewer.channel = FakeChannel()
        press(t, t.reviewer.show_again(t.operations.rebuild(t.review.inbox()[0])), "approve")
        assert t.review.inbox() == []
        assert t.status().waiting == 0


def test_the_inbox_of_the_asking_process_returns_the_original_pending(two, ran):
    first, _ = two
    first.on("citation_check", lambda p: None)
    pending = first.fire("citation_check", execute_fn=ran.append)
    assert first.operations.rebuild(first.review.inbox()[0]) is pending
    press(first, in_the_inbox_of(first), "approve")
    assert (ran, pending.status) == ([pending], "approved")


# --- a page that was closed


def test_blocking_code_does_not_wait_for_a_closed_page(tract, ask):
    pending = ask()
    tract.reviewer.channel.left = True
    with pytest.raises(
        NobodyToAskError, match=r"page that showed it was closed.*%tract inbox.*run the cell again"
    ):
        tract.reviewer.decide_now(pending)
    assert [stored.pending_id for stored in tract.review.inbox()] == [pending.pending_id]
    request, _ = tract.reviewer.channel.shown[-1]
    assert "has ended" in request.note
    pending.approve()
    assert tract.review.inbox() == []


@pytest.mark.parametrize("way", ["task", "thread"])
def test_other_code_waits_for_a_page_that_is_opened_again(tract, ask, way):
    pending = ask("pending.approve()", pressing("approve"))
    tract.reviewer.channel.left = True
    if way == "task":
        decision = asyncio.run(tract.reviewer.decide(pending))
    else:
        with ThreadPoolExecutor(1) as pool:
            decision = pool.submit(tract.reviewer.decide_now, pending).result(30)
    assert decision.action == "approve"
