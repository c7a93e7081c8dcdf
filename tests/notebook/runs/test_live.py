"""The live display of a run: the rate of drawing, and the last state."""

import pytest
from IPython.utils.capture import capture_output

from tests.notebook.runs.examples import ZERO, event, op, run
from tract_jupyter.notebook.runs import RunDisplay, RunView


class Time:
    """A clock that the test sets, with scheduled calls."""

    def __init__(self):
        self.now = 100.0
        self.waiting = []

    def clock(self):
        return self.now

    def later(self, seconds, action):
        entry = [self.now + seconds, action]
        self.waiting.append(entry)
        return Cancelling(self, entry)

    def go_on(self, seconds):
        self.now += seconds
        due = [entry for entry in self.waiting if entry[0] <= self.now + 1e-9]
        self.waiting = [entry for entry in self.waiting if entry not in due]
        for _, action in due:
            action()


class Cancelling:
    def __init__(self, time, entry):
        self.time, self.entry = time, entry

    def cancel(self):
        if self.entry in self.time.waiting:
            self.time.waiting.remove(self.entry)


def project(events):
    ended = any(one.type == "run.finished" for one in events)
    return run(op(f"after {len(events)} events"), status="done" if ended else "running")


@pytest.fixture
def drawn(bare_shell, monkeypatch):  # displays need a shell
    """The displayed outputs, each with True if it replaced another one."""
    put = []
    for name in ("display", "update_display"):
        monkeypatch.setattr(
            f"tract_jupyter.notebook.output.{name}",
            lambda view, display_id, _again=name == "update_display", **_: put.append(
                (view, display_id, _again)
            ),
        )
    return put


def making(time, **parts):
    return RunDisplay(project, seconds=0.5, clock=time.clock, now=lambda: ZERO, later=time.later, **parts)


def last(drawn):
    return drawn[-1][0].run.operations[0].operation_id


def test_it_is_drawn_now_and_then_and_the_last_state_always(drawn):
    time = Time()
    shown = making(time)
    for _ in range(50):
        shown(event("operation.started"))
    assert len(drawn) == 1
    assert len(time.waiting) == 1
    time.go_on(0.5)
    assert len(drawn) == 2
    assert last(drawn) == "after 50 events"
    assert not time.waiting
    time.go_on(10)
    assert len(drawn) == 2
    shown(event("operation.finished"))
    assert last(drawn) == "after 51 events"
    assert [is_update for _, _, is_update in drawn] == [False, True, True]
    assert len({display_id for _, display_id, _ in drawn}) == 1


def test_the_end_is_drawn_at_once(drawn):
    time = Time()
    shown = making(time)
    shown(event("run.started"))
    shown(event("operation.started"))
    shown(event("run.finished"))
    assert last(drawn) == "after 3 events"
    assert not time.waiting


def test_nothing_is_drawn_after_it_is_closed(drawn):
    time = Time()
    shown = making(time)
    shown(event("run.started"))
    shown(event("operation.started"))
    overdue = time.waiting[0][1]
    shown.close()
    assert last(drawn) == "after 2 events"
    overdue()
    shown(event("operation.started"))
    shown.close()
    shown.refresh()
    assert len(drawn) == 2


def test_it_ends_with_the_view_that_it_is_given(drawn):
    shown = making(Time())
    view = RunView(run())
    shown.close(view)
    assert [one for one, _, _ in drawn] == [view]


def test_a_run_without_events_draws_nothing(drawn):
    making(Time()).close()
    assert drawn == []


def test_its_time_goes_on(drawn):
    time = Time()
    shown = making(time)
    shown.refresh()
    assert drawn == []
    shown(event("run.started"))
    shown.refresh()
    assert len(drawn) == 1
    time.go_on(1)
    shown.refresh()
    assert len(drawn) == 2
    assert drawn[-1][0].now == ZERO


def test_a_terminal_sees_the_end_only(drawn):
    time = Time()
    shown = making(time, shows_all=False)
    shown(event("run.started"))
    shown(event("operation.started"))
    shown.refresh()
    assert drawn == []
    shown(event("run.finished"))
    assert len(drawn) == 1


def test_in_a_shell(bare_shell):  # displays need a shell
    with capture_output() as captured:
        shown = RunDisplay(project)
        shown(event("run.started", operations=()))
        shown(event("run.finished"))
        shown.close()
    assert "Run 7f3a9c1e: done" in captured.outputs[-1].data["text/plain"]
