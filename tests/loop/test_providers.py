"""Provider-specific behavior of the loop, over real HTTP on loopback."""

from __future__ import annotations

import itertools
import json
import re

import httpx
import pytest

from tests.llm.dialects import ALL, Chat, Messages, Responses, Said, made
from tests.llm.providers import Answer, provider
from tract_jupyter.llm import PromptCutWarning
from tract_jupyter.models import Allowance

SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}


def paused(text="Let me search."):
    body = {**Messages.whole(Said(text)), "stop_reason": "pause_turn"}
    return {**body, "content": [*body["content"], SEARCH]}


@pytest.mark.parametrize("tools", [None, "self"])
@pytest.mark.parametrize("text", ["Let me search.", ""])
def test_a_paused_turn_is_sent_back_unchanged_and_continues(tract, tools, text):
    with provider(Answer(paused(text)), Answer(Messages.whole(Said("It is 1,345 m.")))) as there:
        tract.models.use(made(Messages, there))
        response = tract.chat("How tall?", tools=tools, model="claude-opus-5-5")
    assert (response.text, response.outcome, response.steps) == ("It is 1,345 m.", "answer", 2)
    first, second = there.bodies
    assert second["messages"][:-1] == first["messages"]
    assert second["messages"][-1] == {"role": "assistant", "content": paused(text)["content"]}
    assert tract.costs.turns()[0].report.requests == 2


def test_a_paused_turn_is_sent_back_at_most_ten_times(tract):
    with provider(*[Answer(paused())] * 20) as there:
        tract.models.use(made(Messages, there))
        assert tract.chat("How tall?").steps == 11
        limited = tract.chat("And now?", limits=Allowance(steps=3))
    assert (limited.outcome, limited.steps) == ("limit", 3)


def test_the_answer_of_a_call_that_failed_is_marked(tract):
    @tract.tool(read_only=True)
    def look(city: str) -> str:
        """Look outside."""
        raise ValueError("no such city")

    calls = Said("", [("c1", "look", '{"city": "x"}'), ("c2", "none", "{}")])
    with provider(Answer(Messages.whole(calls)), Answer(Messages.whole(Said("Sorry.")))) as there:
        tract.models.use(made(Messages, there))
        tract.chat("Go.", tools="self")
    results = there.bodies[1]["messages"][-1]["content"]
    assert [one["is_error"] for one in results] == [True, True]
    assert "no such city" in results[0]["content"]


def test_a_prompt_cut_by_ollama_is_reported_once(tract):
    """Ollama only reports the number of tokens that it read."""
    tract.system("word " * 4_000)
    with provider(Answer(Chat.whole(Said("Hm.", given=2_000)))) as there:
        tract.models.use("ollama/qwen3", base_url=there.url)
        with pytest.warns(
            PromptCutWarning, match=r"ollama/qwen3 has read 2,000 tokens .* OLLAMA_CONTEXT_LENGTH"
        ):
            tract.chat("One")
        tract.chat("Two")
    with provider(Answer(Chat.whole(Said("Hm.", given=2_000)))) as there:
        tract.models.use("elsewhere", base_url=there.url)
        tract.chat("Three")  # the context size of other servers is unknown


# --- prompt caching


def talking(dialect, bodies):
    """A client of the dialect's own provider. The model calls each of its tools, then answers."""

    def answer(request):
        bodies.append(json.loads(request.content))
        calls = [(f"c{len(bodies)}", "look", '{"city": "Rome"}')] if len(bodies) % 2 else []
        return httpx.Response(200, json=dialect.whole(Said("" if calls else "Sunny.", calls)))

    return dialect.client("m", api_key="k", transport=httpx.MockTransport(answer))


@pytest.mark.parametrize("tools", ["self", "code"])
@pytest.mark.parametrize("dialect", ALL)
def test_each_request_of_a_conversation_begins_with_the_one_before(tract, dialect, tools):
    """Tools, instructions and history are unchanged, so the provider's cache applies."""

    @tract.tool(read_only=True)
    def look(city: str) -> str:
        """Look outside."""
        return "sun"

    bodies = []
    tract.models.use(talking(dialect, bodies))
    tract.system("Be brief.")
    for text in ("How is it?", "And now?", "And now?"):
        tract.chat(text, tools=tools)
    said = "input" if dialect is Responses else "messages"
    for before, after in itertools.pairwise(bodies):
        assert after[said][: len(before[said])] == before[said]
        assert len(after[said]) > len(before[said])
        for name in {*before, *after} - {said}:
            assert after[name] == before[name], name
    if dialect is Messages:
        assert bodies[0]["cache_control"] == {"type": "ephemeral"}
    else:
        assert re.fullmatch("[0-9a-f]{32}", bodies[0]["prompt_cache_key"])


@pytest.mark.parametrize("dialect", [Chat, Responses])
def test_the_key_of_the_cache_is_the_conversations_own(tract, dialect):
    bodies = []
    tract.models.use(talking(dialect, bodies))
    for text, options in (
        ("One", {}),
        ("Two", {}),
        ("One", {"prompt_cache_key": "mine"}),
        ("One", {"prompt_cache_key": None}),
    ):
        tract.models.client_for("chat").chat([{"role": "user", "content": text}], **options)
    one, two, mine, none = (body.get("prompt_cache_key") for body in bodies)
    assert one != two
    assert (mine, none) == ("mine", None)
    with provider(Answer(dialect.whole(Said("Hello.")))) as there:  # other servers may not know the option
        made(dialect, there).chat([{"role": "user", "content": "One"}])
    assert "prompt_cache_key" not in there.bodies[0]
