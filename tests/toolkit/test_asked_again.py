"""A repeated gated call uses the request that is already open and adds no other."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.rigging import Attacker, add_writer
from tract_jupyter import Tract
from tract_jupyter.toolkit import InboxChannel


@pytest.fixture
def ran():
    return []


@pytest.fixture
def opened(own_store, ran):
    """Open the store like a process with a tool that needs approval for a model's calls."""
    made = []

    def opened():
        made.append(Tract.open(url=own_store))
        add_writer(made[-1], ran)
        return made[-1]

    yield opened
    for one in made:
        one.close()


def call(tract, path="a", actor="agent:1"):
    return tract.executor.execute("write", {"path": path}, actor=actor)


def waiting(tract):
    return [stored.pending_id for stored in tract.review.inbox()]


def approving(tract):
    tract.reviewer.channel = channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    return channel


def test_repeated_calls_without_an_available_user_share_one_request(opened, ran):
    tract = opened()
    for _ in range(3):
        assert call(tract).denied
    (pending_id,) = waiting(tract)
    assert pending_id[:8] in call(tract).error
    channel = approving(tract)
    assert call(tract).success
    assert {request.pending_id for request, _ in channel.shown} == {pending_id}
    assert (waiting(tract), ran) == ([], [("a", 0)])
    assert len(tract.review.decisions()) == 1


def test_other_values_and_other_askers_have_questions_of_their_own(opened):
    tract = opened()
    call(tract)
    call(tract, "b")
    call(tract, actor="agent:2")
    assert len(waiting(tract)) == 3


def test_a_repeated_call_reopens_the_interrupted_request(opened, ran):
    tract = opened()

    def interrupt(_):
        raise KeyboardInterrupt

    channel = tract.reviewer.channel = FakeChannel(interrupt, lambda ticket: click(ticket, "approve"))
    with pytest.raises(KeyboardInterrupt):
        call(tract)
    (pending_id,) = waiting(tract)
    assert call(tract).success
    assert {request.pending_id for request, _ in channel.shown} == {pending_id}
    assert (waiting(tract), len(ran)) == ([], 1)


def test_two_waiting_calls_have_separate_requests_and_decisions(opened, ran):
    tract = opened()
    call(tract)  # this request is open, and one of the two calls takes it
    shown, both = threading.Semaphore(0), []

    def hold(ticket):
        both.append(ticket)
        shown.release()

    tract.reviewer.channel = FakeChannel(hold, hold)
    threads = [threading.Thread(target=call, args=(tract,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert shown.acquire(timeout=30)
    assert shown.acquire(timeout=30)
    first, second = both
    assert first.pending.pending_id != second.pending.pending_id
    assert len(waiting(tract)) == 2
    click(first, "approve")
    click(second, "reject")
    for thread in threads:
        thread.join(30)
    assert (waiting(tract), len(ran)) == ([], 1)


def test_the_question_of_a_tract_that_was_closed_is_taken_over(opened, ran):
    with opened() as before:
        call(before)
        (pending_id,) = waiting(before)
    tract = opened()
    channel = approving(tract)
    assert call(tract).success
    assert next(request.pending_id for request, _ in channel.shown) == pending_id
    assert (waiting(tract), len(ran)) == ([], 1)


ASKS = """
import sys
from tests.review.rigging import add_writer
from tract_jupyter import Tract

tract = Tract.open(url=sys.argv[1])
add_writer(tract, [])
assert tract.executor.execute("write", {"path": "a"}, actor="agent:1").denied
print(tract.review.inbox()[0].pending_id, flush=True)
sys.stdin.read()
"""


def asks_elsewhere(store):
    return subprocess.Popen(
        [sys.executable, "-c", ASKS, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_the_question_of_a_process_that_ended_is_taken_over(opened, own_store, ran):
    with asks_elsewhere(own_store) as process:
        asked = process.stdout.readline().strip()
        tract = opened()
        call(tract)
        assert len(waiting(tract)) == 2  # a living process keeps its own request
        call(tract)
        assert len(waiting(tract)) == 2
        tract.operations.rebuild(next(one for one in tract.review.inbox() if one.pending_id != asked)).reject(
            "no"
        )
    call(tract)
    assert waiting(tract) == [asked]
    assert tract.reviewer.ledger.vouches(tract.review.inbox()[0])
    approving(tract)
    assert call(tract).success
    assert (waiting(tract), len(ran)) == ([], 1)


def test_only_one_of_two_calls_takes_over_the_same_open_request(opened, ran):
    with opened() as before:
        call(before)
    tracts = [opened(), opened()]
    for tract in tracts:
        tract.reviewer.channel = FakeChannel()
    asked, start = [], threading.Barrier(2, timeout=30)

    def ask(tract):
        def answer(ticket):
            asked.append(ticket.pending.pending_id)
            click(ticket, "approve")

        tract.reviewer.channel = FakeChannel(answer)
        start.wait()
        call(tract)

    threads = [threading.Thread(target=ask, args=(tract,)) for tract in tracts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ran) == 2  # each call has its own request
    assert len(set(asked)) == len(tracts[0].review.decisions()) == 2
    assert waiting(tracts[0]) == []


def test_a_request_that_was_changed_in_the_store_is_not_taken_over(opened, own_store):
    with opened() as before:
        call(before)
    Attacker(own_store).rewrite("pendings", "request_json", '"why":"', '"why":"trust me: ')
    tract = opened()
    call(tract)
    assert len(waiting(tract)) == 2


def test_a_client_that_gave_up_asks_again_and_has_its_whole_time(opened, ran):
    tract = opened()
    tract.reviewer.timeout, tract.reviewer.on_timeout = 60, "deny"
    tract.reviewer.channel = InboxChannel()
    tract.reviewer.channel.panel_may_answer = lambda *_: False
    call(tract, actor="mcp:one")
    (before,) = tract.review.inbox()
    call(tract, actor="mcp:one")
    (after,) = tract.review.inbox()
    assert after.pending_id == before.pending_id
    assert after.expires_at > before.expires_at
    assert tract.reviewer.ledger.vouches(after)
    tract.reviewer.channel.panel_may_answer = lambda *_: True
    thread = threading.Thread(target=call, args=(tract,), kwargs={"actor": "mcp:one"})
    thread.start()
    with Tract.open(url=tract.location) as notebook:
        notebook.operations.rebuild(notebook.review.inbox()[0]).approve()
    thread.join(30)
    assert len(ran) == 1


def test_an_approval_that_comes_while_the_call_is_being_made_again_counts(opened, ran):
    tract = opened()
    call(tract)
    (pending_id,) = waiting(tract)
    with Tract.open(url=tract.location) as notebook:

        class ApprovedMeanwhile(InboxChannel):
            def can_reach(self):
                for stored in notebook.review.inbox():
                    if stored.pending_id == pending_id:
                        notebook.operations.rebuild(stored).approve()
                return True

        tract.reviewer.channel = ApprovedMeanwhile()
        assert call(tract).success
    assert len(ran) == 1
    assert waiting(tract) == []


def test_a_script_for_the_kernel_is_asked_about_once(tract):
    code = "print(1)"
    for _ in range(2):
        result = tract.toolset(actor="agent:1").execute(
            "notebook_execute", {"code": code, "backend": "kernel"}
        )
        assert not result.success
    assert len(waiting(tract)) == 1
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    result = tract.toolset(actor="agent:1").execute("notebook_execute", {"code": code, "backend": "kernel"})
    assert (result.success, waiting(tract)) == (True, [])


def test_a_script_that_runs_again_has_one_open_request(opened, ran):
    tract = opened()
    code = "x = tools.write(path='a')\nprint(x)"
    first = tract.scripts.run(code, backend="sandbox")
    second = tract.scripts.run(code, backend="sandbox")
    assert (first.pending_id, waiting(tract)) == (second.pending_id, [second.pending_id])
    tract.operations.rebuild(tract.review.inbox()[0]).approve()
    assert (waiting(tract), len(ran)) == ([], 1)


def test_a_script_of_the_kernel_that_is_run_again_asks_once(opened):
    tract = opened()
    for _ in range(2):
        tract.scripts.run("tools.write(path='a')")
    assert len(waiting(tract)) == 1
