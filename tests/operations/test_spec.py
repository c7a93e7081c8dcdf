"""Specs as data: frozen, validated, stored and read back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tract_jupyter import Tract
from tract_jupyter.exceptions import OperationExistsError, SpecError, TractError
from tract_jupyter.operations import (
    ActionDef,
    OperationSpec,
    make_dynamic_pending_class,
    spec_from_dict,
    spec_from_json,
    spec_to_dict,
    spec_to_json,
)
from tract_jupyter.review import Pending
from tract_jupyter.review.builtin import BUILTIN_OPERATIONS


def go(**parts: Any) -> ActionDef:
    return ActionDef(**{"name": "go", "description": "", "params": {}, "code": "pending.approve()", **parts})


def op(**parts: Any) -> OperationSpec:
    return OperationSpec(**{"name": "op", "description": "", "fields": {}, "actions": {"go": go()}, **parts})


def fields(kind: Any, **parts: Any) -> OperationSpec:
    return op(fields={"a": {"type": kind, **parts}})


def everything(tract: Tract) -> tuple[Any, ...]:
    """Return everything that registration can change."""
    return (
        tract.operations.registry.operation_names,
        tract.operations.registry.revision,
        tract.operations.hookable,
        sorted(tract.executor.tools()),
        dir(tract.tools),
        tract.operations.quarantined,
        tract.review.inbox(),
        tract.events(),
        tract.status(),
    )


@pytest.mark.parametrize("made", [go(), op()])
def test_definitions_are_frozen(made):
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "x"


@pytest.mark.parametrize("name", sorted(BUILTIN_OPERATIONS))
def test_spec_validation(tract, name):
    """Names of built-in operations are rejected."""
    with pytest.raises(OperationExistsError, match="built-in") as caught:
        tract.register_operation(op(name=name))
    assert isinstance(caught.value, ValueError)


BAD_NAMES = [
    ("has space-!", "not a valid name"), ("", "not a valid name"), ("1st", "not a valid name"), ("a.b", "not a valid name"), ("a\0b", "not a valid name"),
    ("a\nb", "not a valid name"), ("class", "keyword"), ("None", "keyword"), ("await", "keyword"), ("__init__", "underscore"),
    ("_private", "underscore"), ("a\ud800", "surrogate"), ("x" * 60, "maximum .* is 59"), ("\ufb01re", "reads it as 'fire'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "words"), BAD_NAMES)
@pytest.mark.parametrize("place", ["operation", "action", "field", "parameter"])
def test_bad_names_are_refused_everywhere(tract, place, name, words):
    spec = {
        "operation": lambda: op(name=name),
        "action": lambda: op(actions={name: go(name=name)}),
        "field": lambda: op(fields={name: {"type": "str"}}),
        "parameter": lambda: op(actions={"go": go(params={name: "str"})}),
    }[place]()
    before = everything(tract)
    for register in (tract.register_operation, tract.propose_operation):
        with pytest.raises(SpecError, match=words):
            register(spec)
    assert everything(tract) == before


@pytest.mark.parametrize(
    "spec",
    [
        *(op(name=name) for name in ("approve", "reject", "pass_through", "fields")),
        op(fields={"fields": {"type": "str"}}),
        op(actions={"go": go(params={"pending": "str"})}),
        op(actions={"go": go(params={"self": "str"})}),
    ],
)
def test_reserved_names_are_refused(tract, spec):
    before = everything(tract)
    with pytest.raises(SpecError, match="reserved"):
        tract.register_operation(spec)
    assert everything(tract) == before


MEMBERS = sorted(name for name in {*dir(Pending), *Pending.__annotations__} if not name.startswith("_"))


@pytest.mark.parametrize("name", [*MEMBERS, "spec", "spec_hash", "field_parameters", "expire"])
def test_an_action_cannot_have_the_name_of_a_pending_member(name):
    with pytest.raises(SpecError, match="reserved"):
        make_dynamic_pending_class(op(actions={name: go(name=name)}))


def test_reserved_means_every_member_of_a_made_pending(tract):
    tract.register_operation(op())
    pending = tract.fire("op", review=True)
    members = {name for name in {*dir(pending), *vars(pending)} if not name.startswith("_")}
    for name in members - {"go"}:
        with pytest.raises(SpecError, match="reserved"):
            make_dynamic_pending_class(op(actions={name: go(name=name)}))


@pytest.mark.parametrize(
    "name", ["always", "session", "edit", "Approve", "REJECT", "approve_", "approve_without_running", "Edit"]
)
def test_an_action_cannot_have_the_name_of_a_standard_button(name):
    with pytest.raises(SpecError, match="reserved"):
        make_dynamic_pending_class(op(actions={name: go(name=name)}))


def test_no_two_actions_are_shown_alike():
    actions = {name: go(name=name) for name in ("send_it", "Send__It")}
    with pytest.raises(SpecError, match="'send_it' and 'Send__It' have the same label 'send it'"):
        make_dynamic_pending_class(op(actions=actions))


LOOK_ALIKES = {"g\u043e": "CYRILLIC and LATIN", "\u0410B": "CYRILLIC", "g\u03bf": "GREEK", "go\ufe0f": "invisible characters",
               "g\u1160o": "invisible characters", "go\U000e0100": "invisible characters"}  # fmt: skip


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_name_that_looks_like_another_name_is_refused(name):
    for spec in (op(name=name), op(fields={name: {"type": "str"}}), op(actions={name: go(name=name)}),
                 op(actions={"go": go(params={name: "str"})})):  # fmt: skip
        with pytest.raises(SpecError, match=LOOK_ALIKES[name]):
            make_dynamic_pending_class(spec)


@pytest.mark.parametrize("name", ["адрес", "url_адрес", "Δt", "größe", "名前", "μs", "naïve_ñ"])
def test_names_can_use_any_alphabet(name):
    make_dynamic_pending_class(op(name=name, fields={name: {"type": "str"}}))


WRONG = [
    (fields("string"), "unknown type name 'string'. Did you mean 'str'"),
    (fields("strr"), "Did you mean 'str'"),
    (fields("list[integer]"), "Did you mean 'int'"),
    (fields("List[str]"), "list"),
    (fields("dict[int, str]"), "keys of a dict are strings"),
    (fields("list[int, str]"), "takes one type"),
    (fields("str[int]"), "no type in brackets"),
    (fields("Literal[()]"), "are empty"),
    (fields("Union[()]"), "are empty"),
    (fields("Literal[1.5]"), "Literal takes"),
    (fields("__import__('os').getcwd()"), "not a type name"),
    (fields("lambda: 1"), "not a type name"),
    (fields(""), "not a type name"),
    (fields("s\0tr"), "not a type name"),
    pytest.param(fields("x" * 501), "500 is the maximum", id="long type"),
    (fields(3), "a type name must be a string"),
    (fields("int", default=True), "default True of 'a' is not of type int"),
    (fields("list[str]", default=["a", 1]), "is not of type list"),
    (fields("str", default=3), "default 3 of 'a' is not of type str"),
    (fields("float", default=float("nan")), "JSON"),
    (fields("Any", default=object()), "JSON"),
    (fields("Any", default={1: 2}), "JSON"),
    (fields("Any", default="\ud800"), "surrogate"),
    (fields("str", description=3), "description must be text"),
    (fields("str", required=True, default="x"), "required and has a default"),
    (fields("str", required=1), "required must be true or false, not 1"),
    (fields("str", defualt=3), "fields.a has no part 'defualt'. Did you mean 'default'"),
    (op(fields={"a": "str"}), "fields.a must be an object, not 'str'"),
    (op(fields=["a"]), "fields must be an object"),
    (op(actions=["a"]), "actions must be an object"),
    (op(actions={"go": "x"}), "actions.go must be an object, not 'x'"),
    (op(actions={"other": go()}), "the name 'go' in its definition"),
    (op(description=None), "description must be text"),
    (op(description="\ud800"), "surrogate"),
    (op(version=None), "version must be text"),
    (op(unhandled="aprove"), "unhandled must be 'approve' or 'ask'"),
    (op(unhandled=["ask"]), "unhandled must be 'approve' or 'ask'"),
    (op(name=3), "name must be text"),
    (op(name=None), "name must be text"),
    (op(actions={"go": go(params={"a": "strng"})}), "parameter 'a': unknown type name 'strng'. Did you mean 'str'"),
    (op(actions={"go": go(params=["a"])}), "actions.go.params must be an object"),
    (op(actions={"go": go(params={"abc": "str"}, required=["abd"])}), "Did you mean 'abc'"),
    (op(actions={"go": go(params={"abc": "str"}, required="abc")}), "actions.go.required must be a list, not 'abc'"),
    (op(actions={"go": go(params={"a": "str"}, defaults={"b": "x"})}), "'b' is not a parameter"),
    (op(actions={"go": go(params={"a": "str"}, defaults={"a": 3})}), "default 3 of 'a' is not of type str"),
    (op(actions={"go": go(params={"a": "str"}, required=["a"], defaults={"a": ""})}), "required and has a default"),
    (op(actions={"go": go(code=3)}), "actions.go.code must be text, not 3"),
    (op(actions={"go": go(code="")}), "no code"),
    (op(actions={"go": go(code="# nothing")}), "no code"),
    (op(actions={"go": go(code="x = (")}), "line 1"),
    (op(actions={"go": go(code="x = '\ud800'")}), "surrogate"),
    pytest.param(op(actions={"go": go(code="x = 1\n" * 200_000)}), "the maximum is 1,000,000", id="huge code"),
    pytest.param(op(description="x" * 1_000_001), "the maximum is 1,000,000", id="huge text"),
    ({"name": "op"}, "OperationSpec is required, not dict"),
    (None, "OperationSpec is required"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "words"), WRONG)
def test_a_wrong_spec_is_refused_whole(tract, spec, words):
    before = everything(tract)
    for register in (tract.register_operation, tract.propose_operation, make_dynamic_pending_class):
        with pytest.raises(SpecError) as caught:
            register(spec)
        assert words in str(caught.value)
        assert len(str(caught.value)) < 1_000
    assert everything(tract) == before


def test_the_second_action_being_wrong_registers_nothing(tract):
    spec = op(actions={"go": go(), "stop": go(name="stop", code="break")})
    before = everything(tract)
    with pytest.raises(SpecError, match="action 'stop', line 1"):
        tract.register_operation(spec)
    assert everything(tract) == before


@pytest.mark.parametrize("name", ["pending", "approve", "items", "match", "reason", "name", "self"])
def test_names_that_only_look_reserved_work_as_fields(tract, name):
    tract.register_operation(op(fields={name: {"type": "int"}}))
    assert tract.fire("op", {name: 3}).fields == {name: 3}
    assert tract.executor.execute("fire_op", {name: 3}).output["fields"] == {name: 3}


def test_type_names_are_never_evaluated(tmp_path, tract):
    target = tmp_path / "written"
    for kind in (
        f"open({str(target)!r}, 'w')",
        f"list[open({str(target)!r}, 'w')]",
        f"Literal[open({str(target)!r}, 'w')]",
    ):
        with pytest.raises(SpecError):
            tract.register_operation(fields(kind))
    assert not target.exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "name is missing"),
        ({"name": "x", "field": {}}, "it has no part 'field'. Did you mean 'fields'"),
        ({"name": 3}, "name must be text"),
        ({"name": "x", "actions": {"a": {}}}, "actions.a.code is missing"),
        ({"name": "x", "actions": {"a": {"code": "1", "parms": {}}}}, "Did you mean 'params'"),
        ({"name": "x", "actions": {"a": None}}, "actions.a must be an object"),
        (
            {"name": "x", "fields": {"a": {"kind": "str"}}},
            "fields.a has no part 'kind'. It takes type, description",
        ),
        ([], "an operation must be a dict"),
        (None, "an operation must be a dict"),
    ],
)
def test_spec_from_dict_refuses(data, words):
    with pytest.raises(SpecError) as caught:
        spec_from_dict(data)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", pytest.param("[" * 100_000, id="deep"), pytest.param("9" * 5000, id="long")],
)
def test_spec_from_json_refuses(text):
    with pytest.raises(SpecError):
        spec_from_json(text)


def test_optional_keys_of_a_model_spec_get_defaults():
    made = spec_from_dict({"name": "x", "actions": {"go": {"code": "pass"}}, "version": 2})
    assert made == OperationSpec("x", "", {}, {"go": ActionDef("go", "", {}, "pass")}, version="2")


def test_the_hash_binds_every_part():
    base = op(fields={"a": {"type": "int", "default": 1}})
    changed = [
        op(), op(name="other"), op(description="x"), op(version="2"), op(unhandled="ask"), op(actions={}),
        op(fields={"a": {"type": "int", "default": 2}}), op(actions={"go": go(code="pending.approve() ")}),
    ]  # fmt: skip
    hashes = {base.spec_hash, *(spec.spec_hash for spec in changed)}
    assert len(hashes) == len(changed) + 1
    assert all(len(h) == 64 for h in hashes)


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}[a-z]", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(
    NAMES,
    st.fixed_dictionaries({"type": TEXTS}, optional={"description": TEXTS, "default": JSON}),
    max_size=4,
)
ACTIONS = st.dictionaries(
    NAMES,
    st.tuples(
        TEXTS, st.dictionaries(NAMES, TEXTS), TEXTS, st.lists(NAMES), st.dictionaries(NAMES, JSON),
        st.sampled_from(["kernel", "sandbox"]),
    ),
    max_size=3,
).map(lambda made: {name: ActionDef(name, *parts) for name, parts in made.items()})  # fmt: skip
SPECS = st.builds(OperationSpec, NAMES, TEXTS, FIELDS, ACTIONS, TEXTS, st.sampled_from(["approve", "ask"]))


@settings(max_examples=40)
@given(SPECS)
def test_spec_round_trip(spec):
    through_dict = spec_from_dict(json.loads(json.dumps(spec_to_dict(spec))))
    through_text = spec_from_json(spec_to_json(spec))
    assert through_dict == through_text == spec
    assert through_text.spec_hash == spec.spec_hash
    # equal dicts can differ in order, and positional calls depend on the order
    assert repr(through_text) == repr(spec)


@settings(max_examples=40)
@given(SPECS)
def test_a_spec_is_made_or_refused_with_our_error(spec):
    try:
        made = make_dynamic_pending_class(spec)
    except TractError:
        return
    assert made.spec == spec


def test_spec_to_dict_shares_nothing(spec):
    made = spec()
    data = spec_to_dict(made)
    data["fields"]["urls"]["type"] = "int"
    data["actions"]["verify"]["params"]["x"] = "int"
    assert made == spec()
