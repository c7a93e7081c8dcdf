"""Contexts of entries, and conversations that a provider would have made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tract_jupyter import Tract

if TYPE_CHECKING:
    from tract_jupyter.models import CompiledContext

texts = st.text(st.characters(codec="utf-8"), max_size=20)
spoken = texts.filter(str.strip)
words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "id", "name", "tool_calls", "source"]), inner
        )
    ),
    max_leaves=8,
)


def compiled(entries: list[dict[str, Any]]) -> CompiledContext:
    """The context of a new tract in which the entries are committed."""
    with Tract.open() as tract:
        with tract.batch():
            for entry in entries:
                tract.commit(**entry)
        return tract.compile()


def seen(context: CompiledContext) -> list[tuple[Any, ...]]:
    """What the messages of a context are, without the hashes and counts of their commits."""
    return [
        (
            m.role,
            m.content,
            m.name,
            m.priority,
            m.content_type,
            m.tool_calls,
            m.tool_call_id,
            m.is_error,
            m.generation_config,
        )
        for m in context.messages
    ]


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@st.composite
def turns(draw: st.DrawFn, text: st.SearchStrategy[str]) -> list[tuple[str, Any]]:
    """Turns of a conversation: what somebody says, or calls `[(id, tool, arguments, answer, is_error), ...]` and a text."""
    made: list[tuple[str, Any]] = []
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["user", "assistant", "calls"]))
        if kind == "calls":
            count = draw(st.integers(1, 3))
            calls = [
                (f"call_{number}_{k}", draw(words), draw(objects), draw(text), draw(st.booleans()))
                for k in range(count)
            ]
            made.append((kind, (draw(st.just("") | text), calls)))
        else:
            made.append((kind, draw(text)))
    return made


@st.composite
def openai_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Canonical lists of OpenAI's messages."""
    listed: list[dict[str, Any]] = []
    names = st.none() | words
    if draw(st.booleans()):
        listed.append({"role": "system", "content": draw(texts)})
    for kind, said in draw(turns(texts)):
        name = draw(names)
        named = {"name": name} if name else {}
        if kind != "calls":
            listed.append({"role": kind, "content": said, **named})
            continue
        text, calls = said
        asked = [
            {"id": i, "type": "function", "function": {"name": tool, "arguments": canonical(given)}}
            for i, tool, given, _, _ in calls
        ]
        listed.append({"role": "assistant", "content": text or None, "tool_calls": asked, **named})
        listed.extend({"role": "tool", "content": answer, "tool_call_id": i} for i, _, _, answer, _ in calls)
    return listed


def simplest(blocks: list[dict[str, Any]]) -> Any:
    return blocks[0]["text"] if [b["type"] for b in blocks] == ["text"] else blocks


@st.composite
def anthropic_requests(draw: st.DrawFn) -> dict[str, Any]:
    """Canonical requests to Anthropic."""
    rows: list[tuple[str, dict[str, Any]]] = [("user", {"type": "text", "text": draw(spoken)})]
    for kind, said in draw(turns(spoken)):
        if kind != "calls":
            rows.append((kind, {"type": "text", "text": said}))
            continue
        text, calls = said
        if text:
            rows.append(("assistant", {"type": "text", "text": text}))
        rows.extend(
            ("assistant", {"type": "tool_use", "id": i, "name": tool, "input": given})
            for i, tool, given, _, _ in calls
        )
        rows.extend(
            (
                "user",
                {
                    "type": "tool_result",
                    "tool_use_id": i,
                    "content": answer,
                    **({"is_error": True} if failed else {}),
                },
            )
            for i, _, _, answer, failed in calls
        )
    if rows[-1][0] == "assistant":
        rows.append(("user", {"type": "text", "text": draw(spoken)}))
    messages: list[dict[str, Any]] = []
    for role, block in rows:
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].append(block)
        else:
            messages.append({"role": role, "content": [block]})
    system = draw(st.none() | spoken)
    shaped = [{**message, "content": simplest(message["content"])} for message in messages]
    return {**({"system": system} if system else {}), "messages": shaped}
