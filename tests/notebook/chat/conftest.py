"""A tract whose model is scripted, and what its turns look like."""

from __future__ import annotations

import pytest

from tests.hooks.fakes import ScriptedClient
from tests.review.fakes import FakeChannel, answering
from tract_jupyter.notebook.chat import TractSource, TurnLog


@pytest.fixture
def talk(tract):
    """A tract with a tool that reads and one that writes."""

    @tract.tool(read_only=True)
    def look(city: str) -> str:
        """Look outside."""
        if city == "nowhere":
            raise ValueError("there is no such city")
        return f"sunny in {city}"

    @tract.tool
    def send(to: str) -> str:
        """Send a mail."""
        return f"sent to {to}"

    tract.loop.tools = "self"
    return tract


@pytest.fixture
def chat(talk):
    """Have a turn, and return its log."""

    def say(text, *replies, tools=None, limits=None, answers=()):
        talk.configure_llm(ScriptedClient(*replies))
        talk.reviewer.channel = FakeChannel(*map(answering, answers))
        log = TurnLog(TractSource(talk))
        talk.chat(text, on_turn=log.add, tools=tools, limits=limits)
        return log

    return say
