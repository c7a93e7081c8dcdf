"""A tract with a scripted model, tools that write down what they did, and a person made of code."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, answering
from tests.review.scripted import ScriptedClient


@pytest.fixture
def done():
    """What the tools did, in order."""
    return []


@pytest.fixture
def talk(tract, done):
    """A tract whose model may call `look` and `weather`, which read, and `send` and `note`, which write."""

    @tract.tool(read_only=True)
    def look(city: str) -> str:
        """Look outside."""
        done.append(("look", city))
        if city == "nowhere":
            raise ValueError("there is no such city")
        return f"sunny in {city}"

    @tract.tool
    def send(to: str, text: str = "hi") -> str:
        """Send a mail."""
        done.append(("send", to, text))
        return f"sent to {to}"

    @tract.tool(destructive=True)
    def note(text: str) -> None:
        """Write a note."""
        done.append(("note", text))

    tract.loop.tools = "self"
    return tract


@pytest.fixture
def script(talk):
    """Give the model its replies."""

    def give(*replies):
        client = ScriptedClient(*replies)
        talk.configure_llm(client)
        return client

    return give


@pytest.fixture
def person(talk):
    """Have a person answer each question as its step says: `approve`, `reject`, or arguments that are changed."""

    def give(*answers, **options):
        talk.reviewer.channel = FakeChannel(*map(answering, answers), **options)
        return talk.reviewer.channel

    return give


def told(client, number=-1):
    """What the tools' messages of a request say."""
    return [one["content"] for one in client.asked[number][0] if one["role"] == "tool"]
