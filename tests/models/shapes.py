"""What the providers accept, as their references and error messages state it; and any list of messages."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import strategies as st

from tract_jupyter.models import Message, ToolCall

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_openai(messages: list[dict[str, Any]]) -> None:
    """Fail if chat completions would refuse the messages."""
    waiting: list[str] = []
    for message in messages:
        role = message["role"]
        assert role in {"system", "user", "assistant", "tool"}
        if role == "tool":
            assert set(message) == {"role", "content", "tool_call_id"}
            assert isinstance(message["content"], str)
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, "a call is answered before anybody else speaks"
        assert set(message) <= {"role", "content", "name", "tool_calls"}
        assert NAME.fullmatch(message.get("name", "x"))
        if "tool_calls" in message:
            assert role == "assistant"
            assert message["tool_calls"]
            waiting = [check_openai_call(call) for call in message["tool_calls"]]
            assert len(set(waiting)) == len(waiting)
        assert isinstance(message["content"], str) or (message["content"] is None and waiting)
    assert not waiting


def check_openai_call(call: dict[str, Any]) -> str:
    assert set(call) == {"id", "type", "function"}
    assert call["type"] == "function"
    assert NAME.fullmatch(call["function"]["name"])
    assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert 0 < len(call["id"]) <= 40
    return call["id"]


def check_anthropic(request: dict[str, Any], *, empty: bool = False) -> None:
    """Fail if Anthropic's messages would refuse the request; `empty`: nothing was there to be sent."""
    assert set(request) <= {"system", "messages"}
    assert request.get("system", "x").strip()
    turns = request["messages"]
    assert turns or empty
    assert [turn["role"] for turn in turns] == (["user", "assistant"] * len(turns))[: len(turns)]
    used: set[str] = set()
    waiting: list[str] = []
    for turn in turns:
        assert set(turn) == {"role", "content"}
        blocks = turn["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        assert blocks
        kinds = [check_block(block, turn["role"]) for block in blocks]
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(answers) == sorted(waiting), "all answers of the turn before, and no others"
        assert kinds == sorted(kinds), "results come before text, text before calls"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert len({*waiting, *used}) == len(waiting) + len(used), "an id is used once"
        used.update(waiting)
    assert not waiting
    if turns and turns[-1]["role"] == "assistant":
        last = turns[-1]["content"]
        text = last if isinstance(last, str) else last[-1]["text"]
        assert text == text.rstrip()


def check_block(block: dict[str, Any], role: str) -> int:
    """Check one block; gives its rank within a message."""
    if block["type"] == "text":
        assert set(block) == {"type", "text"}
        assert block["text"].strip()
        return 1
    if block["type"] == "tool_use":
        assert set(block) == {"type", "id", "name", "input"}
        assert role == "assistant"
        assert NAME.fullmatch(block["id"])
        assert NAME.fullmatch(block["name"])
        assert isinstance(block["input"], dict)
        return 2
    assert block["type"] == "tool_result"
    assert role == "user"
    assert set(block) <= {"type", "tool_use_id", "content", "is_error"}
    assert block.get("content", "x").strip()
    assert block.get("is_error", True) is True
    assert "content" in block or "is_error" not in block
    return 0


texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["", " ", "\n", "a", "b \n"])
ids = st.sampled_from(["", "a", "b", "call_1", "functions.f:0", "x" * 41, "é"])
tool_names = st.sampled_from(["f", "get.it", "", "long" * 30, "wetter_für"])
arguments = st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(st.booleans()), max_size=2)
calls = st.builds(ToolCall, ids, tool_names, arguments)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=texts,
    name=st.none() | texts | tool_names,
    tool_calls=st.lists(calls, max_size=3).map(tuple),
    tool_call_id=st.none() | ids,
    is_error=st.booleans(),
)
contexts = st.lists(messages, max_size=9)
