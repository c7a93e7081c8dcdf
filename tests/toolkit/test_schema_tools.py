"""Tools with an external JSON Schema: calls, requests and descriptions work like for other tools."""

from __future__ import annotations

import inspect
import json
import pydoc
from typing import Any

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter.exceptions import SpecError, ToolExecutionError
from tract_jupyter.notebook.panels import edit_form
from tract_jupyter.review import request_from_dict, request_to_dict
from tract_jupyter.toolkit import ToolDefinition, Traits, to_anthropic, to_openai

SCHEMA = {
    "type": "object",
    "properties": {
        "class": {"type": "string", "description": "Which."},
        "limit": {"type": "integer", "default": 3},
        "kind": {"enum": ["a", "b"]},
        "filters": {"type": "object", "properties": {"lang": {"type": "string"}}, "required": ["lang"]},
        "self": {"type": "integer"},
        "tool": {"type": "integer"},
        "x-y": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    },
    "required": ["class"],
}


@pytest.fixture
def made(tract):
    """Return a function that adds the tool. The tool returns its arguments."""

    def make(schema=SCHEMA, name="get-data", description="Get data.", **options) -> Any:
        tool = ToolDefinition.from_schema(name, description, schema, lambda **given: given, **options)
        tract.executor.add(tool)
        return tool

    return make


def test_a_stub_like_any_other(tract, made):
    made()
    stub = tract.tools.get_data
    assert stub.__name__ == "get_data"
    assert str(inspect.signature(stub)).startswith("(class_: str, *, limit: int = 3, kind: ")
    assert list(stub.__annotations__) == ["class_", "limit", "kind", "filters", "self", "tool", "x_y"]
    assert "class_ (str): Which." in pydoc.render_doc(stub)
    assert "get_data" in dir(tract.tools)


def test_arguments_come_by_the_names_of_the_schema(tract, made):
    made()
    tools = tract.tools
    assert tools.get_data("a") == tools.get_data(class_="a") == {"class": "a", "limit": 3}
    assert tools.get_data("a", self=1, tool=2, x_y=1.5, filters={"lang": "de"}) == {
        "class": "a", "limit": 3, "filters": {"lang": "de"}, "self": 1, "tool": 2, "x-y": 1.5,
    }  # fmt: skip
    assert tract.executor.execute("get-data", {"class": "a", "x-y": None}).output == {
        "class": "a",
        "limit": 3,
        "x-y": None,
    }


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: f(), "'class' is missing (str; in Python 'class_')"),
        (lambda f: f("a", 3), "takes at most 1 by position (class_), got 2"),
        (lambda f: f("a", class_="b"), "got 'class_' twice"),
        (lambda f: f("a", limt=1, kind="c"), "'limt' is unknown. Did you mean 'limit'?"),
        (lambda f: f("a", limt=1, kind="c"), "'kind' should be one of ['a', 'b'], got 'c' (str)"),
        (lambda f: f("a", filters={}), "'filters'['lang'] is missing"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(tract, made, call, words):
    made()
    with pytest.raises(ToolExecutionError) as caught:
        call(tract.tools.get_data)
    assert words in str(caught.value)
    assert "  at " not in str(caught.value)


def test_the_schema_of_a_tool_is_sent_unchanged(made):
    tool = made(traits=Traits(read_only=True), owner="mcp:files")
    assert to_openai(tool.name, tool)["function"] == {
        "name": "get-data",
        "description": "Get data.",
        "parameters": SCHEMA,
    }
    assert to_anthropic(tool.name, tool)["input_schema"] == SCHEMA
    assert (tool.traits.read_only, tool.owner) == (True, "mcp:files")


def test_a_changed_schema_is_another_definition(made):
    one, same, other = (
        ToolDefinition.from_schema("t", "", schema, max)
        for schema in (SCHEMA, {**SCHEMA}, {**SCHEMA, "required": []})
    )
    assert one.definition_hash == same.definition_hash != other.definition_hash


def test_a_schema_that_cannot_be_used_is_refused_with_the_tools_name():
    with pytest.raises(SpecError, match="get-data: the JSON Schema is not valid at type"):
        ToolDefinition.from_schema("get-data", "", {"type": "nonsense"}, max)


def test_a_long_or_hostile_description_is_made_fit(tract, made):
    made(description="\x1b[2J\u202e" + "x" * 100_000)
    assert len(tract.tools.get_data.__doc__) < 5_000
    assert "\x1b" not in tract.tools.get_data.__doc__
    assert "\u202e" not in tract.tools.list_tools()["get_data"]
    assert "…" in tract.tools.list_tools()["get_data"]


# --- a call that needs approval


def asked(tract, arguments, *answers):
    """Return the result of an agent's call after the user's decisions."""
    tract.reviewer.channel = FakeChannel(*answers)
    return tract.executor.execute("get-data", arguments, actor="agent:1")


def approved(**arguments):
    return lambda ticket: click(ticket, "approve", **arguments)


def test_a_person_sees_and_allows_the_call(tract, made):
    made()
    result = asked(tract, {"class": "a", "filters": {"lang": "de"}}, approved())
    assert result.output == {"class": "a", "limit": 3, "filters": {"lang": "de"}}
    request, _ = tract.reviewer.channel.shown[0]
    assert [(row.name, row.type, row.description) for row in request.tables[0].rows] == [
        ("class", "str", "Which."), ("limit", "int", ""), ("filters", "dict[str, Any] | None", ""),
    ]  # fmt: skip


def test_a_form_offers_all_arguments(tract, made):
    made()
    asked(tract, {"class": "a", "filters": {"lang": "de"}}, approved())
    request, _ = tract.reviewer.channel.shown[0]
    again = request_from_dict(json.loads(json.dumps(request_to_dict(request))))
    for fields in (request.fields, again.fields):
        kinds = {made["name"]: (made["kind"], made["text"] or made["value"]) for made in edit_form(fields)}
        assert kinds == {
            "class": ("text", "a"), "limit": ("integer", "3"), "kind": ("choice", None), "self": ("integer", None),
            "filters": ("json", '{"lang": "de"}'), "tool": ("integer", None), "x-y": ("number", None),
        }  # fmt: skip


def test_a_person_changes_arguments_first(tract, made):
    made()
    changed = {"class": "b", "filters": None, "kind": "a", "self": 5}
    result = asked(tract, {"class": "a", "filters": {"lang": "de"}}, approved(edits=changed))
    assert result.output == {"class": "b", "limit": 3, "kind": "a", "self": 5}


def test_an_invalid_edit_is_reported_to_the_user(tract, made):
    made()
    result = asked(
        tract, {"class": "a"}, approved(edits={"kind": "z"}), approved(edits={"filters": {"lang": "de"}})
    )
    assert result.output == {"class": "a", "limit": 3, "filters": {"lang": "de"}}
    assert "'kind' should be one of ['a', 'b'], got 'z'" in tract.reviewer.channel.shown[1][0].note


def test_a_value_outside_the_described_type_can_be_approved(tract, made):
    made({"properties": {"a": {"properties": {"b": {}}}}})  # no rule for values that are not objects
    result = asked(tract, {"a": 3}, approved())
    assert result.output == {"a": 3}


def test_a_model_gets_the_schema_of_the_editable_values(tract, made):
    made({**SCHEMA, "$defs": {"x": {}}})
    pending = tract.policies.propose("often", "get-data", {"class": "a"})
    (approve,) = (tool for tool in pending.to_tools() if tool["function"]["name"] == "approve")
    assert set(approve["function"]["parameters"]["properties"]["edits"]["properties"]) == set(
        SCHEMA["properties"]
    )
    assert pending.approve() == {"class": "a", "limit": 3}
