"""A tract whose model is scripted, and what its turns look like."""

from __future__ import annotations

import pytest

from tests.loop.conftest import done, talk
from tests.review.fakes import FakeChannel, answering
from tests.review.scripted import ScriptedClient
from tract_jupyter.notebook.chat import TractSource, TurnLog

__all__ = ["done", "talk"]


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
