from __future__ import annotations

import pytest
from hypothesis import given

from tests.models.shapes import calls
from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import ToolCall


@given(calls)
def test_every_shape_is_read_back(call: ToolCall):
    for shape in (call.to_dict(), call.to_openai(), call.to_anthropic()):
        assert ToolCall.from_dict(shape) == call


def test_the_shapes():
    call = ToolCall("a", "f", {"b": 1, "a": "é"})
    assert call.to_dict() == {"id": "a", "name": "f", "arguments": {"b": 1, "a": "é"}}
    function = {"name": "f", "arguments": '{"a":"é","b":1}'}
    assert call.to_openai() == {"id": "a", "type": "function", "function": function}
    assert call.to_anthropic() == {"type": "tool_use", "id": "a", "name": "f", "input": {"b": 1, "a": "é"}}


@pytest.mark.parametrize("arguments", [None, "", "{}", {}])
def test_no_arguments(arguments: object):
    assert ToolCall.from_dict({"id": "a", "name": "f", "arguments": arguments}) == ToolCall("a", "f")
    assert ToolCall.from_dict({"id": "a", "function": {"name": "f", "arguments": arguments}}) == ToolCall(
        "a", "f"
    )


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"id": "a"},
        {"name": "f"},
        {"id": 1, "name": "f"},
        {"id": "a", "name": None},
        {"id": "a", "function": "f"},
        {"id": "a", "function": {"name": "f", "arguments": "{broken"}},
        {"id": "a", "function": {"name": "f", "arguments": "[1]"}},
        {"id": "a", "name": "f", "arguments": [1]},
        {"id": "a", "name": "f", "arguments": "[" * 100_000},
        {"type": "tool_use", "id": "a", "name": "f"},
        ["id", "name"],
        None,
    ],
)
def test_an_invalid_tool_call_is_refused(data: object):
    with pytest.raises(ContentError, match="this is not a tool call"):
        ToolCall.from_dict(data)  # type: ignore[arg-type]
