"""Provider blocks: the raw parts of a reply that are stored, and when they are sent back."""

from __future__ import annotations

import json

import pytest

from tests.llm.dialects import HELLO, Messages, Responses, Said
from tests.llm.providers import Answer, provider
from tract_jupyter.exceptions import LLMRequestError

THOUGHT = {"type": "thinking", "thinking": "", "signature": "s-old"}
ENCRYPTED = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"}
REFUSALS = {
    Messages: "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
    "conversation.",
    Responses: "The encrypted content c2Vj... could not be verified. Reason: it could not be decrypted or parsed.",
}
CASES = [pytest.param(dialect, id=dialect.__name__.lower()) for dialect in REFUSALS]


def replied(dialect, **more):
    """Return an assistant message as the client returned it."""
    text = {"type": "output_text", "text": "Hi", "annotations": []}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    blocks = [THOUGHT, {"type": "text", "text": "Hi"}] if dialect is Messages else [ENCRYPTED, said]
    name = "anthropic" if dialect is Messages else "responses"
    raw = {"dialect": name, "model": "m", "blocks": blocks, **more}
    return {"role": "assistant", "content": "Hi", "provider_blocks": raw}


def is_sent(body):
    return "s-old" in json.dumps(body) or "c2VhbGVk" in json.dumps(body)


def fine(dialect, said, *, streams):
    return Answer(dialect.stream(said) if streams else dialect.whole(said))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", CASES)
def test_a_refusal_is_followed_by_one_request_without_them(dialect, streams):
    said = Said("Hi", reasoning="hm")
    messages = [*HELLO, replied(dialect), *HELLO]
    refused = Answer(dialect.error("invalid_request_error", REFUSALS[dialect]), 400)
    how = {"on_delta": lambda _: None} if streams else {}
    with provider(refused, fine(dialect, said, streams=streams)) as there:
        client = dialect.client("m", base_url=dialect.url(there), api_key="k", max_retries=0)
        reply = client.chat(messages, **how)["choices"][0]["message"]
    assert [is_sent(body) for body in there.bodies] == [True, False]
    assert reply["provider_blocks"]["is_first"]
    with provider(fine(dialect, said, streams=streams)) as there:
        client = dialect.client("m", base_url=dialect.url(there), api_key="k", max_retries=0)
        client.chat([*messages, reply, *HELLO], **how)
        assert client.replies_with_blocks([*messages, reply, *HELLO]) == (1,)
    assert not is_sent(there.bodies[0])


@pytest.mark.parametrize("dialect", CASES)
def test_a_refusal_of_blocks_is_an_error_if_no_blocks_were_sent(dialect):
    refused = Answer(dialect.error("invalid_request_error", REFUSALS[dialect]), 400)
    with provider(refused) as there:
        client = dialect.client("m", base_url=dialect.url(there), api_key="k", max_retries=0)
        with pytest.raises(LLMRequestError):
            client.chat(HELLO)
    assert len(there.bodies) == 1


@pytest.mark.parametrize("dialect", CASES)
@pytest.mark.parametrize(
    ("change", "sent"),
    [
        (lambda messages, options: None, True),
        (lambda messages, options: messages[0].update(content="Ho"), False),
        (lambda messages, options: messages.insert(0, {"role": "system", "content": "Be brief."}), False),
        (lambda messages, options: options.update(model="another"), False),
        (lambda messages, options: messages[1].update(content="Hi!"), False),
        (lambda messages, options: messages.append({"role": "user", "content": "More"}), True),
        (lambda messages, options: options.update(max_tokens=100), True),
    ],
    ids=["nothing", "message", "instruction", "model", "text", "addition", "option"],
)
def test_blocks_are_bound_to_the_messages_before_them(dialect, change, sent):
    said = Said("Hi", reasoning="hm")
    with provider(fine(dialect, said, streams=False)) as there:
        client = dialect.client("m", base_url=dialect.url(there), api_key="k")
        reply = client.chat(HELLO)["choices"][0]["message"]
        messages, options = [dict(HELLO[0]), reply, {"role": "user", "content": "And?"}], {}
        change(messages, options)
        assert client.replies_with_blocks(messages, **options) == ((0,) if sent else ())


@pytest.mark.parametrize("thinks_after", [False, True])
@pytest.mark.parametrize("dialect", CASES)
def test_thinking_after_a_call_is_bound_to_the_call_id(dialect, thinks_after):
    """A call got another id because its id was in use. At most the blocks of that reply are dropped."""
    if dialect is Messages:
        thought, use = THOUGHT, {"type": "tool_use", "id": "same", "name": "look", "input": {}}
    else:
        thought, use = ENCRYPTED, {"type": "function_call", "id": "fc_1", "call_id": "same", "name": "look",
                                   "arguments": "{}", "status": "completed"}  # fmt: skip
    name = "anthropic" if dialect is Messages else "responses"
    blocks = [thought, use, *([thought, {**use, "id": "b", "call_id": "b"}] if thinks_after else [])]
    raw = {"dialect": name, "model": "m", "blocks": blocks}
    ids = ["same_2", "b"] if thinks_after else ["same_2"]
    calls = [{"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}} for one in ids]
    said = {"role": "assistant", "content": None, "tool_calls": calls, "provider_blocks": raw}
    answers = [{"role": "tool", "tool_call_id": one, "content": "sunny"} for one in ids]
    with dialect.client("m", base_url="http://127.0.0.1:1", api_key="k") as client:
        sent = client.replies_with_blocks([*HELLO, replied(dialect), *HELLO, said, *answers])
    assert sent == ((0,) if thinks_after else (0, 1))


def of(tract, raw, **message):
    """Let a custom model reply with these blocks. Return the values stored in the commit."""
    said = {"role": "assistant", "content": "Hi", "provider_blocks": raw, **message}
    tract.models.use(lambda messages, **options: {"choices": [{"message": said}]})
    return tract.chat("Hello").commit_info.metadata.get("provider_fields", {})


def test_a_commit_keeps_blocks_unchanged(tract):
    blocks = [{"z": 1.0, "a": "ä", "type": "new"}, {"type": "text", "text": "half \ud800"}]
    raw = {"dialect": "chat", "model": "m", "blocks": blocks}
    kept = of(tract, raw, reasoning="hm", reasoning_field="reasoning")
    assert list(json.loads(kept["provider_blocks"]["blocks"])[0]) == ["z", "a", "type"]
    assert json.loads(kept["provider_blocks"]["blocks"]) == blocks
    assert '"z":1.0' in kept["provider_blocks"]["blocks"]
    assert (kept["reasoning"], kept["reasoning_field"]) == ("hm", "reasoning")
    assert "provider_blocks" not in tract.compile().to_openai()[-1]
    assert tract.verify() == []


@pytest.mark.parametrize(
    "blocks", [[{"data": "x" * 1_000_001}], [{"data": float("nan")}], [{"data": object()}], "no"]
)
def test_blocks_that_are_too_large_or_not_json_are_dropped_completely(tract, blocks):
    kept = of(tract, {"dialect": "chat", "model": "m", "blocks": blocks}, reasoning="hm")
    assert kept == {"reasoning": "hm"}


def test_a_reply_without_any_keeps_nothing(tract):
    assert of(tract, None) == {}
