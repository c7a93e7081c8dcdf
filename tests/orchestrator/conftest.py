"""A context over its budget, an orchestrator with a scripted model, and a person made of code."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Orchestrator, OrchestratorConfig
from tract_jupyter.models import TokenBudget

SUMMARY = "They counted birds."


def compress(content=SUMMARY, call_id="c1", **more):
    """A call that compresses everything."""
    return call("compress", {"content": content, **more}, call_id)


def annotate(target, priority, call_id="c1", **more):
    """A call that changes how much a message matters."""
    return call("annotate", {"target_hash": target, "priority": priority, **more}, call_id)


def thinks(text, *calls):
    """A reply that says something and makes calls."""
    return reply(text, *calls)


@pytest.fixture
def full(tract):
    """A tract over its budget, whose first message is pinned."""
    tract.system("Count the birds of the lake.", priority="pinned")
    for number in range(6):
        tract.user(f"In week {number} there were {number * 7} birds on the lake, {'and so on ' * 30}.")
    tract.budget = TokenBudget(200, action="callback", callback=lambda *_: None)
    return tract


@pytest.fixture
def orchestrator(full):
    """Makes an orchestrator of that tract, whose model gives some replies."""

    def make(*replies, tract=full, by=None, assess=None, act=None, **settings):
        client = ScriptedClient(*replies)
        made = Orchestrator(tract, OrchestratorConfig(**settings), client, by=by, assess=assess, act=act)
        made.client = client
        return made

    return make


def told(orchestrator, number=-1):
    """What the tools' messages of a request say."""
    return [one["content"] for one in orchestrator.client.asked[number][0] if one["role"] == "tool"]
