"""What the loop does with the particulars of a provider, over real HTTP on loopback."""

from __future__ import annotations

import pytest

from tests.llm.dialects import Chat, Messages, Said, made
from tests.llm.providers import Answer, provider
from tract_jupyter.llm import PromptCutWarning
from tract_jupyter.models import TurnLimits

SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}


def paused(text="Let me search."):
    body = {**Messages.whole(Said(text)), "stop_reason": "pause_turn"}
    return {**body, "content": [*body["content"], SEARCH]}


@pytest.mark.parametrize("tools", [None, "self"])
@pytest.mark.parametrize("text", ["Let me search.", ""])
def test_a_turn_that_the_provider_paused_is_sent_back_unchanged_and_goes_on(tract, tools, text):
    with provider(Answer(paused(text)), Answer(Messages.whole(Said("It is 1,345 m.")))) as there:
        tract.models.use(made(Messages, there))
        response = tract.chat("How tall?", tools=tools)
    assert (response.text, response.outcome, response.steps) == ("It is 1,345 m.", "answer", 2)
    first, second = there.bodies
    assert second["messages"][:-1] == first["messages"]
    assert second["messages"][-1] == {"role": "assistant", "content": paused(text)["content"]}
    assert tract.costs.turns()[0].report.requests == 2


def test_it_is_sent_back_so_often_and_no_more(tract):
    with provider(*[Answer(paused())] * 20) as there:
        tract.models.use(made(Messages, there))
        assert tract.chat("How tall?").steps == 11
        limited = tract.chat("And now?", limits=TurnLimits(steps=3))
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


def test_a_prompt_that_ollama_has_cut_is_told_once(tract):
    """It says nothing of it itself but how many tokens it has read."""
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
        tract.chat("Three")  # nobody knows that of others
