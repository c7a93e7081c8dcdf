"""The side panel of a page: messages of the page, and what the kernel sends."""

from types import SimpleNamespace
from typing import ClassVar

import pytest


class Timer:
    """A timer that ends when a test says so."""

    due: ClassVar[list] = []

    def __init__(self, _delay, run, arguments):
        self._work = run, arguments

    def start(self):
        self.due.append(self._work)

    def cancel(self):
        self.due.clear()


@pytest.fixture
def side(bare_shell, comms, monkeypatch):
    side = bare_shell.ip._tract_jupyter.notebook.side  # the state of the extension
    namespace = SimpleNamespace(Timer=Timer)
    monkeypatch.setattr("tract_jupyter.notebook.side_panel.threading", namespace)
    yield side
    Timer.due.clear()


def draw(side):
    side.stir()
    while Timer.due:
        run, arguments = Timer.due.pop()
        run(*arguments)


def kinds(page):
    return [one["type"] for one in page.got]


def test_follow_ups_are_kept_in_order_and_removed_by_place_and_text(side):
    for text in ("one", "  ", 7, "two ", "x" * 20_001, "three"):
        side.act("queue", {"text": text})
    for number, text in ((0, "two"), (True, "one"), ("0", "one"), (None, "one"), ([], "one"), (-1, "three")):
        side.act("remove", {"number": number, "text": text})
    side.act("remove", {"number": 1, "text": "two"})
    assert [side.take_follow_up() for _ in range(3)] == ["one", "three", None]
    for number in range(30):
        side.act("queue", {"text": str(number)})
    assert sum(side.take_follow_up() is not None for _ in range(40)) == 20


def test_a_page_without_the_panel_gets_only_changed_numbers(side, page, tract):
    assert kinds(page) == ["welcome"]
    draw(side)
    draw(side)
    pending = tract.propose_gc()
    draw(side)
    draw(side)
    assert [one for one in page.got if one["type"] == "waiting"] == [{"v": 1, "type": "waiting", "count": 1}]
    pending.reject("no")
    draw(side)
    assert page.last("waiting")["count"] == 0
    assert set(kinds(page)) == {"welcome", "waiting"}


@pytest.mark.parametrize(
    "message",
    [{"open": 1}, {"open": None}, {}, {"open": True, "more": 1}],
    ids=["int", "none", "missing", "more"],
)
def test_a_wrong_message_about_the_panel_is_refused(side, page, message):
    page.say("panel", **message)
    assert (page.last("refused")["of"], kinds(page)[-1]) == ("panel", "refused")


def test_stop_reaches_the_running_turn(side, page, tract):
    with tract.loop.signal() as signal:
        page.say("stop")
        assert signal.is_set()
