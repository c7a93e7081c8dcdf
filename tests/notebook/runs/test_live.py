"""The live display of a run: the rate of drawing, and the last state."""

from functools import partial

import pytest
from IPython.utils.capture import capture_output

from tests.notebook.runs.examples import ZERO, event, op, run
from tract_jupyter.notebook.runs import RunDisplay, RunView


class Time:
    """A clock that the test sets, with timers that it fires."""

    def __init__(self):
        self.now = 100.0
        self.timers = []

    def go_on(self, seconds):
        self.now += seconds
        due = [timer for timer in self.timers if timer.at <= self.now + 1e-9]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            timer.fire()


@pytest.fixture
def time(monkeypatch):
    time = Time()

    class Timer:
        def __init__(self, seconds, run, args):
            self.at, self.fire = time.now + seconds, partial(run, *args)

        def start(self):
            time.timers.append(self)

        def cancel(self):
            if self in time.timers:
                time.timers.remove(self)

    place = "tract_jupyter.notebook.runs.cell"
    monkeypatch.setattr(f"{place}.project", project)
    monkeypatch.setattr(f"{place}.time.monotonic", lambda: time.now)
    monkeypatch.setattr(f"{place}.time.time", lambda: ZERO)
    monkeypatch.setattr(f"{place}.threading.Timer", Timer)
    return time


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


def last(drawn):
    return drawn[-1][0].run.operations[0].operation_id


def test_the_rate_of_drawing_is_limited_and_the_last_state_is_always_drawn(drawn, time):
    shown = RunDisplay()
    for _ in range(50):
        shown(event("operation.started"))
    assert len(drawn) == 1
    assert len(time.timers) == 1
    time.go_on(0.3)
    assert len(drawn) == 2
    assert last(drawn) == "after 50 events"
    assert not time.timers
    time.go_on(10)
    assert len(drawn) == 2
    shown(event("operation.finished"))
    assert last(drawn) == "after 51 events"
    assert [is_update for _, _, is_update in drawn] == [False, True, True]
    assert len({display_id for _, display_id, _ in drawn}) == 1


def test_the_end_is_drawn_at_once(drawn, time):
    shown = RunDisplay()
    shown(event("run.started"))
    shown(event("operation.started"))
    shown(event("run.finished"))
    assert last(drawn) == "after 3 events"
    assert not time.timers


def test_nothing_is_drawn_after_it_is_closed(drawn, time):
    shown = RunDisplay()
    shown(event("run.started"))
    shown(event("operation.started"))
    overdue = time.timers[0].fire
    shown.close()
    assert last(drawn) == "after 2 events"
    overdue()
    shown(event("operation.started"))
    shown.close()
    shown.refresh()
    assert len(drawn) == 2


def test_close_draws_the_given_view(drawn, time):
    shown = RunDisplay()
    view = RunView(run())
    shown.close(view)
    assert [one for one, _, _ in drawn] == [view]


def test_a_run_without_events_draws_nothing(drawn, time):
    RunDisplay().close()
    assert drawn == []


def test_refresh_redraws_a_started_run_with_the_current_time(drawn, time):
    shown = RunDisplay()
    shown.refresh()
    assert drawn == []
    shown(event("run.started"))
    shown.refresh()
    assert len(drawn) == 1
    time.go_on(1)
    shown.refresh()
    assert len(drawn) == 2
    assert drawn[-1][0].now == ZERO


def test_a_terminal_sees_the_end_only(drawn, time):
    shown = RunDisplay(shows_all=False)
    shown(event("run.started"))
    shown(event("operation.started"))
    shown.refresh()
    assert drawn == []
    shown(event("run.finished"))
    assert len(drawn) == 1


def test_in_a_shell(bare_shell, monkeypatch):  # displays need a shell
    monkeypatch.setattr("tract_jupyter.notebook.runs.cell.project", project)
    with capture_output() as captured:
        shown = RunDisplay()
        shown(event("run.started", operations=()))
        shown(event("run.finished"))
        shown.close()
    assert "Run 7f3a9c1e: done" in captured.outputs[-1].data["text/plain"]
