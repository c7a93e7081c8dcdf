"""The inputs of a panel as data."""

import json

import pytest

from tract_jupyter.models.schema import Parameter, Parameters
from tract_jupyter.notebook.panels import action_form, action_forms, edit_form, read_arguments, standing_form
from tract_jupyter.operations import ActionDef, OperationSpec
from tract_jupyter.review import Subject

PARAMS = {
    "a": "str", "b": "int", "c": "float", "d": "bool", "e": "Literal['x', 'y']", "f": "list[str]", "g": "int | None",
    "h": "bool",
}  # fmt: skip
KINDS = {
    "a": "text", "b": "integer", "c": "number", "d": "boolean", "e": "choice", "f": "json", "g": "integer", "h": "boolean",
}  # fmt: skip


def by_name(inputs):
    return {one["name"]: one for one in inputs}


def test_an_input_for_each_parameter(tract):
    action = ActionDef("act", "Act", PARAMS, "pending.approve()", ["a", "b"], {"d": True})
    tract.register_operation(OperationSpec("op", "", {}, {"act": action}))
    request = tract.fire("op", review=True).review_request()
    inputs = by_name(action_form(request.action("act"))["parameters"])
    assert {name: one["kind"] for name, one in inputs.items()} == KINDS
    assert inputs["e"]["choices"] == ["x", "y"]
    assert inputs["a"]["required"]
    assert not inputs["c"]["required"]
    assert inputs["d"]["value"] is True
    assert inputs["h"]["value"] is None
    assert inputs["h"]["nullable"]


def test_values_to_change_stand_in_the_inputs_exactly():
    big = 2**70 + 1
    fields = Parameters("op", [
        Parameter("n", int, big), Parameter("x", float, 1.0), Parameter("s", str, "a\nb"), Parameter("o", str | None, None),
        Parameter("l", list[str], ["ü"]), Parameter("d", dict[str, int], {}),
    ])  # fmt: skip
    inputs = by_name(edit_form(fields))
    assert {name: one["text"] for name, one in inputs.items()} == {
        "n": str(big), "x": "1.0", "s": "a\nb", "o": "", "l": '["ü"]', "d": "{}",
    }  # fmt: skip
    assert {name for name, one in inputs.items() if one["required"]} == {"n", "x", "l", "d"}
    assert inputs["o"]["nullable"]
    assert json.dumps(list(inputs.values()))  # the front end gets it as JSON


def test_a_huge_value_is_not_sent_to_be_changed():
    (made,) = edit_form(Parameters("op", [Parameter("s", str, "x" * 1_000_000)]))
    assert made["kind"] == "fixed"
    assert len(json.dumps(made)) < 1_000
    assert "too long" in made["help"]


def test_nothing_to_change_and_nothing_to_grant():
    assert edit_form(None) == []
    assert standing_form(None, elsewhere=False) is None


@pytest.mark.parametrize(("elsewhere", "scopes"), [(False, ["session", "always"]), (True, ["always"])])
def test_how_long_an_approval_may_hold(elsewhere, scopes):
    offer = standing_form(Subject("tool", "read", "0" * 64, {"path": "a/b", "n": 3}), elsewhere=elsewhere)
    assert [name for name, _ in offer["scopes"]] == scopes
    path, number = offer["values"]
    assert (path["shown"], path["is_text"], path["text"]) == ("'a/b'", True, "a/b")
    assert (number["shown"], number["is_text"], number["text"]) == ("3", False, "")


def test_the_model_of_the_chat_has_no_technical_name():
    offer = standing_form(Subject("tool", "note", "h", {"urls": 1}, "agent:chat"), elsewhere=False)
    assert offer["whom"][:2] == [
        ("this", "the model of the chat only"), ("children", "the model of the chat and its children")
    ]  # fmt: skip


def test_the_form_of_a_standing_approval_lists_requesters_and_ignored_fields():
    subject = Subject("operation", "deploy", "0" * 64, {"n": 3}, "agent:a", {"at": "noon"})
    offer = standing_form(subject, elsewhere=False)
    assert offer["whom"] == [
        ("this", "agent:a only"), ("children", "agent:a and its children"), ("anybody", "any requester")
    ]  # fmt: skip
    assert offer["ignored"] == [{"name": "at", "shown": "'noon'"}]


TWO = {name: ActionDef(name, "", {}, "pending.approve()") for name in ("one", "two")}


@pytest.mark.parametrize(
    ("actions", "main"), [({}, "approve"), ({"one": TWO["one"]}, "one"), (TWO, "approve")]
)
def test_only_the_main_button_has_these_forms(tract, actions, main):
    tract.register_operation(OperationSpec("op", "", {"urls": {"type": "list[str]"}}, actions))
    ticket = tract.reviewer.show(tract.fire("op", {"urls": []}, review=True))
    forms = {form["name"]: form for form in action_forms(ticket)}
    assert [one["name"] for one in forms[main]["edits"]] == ["urls"]
    assert forms[main]["standing"]
    assert not any("edits" in forms[name] for name in forms.keys() - {main})


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"a": 1}, {"a": 1}), ('{"a": 12345678901234567891}', {"a": 12345678901234567891}), ("{", None), ("[1]", None),
        ("[" * 100_000, None), (None, None), (7, None),
    ],
)  # fmt: skip
def test_arguments_arrive_as_a_dict_or_as_json_text(given, arguments):
    assert read_arguments(given) == arguments
