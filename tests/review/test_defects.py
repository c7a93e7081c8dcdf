"""The defects of dynamic operations that the reference lists (context_store.md, d) do not occur here."""

from __future__ import annotations

import inspect

import jsonschema
import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import SpecError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef, compile_action


def test_defect_1_the_fire_tool_accepts_arguments_of_its_schema(tract, spec):
    tract.register_operation(spec())
    tool = tract.executor.get("fire_citation_check")
    arguments = {"urls": ["https://a.example"]}
    jsonschema.validate(arguments, tool.parameters.json_schema)
    for call in (tract.tools.fire_citation_check, tool.handler):
        assert call(**arguments)["fields"] == {**arguments, "verified": False}
    assert tract.executor.execute(tool.name, {**arguments, "_name": "x"}).error.startswith(
        "'_name' is unknown"
    )
    assert tract.executor.execute(tool.name, {"fields": arguments}).success is False


def test_defect_2_mutable_defaults_do_not_leak_into_later_fires(tract, spec):
    tract.register_operation(spec(fields={"seen": {"type": "list[str]", "default": []}}))
    tract.on("citation_check", lambda p: p.fields["seen"].append("x"))
    assert [tract.fire("citation_check").fields["seen"] for _ in range(3)] == [["x"]] * 3
    assert tract.operations.registry.get_spec("citation_check").fields["seen"]["default"] == []
    tract.tools.fire_citation_check.__signature__.parameters["seen"].default.append("y")
    assert tract.fire("citation_check").fields["seen"] == ["x"]


def test_defect_3_registered_specs_are_there_after_reopening(tmp_path, spec):
    with Tract.open(tmp_path / "t.db") as t:
        t.register_operation(spec())
    with Tract.open(tmp_path / "t.db") as t:
        assert t.operations.quarantined == {}
        assert t.fire("citation_check", {"urls": []}).status is PendingStatus.APPROVED


def test_defect_4_the_provenance_event_is_there_after_reopening(tmp_path, spec):
    with Tract.open(tmp_path / "t.db") as t:
        t.register_operation(spec())
        t.fire("citation_check", {"urls": []}, execute_fn=lambda p: None)
    with Tract.open(tmp_path / "t.db") as t:
        assert [event.data["fields"] for event in t.events("custom:*")] == [{"urls": [], "verified": False}]


def test_defect_5_odd_definitions_work_or_are_refused(tract, spec):
    late = ActionDef("go", "", {"a": "int", "b": "int"}, "return a, b", required=["b"])
    assert compile_action(late)(None, b=1) == (None, 1)
    text = ActionDef("go", "", {}, "return '''a\nb\n  c'''")
    assert compile_action(text)(None) == "a\nb\n  c"
    for wrong in (
        spec(name="has space-!"),
        spec(""),
        *(spec(actions={name: ActionDef(name, "", {}, "pass")}) for name in ("__init__", "approve")),
    ):
        with pytest.raises(SpecError):
            tract.register_operation(wrong)
    assert tract.operations.registry.operation_names == set()


def test_defect_6_action_methods_accept_positional_arguments_as_introspection_says(tract, spec):
    made = tract.register_operation(spec(), review=True)
    parameters = list(inspect.signature(made.verify).parameters.values())[1:]
    assert [p.kind for p in parameters] == [inspect.Parameter.POSITIONAL_OR_KEYWORD]
    pending = made(tract=tract, fields={"urls": ["x"]})
    pending.verify(True)
    assert pending.status is PendingStatus.REJECTED


def test_defect_7_describe_api_has_the_fields_and_get_state_is_offered(tract, spec):
    tract.register_operation(spec())
    pending = tract.fire("citation_check", {"urls": ["u"]}, review=True)
    assert "`urls: list[str]` = `['u']`: URLs to verify" in pending.describe_api()
    assert pending.execute_tool("get_state", {})["fields"]["urls"] == ["u"]


def test_defect_8_an_executor_knows_operations_that_are_registered_later(tract, spec):
    executor, tools = tract.executor, tract.tools
    tract.register_operation(spec())
    assert executor.execute("fire_citation_check", {"urls": []}).success
    assert tools.fire_citation_check(urls=[])["status"] == "approved"
    assert {tool["function"]["name"] for tool in tract.as_tools("full")} == set(executor.tools())
    tract.unregister_operation("citation_check")
    assert "no tool 'fire_citation_check'" in executor.execute("fire_citation_check", {"urls": []}).error


def test_defect_9_a_version_is_reviewed_signed_and_kept_in_the_events(tract, spec):
    tract.register_operation(spec())
    tract.propose_operation(spec("pending.approve()", version="2")).approve()
    versions = [event.data["version"] for event in tract.events("operation.activated")]
    assert versions == ["2", "1"]
