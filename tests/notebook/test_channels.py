"""Where a request is put on display."""

import asyncio
import threading

import pytest

from tract_jupyter.notebook import channels
from tract_jupyter.notebook.channels import NotebookChannel
from tract_jupyter.review.decision import Answer


class FrontEnd:
    """One that draws widgets, and is never asked for input."""

    has_kernel = takes_input = can_click = True
    in_callback = is_headless = False

    def __init__(self, loop=None):
        self.loop = loop


class Board:
    """Shows several."""

    ready = True

    def refresh(self):
        pass


ASKS = "pending.tract.reviewer.show(pending.tract.fire('then', review=True))\npending.approve()"


@pytest.fixture
def shown(monkeypatch):
    """The titles of what was displayed in outputs of its own."""
    titles = []
    monkeypatch.setattr(channels, "display", lambda panel, **_: titles.append(panel.view["title"]))
    monkeypatch.setattr(channels, "update_display", lambda content, **_: None)
    return titles


@pytest.fixture
def ask(tract, spec):
    def make(code="pending.approve()"):
        name = f"note_{len(tract.operations.registry.operation_names)}"
        tract.register_operation(spec(code, name=name, fields={}))
        return tract.fire(name, review=True)

    return make


def test_what_another_thread_asks_while_tickets_are_gathered_has_an_output_of_its_own(tract, ask, shown):
    tract.reviewer.channel = channel = NotebookChannel(FrontEnd())
    gathered, other = ask(), ask()
    thread = threading.Thread(target=tract.reviewer.show, args=(other,))
    with channel.gathering(Board()):
        thread.start()
        thread.join()
        tract.reviewer.show(gathered)
    assert shown == [other.title]


def test_what_a_click_on_a_gathered_one_asks_later_is_not_gathered(tract, spec, ask, shown):
    async def click():
        tract.reviewer.channel = channel = NotebookChannel(FrontEnd(asyncio.get_running_loop()))
        with channel.gathering(Board()):
            ticket = tract.reviewer.show(ask(ASKS))
        ticket.submit(Answer("verify", {}, ticket.round_id), "panel")
        assert await asyncio.to_thread(ticket.settled.wait, 10)

    tract.register_operation(spec(name="then", fields={}))
    asyncio.run(click())
    assert shown == ["then"]
