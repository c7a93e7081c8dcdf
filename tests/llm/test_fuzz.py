"""Replies of which any part is something else: a reply or an error of ours, and nothing that breaks."""

from __future__ import annotations

import copy
import json
from contextlib import suppress

import httpx
from hypothesis import given
from hypothesis import strategies as st

from tests.llm.dialects import ALL, HELLO, TOOL, Said
from tract_jupyter.exceptions import LLMRequestError, LLMResponseError
from tract_jupyter.llm import Reply

SAID = Said("Let me see.", [("a", "get_weather", '{"city": "Rome"}'), ("b", "get_weather", "{}")], "Hm.")
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["text", "tool_use", "function_call"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value, path=()):
    """The way to each part of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


def changed(value, path, new):
    value = copy.deepcopy(value)
    *way, last = path
    inner = value
    for key in way:
        inner = inner[key]
    inner[last] = new
    return value


def asked(dialect, body, *, streamed):
    """Ask, and send the reply back, in the same dialect and in the others."""
    kind = "text/event-stream" if streamed else "application/json"

    def answer(request):
        json.loads(request.content)
        return httpx.Response(200, content=body, headers={"content-type": kind})

    client = dialect.client("m", api_key="k", transport=httpx.MockTransport(answer), max_retries=0)
    try:
        response = client.chat(HELLO, on_delta=(lambda _: None) if streamed else None, tools=[TOOL])
    except LLMRequestError as error:
        response = error.partial
    if response is None:
        return
    reply = Reply.of(response)
    with suppress(LLMResponseError):
        assert all(call.arguments is not None for call in reply.tool_calls)
    message = response["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in reply.raw_calls]
    for other in ALL:
        sends = other.client("m", api_key="k", transport=httpx.MockTransport(answer), max_retries=0)
        with suppress(LLMRequestError):
            sends.chat([*HELLO, message, *results], tools=[TOOL])


EVENTS = {
    dialect: list(dialect.chunks(SAID) if hasattr(dialect, "chunks") else dialect.events(SAID))
    for dialect in ALL
}


@given(data=st.data(), dialect=st.sampled_from(ALL), new=VALUES)
def test_a_stream_of_which_a_part_is_something_else(data, dialect, new):
    events = EVENTS[dialect]
    path = data.draw(st.sampled_from(list(places(events))))
    lines = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in changed(events, path, new)]
    asked(dialect, b"".join(lines), streamed=True)


@given(data=st.data(), dialect=st.sampled_from(ALL), new=VALUES)
def test_a_whole_reply_of_which_a_part_is_something_else(data, dialect, new):
    body = dialect.whole(SAID)
    path = data.draw(st.sampled_from(list(places(body))))
    asked(dialect, json.dumps(changed(body, path, new)).encode(), streamed=False)
