"""Property names that Anthropic refuses: requests use other names, call arguments get the original ones."""

from __future__ import annotations

import json
import re

import pytest

from tests.llm.dialects import HELLO, Messages, Said, made
from tests.llm.providers import Answer, provider
from tests.review.scripted import call
from tract_jupyter import AnthropicClient, Tract
from tract_jupyter.llm import Reply

LONG = "long_" * 14
OBJECT = {"type": "object"}


def schema(properties, **more):
    return {**OBJECT, "properties": properties, **more}


def text(**more):
    return {"type": "string", **more}


CASES = {
    "brackets": (schema({"filter[id]": text()}, required=["filter[id]"]), {"filter[id]": "1"}, {"filter_id_": "1"}),
    "a dollar": (schema({"$top": {"type": "integer"}}), {"$top": 3}, {"_top": 3}),
    "letters": (schema({"größe": text()}), {"größe": "1"}, {"gr__e": "1"}),
    "too long": (schema({LONG: text()}), {LONG: "1"}, {LONG[:64]: "1"}),
    "empty": (schema({"": text()}), {"": "1"}, {"_": "1"}),
    "two alike": (schema({"a b": text(), "a/b": text(), "a_b": text()}), {"a b": "1", "a/b": "2", "a_b": "3"},
                  {"a_b_2": "1", "a_b_3": "2", "a_b": "3"}),
    "nested": (schema({"q": schema({"x[]": {"type": "array", "items": schema({"é": text()}, required=["é"])}})}),
               {"q": {"x[]": [{"é": "1"}]}}, {"q": {"x__": [{"_": "1"}]}}),
    "in definitions": (schema({"q": {"$ref": "#/$defs/é"}}, **{"$defs": {"é": schema({"ü": text()})}}),
                       {"q": {"ü": "1"}}, {"q": {"_": "1"}}),
    "in alternatives": (schema({"q": {"anyOf": [schema({"a b": text()}), {"type": "null"}]}}),
                        {"q": {"a b": "1"}}, {"q": {"a_b": "1"}}),
    "named as keywords": (schema({"properties": schema({"required": text(), "a b": text()}, required=["a b"])}),
                          {"properties": {"a b": "1"}}, {"properties": {"a_b": "1"}}),
    "in other keys": (schema({"rows": {"type": "array", "items": {**OBJECT, "additionalProperties": True}}, "é": text()}),
                      {"rows": [{"ü x": "1"}], "é": "1"}, {"rows": [{"ü x": "1"}], "_": "1"}),
    "a key of free-form data": (schema({"a b": text(), "data": {**OBJECT, "additionalProperties": True}, "any": {}}),
        {"a b": "1", "data": {"a_b": {"a_b": 1}}, "any": [{"a_b": 1}]}, {"a_b": "1", "data": {"a_b": {"a_b": 1}}, "any": [{"a_b": 1}]}),
    "a key on another level": (schema({"a b": schema({"c": {**OBJECT, "additionalProperties": {"type": "integer"}}})}),
        {"a b": {"c": {"a_b": 1}}}, {"a_b": {"c": {"a_b": 1}}}),
    "an additional property": (schema({"q": {**OBJECT, "additionalProperties": schema({"a b": text()})}}),
        {"q": {"a_b": {"a b": "1"}}}, {"q": {"a_b": {"a_b": "1"}}}),
    "a pattern": (schema({"q": {**OBJECT, "patternProperties": {"^x": schema({"a b": text()})}}}), {"q": {"x": {"a b": "1"}}}, {"q": {"x": {"a_b": "1"}}}),
    "items in order": (schema({"q": {"type": "array", "prefixItems": [schema({"a b": text()}), {}], "items": schema({"é": text()})}}),
        {"q": [{"a b": "1"}, {"a_b": "1"}, {"é": "1"}]}, {"q": [{"a_b": "1"}, {"a_b": "1"}, {"_": "1"}]}),
    "a reference to itself": (schema({"q": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": schema({"a b": {"$ref": "#/$defs/node"}, "v": {}})}}),
        {"q": {"a b": {"a b": {"v": {"a_b": 1}}}}}, {"q": {"a_b": {"a_b": {"v": {"a_b": 1}}}}}),
    "an anchor": (schema({"q": {"$ref": "#here"}}, **{"$defs": {"x": {"$anchor": "here", **schema({"a b": text()})}}}), {"q": {"a b": "1"}}, {"q": {"a_b": "1"}}),
    "all of": ({"allOf": [schema({"a b": text()}), schema({"data": {}})], **OBJECT, "properties": {}}, {"a b": "1", "data": {"a_b": 1}}, {"a_b": "1", "data": {"a_b": 1}}),
    "a condition": (schema({"k": text()}, **{"if": {"required": ["k"]}, "then": {"properties": {"a b": {}}}}), {"k": "1", "a b": {"a_b": 1}}, {"k": "1", "a_b": {"a_b": 1}}),
    "both names": (schema({"a b": text()}), {"a b": "1", "a_b": "2"}, {"a b": "1", "a_b": "2"}),
    "allowed": (schema({"a.b-c_D9": text()}), {"a.b-c_D9": "1"}, {"a.b-c_D9": "1"}),
}  # fmt: skip


def property_names(value):
    """Yield the names of properties in a schema."""
    for keyword, one in value.items():
        if keyword == "properties":
            yield from one
        for inner in one.values() if isinstance(one, dict) and keyword in {"properties", "$defs"} else [one]:
            for part in inner if isinstance(inner, list) else [inner]:
                if isinstance(part, dict):
                    yield from property_names(part)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_call_has_the_names_of_its_tool(case, streamed):
    parameters, arguments, sent = CASES[case]
    tool = {"type": "function", "function": {"name": "find", "parameters": parameters}}
    said = Said("", [("c1", "find", json.dumps(sent))], "Let me see.")
    body = Messages.stream if streamed else Messages.whole
    told = {"on_delta": lambda _: None} if streamed else {}
    with provider(Answer(body(said)), Answer(body(Said("Done.")))) as there:
        client = made(Messages, there)
        response = client.chat(HELLO, tools=[tool], **told)
        assert Reply.of(response).raw_calls[0].values() == arguments
        answer = {"role": "tool", "tool_call_id": "c1", "content": "1"}
        client.chat([*HELLO, response["choices"][0]["message"], answer], tools=[tool], **told)
    given = there.bodies[0]["tools"][0]["input_schema"]
    names = list(property_names(given))
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in names)
    assert set(given.get("required", ())) <= set(given["properties"])
    back = there.bodies[1]["messages"][1]["content"]
    assert [one["type"] for one in back] == ["thinking", "tool_use"]  # with the reasoning bound to it
    assert back[1]["input"] == sent


def test_references_follow():
    parameters = schema(
        {"a b": text(), "q": {"$ref": "#/properties/a%20b"}}, dependentRequired={"a b": ["q"]}
    )
    tool = {"type": "function", "function": {"name": "find", "parameters": parameters}}
    given = AnthropicClient("m", api_key="k").as_sent(HELLO, tools=[tool])["tools"][0]["input_schema"]
    assert given["properties"] == {
        "a_b": {"title": "a b", "type": "string"},
        "q": {"$ref": "#/properties/a_b"},
    }
    assert given["dependentRequired"] == {"a_b": ["q"]}


def test_calls_in_a_reply_without_blocks_use_the_renamed_properties():
    tool = {"type": "function", "function": {"name": "find", "parameters": schema({"a b": text()})}}
    said = {"role": "assistant", "content": None, "tool_calls": [call("find", {"a b": "1"})]}
    answer = {"role": "tool", "tool_call_id": "c1", "content": "1"}
    body = AnthropicClient("m", api_key="k").as_sent([*HELLO, said, answer], tools=[tool])
    assert body["messages"][1]["content"][0]["input"] == {"a_b": "1"}
    assert tool["function"]["parameters"]["properties"] == {"a b": text()}  # the caller's tool is unchanged


def test_a_tool_of_the_user_is_called_by_such_a_model():
    with Tract.open() as tract:

        @tract.tool(read_only=True)
        def fläche(größe: float) -> float:  # noqa: PLC2401
            """Square it."""
            return größe**2

        bodies = [
            Messages.whole(Said(calls=[("c1", "fl_che", '{"gr__e": 3}')])),
            Messages.whole(Said("Nine.")),
        ]
        with provider(*map(Answer, bodies)) as there:
            tract.configure_llm(made(Messages, there))
            assert tract.chat("Area?", tools="self").text == "Nine."
        assert tract.compile().messages[2].content == "9.0"
        assert tract.compile().messages[1].tool_calls[0].arguments == {"größe": 3}


def test_values_in_a_schema_follow_it():
    row = schema(
        {"a b": text(), "data": {"default": {"a_b": 1, "a b": 2}}},
        default={"a b": "1", "data": {"a b": 1}},
        examples=[{"a b": "2"}],
    )
    tool = {
        "type": "function",
        "function": {"name": "find", "parameters": schema({"q": row, "r": {"enum": [{"a b": 1}]}})},
    }
    given = AnthropicClient("m", api_key="k").as_sent(HELLO, tools=[tool])["tools"][0]["input_schema"][
        "properties"
    ]
    assert given["q"]["default"] == {"a_b": "1", "data": {"a b": 1}}
    assert given["q"]["examples"] == [{"a_b": "2"}]
    assert given["q"]["properties"]["data"] == {"default": {"a_b": 1, "a b": 2}}
    assert given["r"] == {"enum": [{"a b": 1}]}
