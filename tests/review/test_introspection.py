"""Description of a pending for a model: schemas of unions, optionals, literals, lists and nested dicts."""

from __future__ import annotations

import gc
import weakref
from typing import Annotated, Any, Literal

import pytest

from tests.review.builtin.test_restoring import MADE
from tests.review.fakes import FakeChannel
from tract_jupyter import Tract
from tract_jupyter.operations import ActionDef
from tract_jupyter.review import action
from tract_jupyter.review.builtin import BuiltinPending

TYPES = {
    "int | None": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "Optional[str]": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "str | int": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "Union[bool, list[int]]": {
        "anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "integer"}}]
    },
    "Literal['a', 'b']": {"type": "string", "enum": ["a", "b"]},
    "Literal['a', 1] | None": {"anyOf": [{"enum": ["a", 1]}, {"type": "null"}]},
    "list[str]": {"type": "array", "items": {"type": "string"}},
    "list[dict[str, float]]": {
        "type": "array",
        "items": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "dict[str, list[int | None]]": {
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
    },
}


class Odd(BuiltinPending):
    """A pending for tests."""

    name = "tool_result"

    @action
    def try_it(
        self,
        count: Annotated[int | None, "How many."],
        mode: Annotated[Literal["a", "b"], "Which way."] = "a",
        rows: Annotated[list[dict[str, int | str]] | None, "The rows."] = None,
        names: tuple[str, ...] | None = None,
        rest: dict[str, dict[str, bool]] | None = None,
    ) -> None:
        """Try it."""


def schemas(pending) -> dict[str, Any]:
    return {tool["function"]["name"]: tool["function"]["parameters"] for tool in pending.to_tools()}


@pytest.mark.parametrize("text", TYPES)
def test_a_dynamic_action_s_types_reach_the_schema(tract, spec, text):
    act = ActionDef("act", "Acts.", {"value": text}, "pending.approve()", required=["value"])
    tract.register_operation(spec(actions={"act": act}))
    pending = tract.fire("citation_check", {"urls": []}, review=True)
    assert schemas(pending)["act"] == {
        "type": "object",
        "properties": {"value": TYPES[text]},
        "required": ["value"],
        "additionalProperties": False,
    }


def test_a_built_in_action_s_types_reach_the_schema(tract):
    schema = schemas(Odd({}, tract=tract, run=lambda fields: None))["try_it"]
    rows = {"type": "object", "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}
    assert schema["required"] == ["count"]
    properties = schema["properties"]
    assert properties["count"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "description": "How many.",
    }
    assert properties["mode"] == {
        "type": "string", "enum": ["a", "b"], "default": "a", "description": "Which way."}  # fmt: skip
    assert properties["rows"]["anyOf"] == [{"type": "array", "items": rows}, {"type": "null"}]
    assert properties["names"]["anyOf"][0]["items"] == {"type": "string"}
    inner = {"type": "object", "additionalProperties": {"type": "boolean"}}
    assert properties["rest"]["anyOf"][0] == {"type": "object", "additionalProperties": inner}


def test_edits_have_the_schema_of_the_fields(tract, spec):
    fields = {"urls": {"type": "list[str]", "description": "URLs"}, "n": {"type": "int | None", "default": 3}}
    tract.register_operation(spec("pending.approve()", fields=fields))
    pending = tract.fire("citation_check", {"urls": ["u"]}, review=True)
    edits = schemas(pending)["approve"]["properties"]["edits"]
    assert edits["properties"]["urls"]["items"] == {"type": "string"}
    assert edits["properties"]["urls"]["description"] == "URLs"
    assert edits["properties"]["n"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert "required" not in edits
    assert edits["additionalProperties"] is False
    pending.execute_tool("approve", {"edits": {"urls": ["v"]}})
    assert pending.fields == {"urls": ["v"], "n": 3}


def test_describe_api_names_every_field_of_both_kinds(tract, spec):
    fields = {
        "urls": {"type": "list[str] | None", "description": "URLs"},
        "n": {"type": "dict[str, int]", "default": {}},
    }
    tract.register_operation(spec("pending.approve()", fields=fields))
    text = tract.fire("citation_check", {"urls": ["u"]}, review=True).describe_api()
    assert "`urls: list[str] | None` = `['u']`: URLs" in text
    assert "`n: dict[str, int]` = `{}`" in text
    assert "`approve(edits: dict[str, Any] | None = None)`" in text
    text = tract.propose_gc().describe_api()
    assert "`tokens_to_free: int` = `0`: The tokens of the removed commits." in text
    assert "`exclude(commit_hash: str)`" in text


def test_every_field_of_a_built_in_is_explained(tract):
    first = tract.user("one").commit_hash
    tract.branch("topic")
    tract.user("one, topic", edit=first)
    tract.switch("main")
    tract.user("one, main", edit=first)
    made = [tract.propose_merge("topic"), tract.propose_rebase("topic", resolver="ours")]
    made.append(tract.propose_compress(content="a summary of it"))
    for pending in made:
        assert set(type(pending).about) == set(pending.fields), pending.operation
        assert f": {pending.about['branch']}\n" in pending.describe_api()


def test_titles_of_built_ins_are_words(tract):
    assert tract.propose_gc().title == "Garbage collection"
    assert tract.propose_gc().review_request().title == "Garbage collection"
    assert Odd({}, tract=tract, run=lambda fields: None).title == "Tool result"


def test_describe_api_describes_fields_of_a_policy_and_not_of_its_tool(tract):
    text = tract.policies.propose("p", "annotate", {"target_hash": "HEAD", "priority": "skip"}).describe_api()
    assert "`reason: str` = `''`: The reason.\n" in text
    assert "`policy_name: str` = `'p'`: The policy." in text


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_description_has_nothing_about_the_constructor(make, tmp_path, capsys):
    with Tract.open(tmp_path / "t.db") as tract:
        tract.reviewer.channel = FakeChannel()
        pending = make(tract)
        pending.pprint()
        for told in (pending.describe_api(), capsys.readouterr().out):
            assert type(pending).__doc__.strip().splitlines()[0] in told
            assert not {"Args:", "Attributes:", "Raises:"} & {line.strip() for line in told.splitlines()}


def test_a_pending_is_printed_without_control_characters(tract, capsys):
    tract.policies.propose("tidy", "register_tag", {"name": "x\x1b[2J\u202e", "description": ""}).pprint()
    assert not {"\x1b", "\u202e"} & set(capsys.readouterr().out)


@pytest.mark.slow
def test_the_class_of_an_operation_is_garbage_collected_with_its_tract(spec):
    with Tract.open() as tract:
        tract.register_operation(spec())
        pending = tract.fire("citation_check", {"urls": []}, review=True)
        assert "verify" in pending.to_dict()["available_actions"]
        assert pending.review_request().actions
        kind = weakref.ref(type(pending))
    del tract, pending
    gc.collect()
    assert kind() is None
