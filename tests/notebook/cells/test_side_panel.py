"""The side panel of a page: messages of the page, and what the kernel sends."""

from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest

from tests.review.scripted import call, reply


class Timer:
    """A timer that ends when a test says so."""

    due: ClassVar[list] = []

    def __init__(self, interval, run, arguments):
        self.interval = interval
        self._work = run, arguments

    def start(self):
        if self.interval < 1:  # open requests are counted again and again
            self.due.append(self._work)

    def cancel(self):
        self.due.clear()


@pytest.fixture
def side(bare_shell, comms, monkeypatch):
    side = bare_shell.ip._tract_jupyter.notebook.side  # the state of the extension
    namespace = SimpleNamespace(Timer=Timer)
    monkeypatch.setattr("tract_jupyter.notebook.output.threading", namespace)
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
    assert [side.take_follow_up() for _ in range(2)] == ["one", "three"]
    assert not side.has_follow_up
    for number in range(30):
        side.act("queue", {"text": str(number)})
    taken = []
    while side.has_follow_up:
        taken.append(side.take_follow_up())
    assert len(taken) == 20


def test_follow_ups_wait_until_a_turn_ends_with_an_answer(side, bare_shell, tract, model):
    tract.loop.limits = replace(tract.loop.limits, steps=1)
    model.replies = [reply(None, call("notebook_read", {"count": 1})), "One.", "Two."]
    side.act("queue", {"text": "And then?"})
    bare_shell.run("%%tract_chat --direct\nLook.")
    assert side.has_follow_up
    assert len(model.asked) == 1
    bare_shell.run("%%tract_chat --direct\nSay one.")
    assert not side.has_follow_up
    assert model.asked[-1][0][-1]["content"].endswith("And then?")


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
