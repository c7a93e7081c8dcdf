"""Fields that are added to the chat format, and their reader."""

from __future__ import annotations

import pytest

from tests.llm.dialects import Chat, Messages, Responses, Said
from tests.review.scripted import ScriptedClient
from tract_jupyter import Tract
from tract_jupyter.exceptions import ContentError, LLMResponseError, SpecError
from tract_jupyter.llm import ProviderBlocks, RawCall, Reply, Usage
from tract_jupyter.models import ToolCall

BLOCKS = {"dialect": "anthropic", "model": "m", "blocks": [{"type": "text", "text": "Hi"}]}


def test_blocks_are_read_and_written():
    found = ProviderBlocks.of({"provider_blocks": BLOCKS})
    assert found == ProviderBlocks("anthropic", "m", ({"type": "text", "text": "Hi"},))
    assert found.to_dict() == BLOCKS


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        "x",
        {},
        {**BLOCKS, "dialect": "klingon"},
        {**BLOCKS, "model": 5},
        {**BLOCKS, "blocks": []},
        {**BLOCKS, "blocks": ["x"]},
    ],
)
def test_invalid_provider_blocks_are_ignored(wrong):
    """The blocks come from a store or a custom client. The message has the same meaning without them."""
    assert ProviderBlocks.of({"provider_blocks": wrong}) is None


def test_usage_of_any_client_is_read():
    assert Usage.of({}) == Usage()
    assert (
        Usage.of(
            {"usage": {"prompt_tokens": 3, "completion_tokens": True, "total_tokens": "4"}}
        ).output_tokens
        is None
    )
    assert Usage.of({"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}}).cached_tokens == 4
    assert Usage.of({"usage": {"prompt_tokens": -1}}).input_tokens is None
    assert Usage.of({"usage": Messages.usage(Said())}).input_tokens == 100
    assert Usage.of({"usage": Responses.usage(Said())}).cached_tokens == 60


def test_usage_distinguishes_zero_from_unknown():
    known = Usage.of_anthropic({"input_tokens": 1, "cache_read_input_tokens": 0, "output_tokens": 2})
    assert (known.cached_tokens, known.cache_write_tokens) == (0, None)
    assert known.to_dict() == {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "total_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert Usage.of_responses({}).to_dict() == {}


def call(arguments, **more):
    return {"id": "a", "type": "function", "function": {"name": "add", "arguments": arguments}, **more}


@pytest.mark.parametrize(
    "given", [call("{}", cut=True), call("", cut=True), call('{"x": '), call(None, cut=True)]
)
def test_reading_a_cut_call_raises_an_error(given):
    raw = RawCall.of(given, 0)
    assert raw.is_cut
    with pytest.raises(SpecError, match="cut before"):
        raw.values()
    with pytest.raises(ContentError):
        raw.read()
    with pytest.raises(ContentError):
        ToolCall.from_dict(given)


@pytest.mark.parametrize("arguments", ["{}", "", None, {}, {"x": 1}, "nonsense", "[1]"])
def test_other_calls_are_not_cut(arguments):
    assert not RawCall.of(call(arguments), 0).is_cut


def test_a_reply_has_reasoning_finish_reason_and_blocks():
    message = {"role": "assistant", "content": "Hi", "reasoning": "hm", "provider_blocks": BLOCKS}
    reply = Reply.of({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (reply.reasoning, reply.finish_reason, reply.provider_blocks.model) == ("hm", "stop", "m")
    odd = Reply.of({"choices": [{"message": {**message, "reasoning": 5}, "finish_reason": 5}]})
    assert (odd.reasoning, odd.finish_reason) == ("", None)


@pytest.mark.parametrize(
    ("finish", "advice"),
    [("content_filter", "content filter"), ("refusal", "declined"), ("length", "larger max_tokens")],
)
def test_a_reply_that_ended_without_text_is_not_committed(finish, advice):
    with Tract.open() as tract:
        tract.configure_llm(ScriptedClient(usual=Chat.whole(Said(finish=finish))))
        tract.user("Hi")
        head = tract.head
        with pytest.raises(LLMResponseError, match=advice):
            tract.generate()
        assert tract.head == head
        tract.configure_llm(ScriptedClient(usual=Chat.whole(Said("Hello", finish=finish))))
        assert tract.chat("Well?").outcome in {"limit", "refused"}


def test_a_call_that_was_cut_is_not_committed():
    with Tract.open() as tract:
        said = Said(calls=[("a", "add", '{"x": ')], finish="length")
        tract.configure_llm(ScriptedClient(usual=Chat.whole(said)))
        tract.user("Hi")
        with pytest.raises(LLMResponseError, match="nothing was committed"):
            tract.generate()
        assert len(tract.log()) == 1


def test_both_dialects_of_usage_are_the_same_tokens():
    chat = Usage.of({"usage": Chat.usage(Said())})
    assert chat.to_dict() == Usage.of_anthropic(Messages.usage(Said())).to_dict()
