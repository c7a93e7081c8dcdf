"""An approved operation runs exactly once, with several processes and after a crash at any step."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import pytest

from tests.review.fakes import FakeChannel
from tests.review.rigging import press
from tract_jupyter import Tract
from tract_jupyter.operations import ActionDef

APPEND = "with open({path!r}, 'a') as f:\n    f.write('x')\npending.approve()"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def place(own_store, spec, out):
    """A store with an operation whose action appends to a file, and one pending request for it."""
    with Tract.open(url=own_store) as t:
        write = ActionDef("write", "", {}, APPEND.format(path=str(out)))
        t.register_operation(spec(fields={}, actions={"write": write}))
        t.reviewer.show(t.fire("citation_check", review=True))
    return own_store


@pytest.fixture
def proposal(own_store, spec):
    """A store with an operation that waits for activation."""
    with Tract.open(url=own_store) as t:
        t.reviewer.show(t.propose_operation(spec(name="fresh")))
    return own_store


def die_in(place, step, decision):
    """Decide the pending request in another process, and kill that process at a step of the ledger."""
    code = f"""
        import os, signal
        from tract_jupyter import Tract
        from tract_jupyter.review.ledger import Ledger

        def die(*args, **kwargs):
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(Ledger, {step!r}, die)
        with Tract.open(url={place!r}) as t:
            t.operations.rebuild(t.review.inbox()[0]).{decision}
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


def offered(t):
    """Return the only request in the inbox, and its panel."""
    t.reviewer.channel = FakeChannel()
    (stored,) = t.review.inbox()
    return stored, t.reviewer.show_again(t.operations.rebuild(stored))


def test_killed_between_decision_and_execution(proposal):
    die_in(proposal, "begin", "approve()")
    with Tract.open(url=proposal) as t:
        assert t.status().operations == ()  # opening the store runs nothing
        stored, ticket = offered(t)
        assert (stored.status, stored.executed_at) == ("approved", None)
        assert "it was not run" in ticket.request.why
        assert t.status().operations == ()  # displaying the request runs nothing
        press(t, ticket, "approve")
        assert t.status().operations == ("fresh",)
        assert t.review.inbox() == []
        first, second = t.reviewer.ledger.decisions(stored.pending_id)
        assert (first.error, second.error) == ("superseded by a later decision", None)
        assert len(t.events("operation.activated")) == 1


def test_an_approved_operation_that_did_not_run_can_be_rejected(proposal):
    die_in(proposal, "begin", "approve()")
    with Tract.open(url=proposal) as t:
        _, ticket = offered(t)
        press(t, ticket, "reject", reason="on second thoughts")
        assert (t.status().operations, t.review.inbox()) == ((), [])


def test_an_operation_killed_after_it_ran_has_unknown_progress_and_does_not_rerun(place, out):
    die_in(place, "finish", "write()")
    assert out.read_text() == "x"
    with Tract.open(url=place) as t:
        _, ticket = offered(t)
        assert "its progress is unknown" in ticket.request.why
        assert out.read_text() == "x"
        press(t, ticket, "reject", reason="it has run")
        assert (out.read_text(), t.review.inbox()) == ("x", [])


def test_the_user_can_run_a_started_operation_again(place, out):
    die_in(place, "finish", "write()")
    with Tract.open(url=place) as t:
        _, ticket = offered(t)
        press(t, ticket, "write")
        assert (out.read_text(), t.review.inbox()) == ("xx", [])


def test_an_action_that_was_chosen_and_not_run(place, out):
    die_in(place, "begin", "write()")
    with Tract.open(url=place) as t:
        stored, ticket = offered(t)
        assert (stored.status, out.exists()) == ("pending", False)
        assert "chose 'write'" in ticket.request.why
        press(t, ticket, "write")
        assert (out.read_text(), t.review.inbox()) == ("x", [])


def test_only_one_of_two_processes_runs_an_interrupted_operation(place, out):
    die_in(place, "begin", "write()")
    with Tract.open(url=place) as one, Tract.open(url=place) as other:
        panels = [(t, offered(t)[1]) for t in (one, other)]
        for t, ticket in panels:
            press(t, ticket, "write")
        assert out.read_text() == "x"
        assert "another decision came first" in other.reviewer.channel.notes[-1]


HOLD = """
    import socket, sys

    if len(sys.argv) > 2:
        socket.gethostname = lambda: sys.argv[2]

    from tract_jupyter import Tract
    from tract_jupyter.review.ledger import Ledger

    def hold(*args, **kwargs):
        print("begun", flush=True)
        sys.stdin.readline()

    Ledger.finish = hold
    with Tract.open(url=sys.argv[1]) as t:
        t.operations.rebuild(t.review.inbox()[0]).write()
"""


@contextmanager
def running_elsewhere(place, *host):
    """Run the operation in another process, which waits at its end, on this host or on another one."""
    command = [sys.executable, "-c", textwrap.dedent(HOLD), place, *host]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline() == "begun\n"
        yield running
        running.kill()


def test_an_operation_that_another_process_runs_now_runs_again_only_after_its_end(place, out):
    with running_elsewhere(place) as running, Tract.open(url=place) as t:
        _, ticket = offered(t)
        assert "runs it now. Until it ends, you can only reject it here" in ticket.request.why
        press(t, ticket, "write")
        assert out.read_text() == "x"
        assert "another decision came first" in t.reviewer.channel.notes[-1]
        running.kill()
        running.wait()
        press(t, offered(t)[1], "write")
        assert (out.read_text(), t.review.inbox()) == ("xx", [])


@pytest.mark.parametrize("host", [(), ("other",)])
def test_an_operation_that_another_process_runs_now_can_be_rejected(place, out, host):
    with running_elsewhere(place, *host), Tract.open(url=place) as t:
        press(t, offered(t)[1], "reject", reason="it hangs")
        assert (out.read_text(), t.review.inbox()) == ("x", [])


def test_an_operation_that_began_on_another_host_never_runs_again_here(place, out):
    with running_elsewhere(place, "other") as running, Tract.open(url=place) as t:
        for _ in ("while it runs", "after its end, which this host cannot see"):
            _, ticket = offered(t)
            assert "on another host may run it now, so you can only reject it here" in ticket.request.why
            press(t, ticket, "write")
            assert out.read_text() == "x"
            assert "another decision came first" in t.reviewer.channel.notes[-1]
            running.kill()
            running.wait()
        press(t, offered(t)[1], "reject", reason="it has run")
        t.reviewer.show(t.fire("citation_check", review=True))
        press(t, offered(t)[1], "write")
        assert (out.read_text(), t.review.inbox()) == ("xx", [])


def test_a_displayed_request_says_that_another_process_runs_it(place, out):
    with Tract.open(url=place) as t:
        _, ticket = offered(t)
        with running_elsewhere(place) as running:
            rounds = []
            for _ in range(3):
                t.reviewer.channel.look()
                rounds.append(ticket.round_id)
            assert len(set(rounds)) == 1
            assert ticket.request.note.startswith("Another process carries out a decision.")
            press(t, ticket, "write")
            assert (out.read_text(), ticket.status.value) == ("x", "pending")
            running.kill()
            running.wait()


RACE = """
    import sys
    from tract_jupyter import Tract
    from tract_jupyter.exceptions import PendingStateError

    with Tract.open(url=sys.argv[1]) as t:
        t.operations.registry.require_class("citation_check")
        while line := sys.stdin.readline():
            stored = t.reviewer.ledger.get(line.strip())
            pending = t.operations.rebuild(stored)
            print("ready", flush=True)
            sys.stdin.readline()
            try:
                pending.write()
                print("ran", flush=True)
            except PendingStateError as error:
                print("lost", flush=True)
"""


@pytest.mark.slow
def test_approved_from_two_processes_at_once_two_hundred_times(place, out):
    command = [sys.executable, "-c", textwrap.dedent(RACE), place]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]

    def tell(text):
        for racer in racers:
            racer.stdin.write(f"{text}\n")
            racer.stdin.flush()

    def answers():
        return sorted(racer.stdout.readline().strip() for racer in racers)

    with Tract.open(url=place) as t:
        for number in range(200):
            pending = t.fire("citation_check", review=True)
            t.reviewer.keep(pending)
            tell(pending.pending_id)
            assert answers() == ["ready", "ready"]
            tell("go")
            assert answers() == ["lost", "ran"]
            assert len(out.read_text()) == number + 1
            (row,) = t.reviewer.ledger.decisions(pending.pending_id)
            assert (row.action, row.error, row.finished_at is None) == ("write", None, False)
    for racer in racers:
        racer.stdin.close()
        assert racer.wait(timeout=30) == 0
        racer.stdout.close()
