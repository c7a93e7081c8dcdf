"""The field `isolation` of a spec: reading, validation and hash."""

from __future__ import annotations

import pytest

from tract_jupyter.exceptions import SpecError
from tract_jupyter.operations import (
    ActionDef,
    OperationSpec,
    gained,
    make_dynamic_pending_class,
    spec_from_dict,
    spec_reach,
    spec_to_dict,
    spec_to_json,
)

DATA = {"name": "op", "actions": {"go": {"code": "import json\npending.approve()"}}}


def with_isolation(value):
    return {"name": "op", "actions": {"go": {**DATA["actions"]["go"], "isolation": value}}}


def test_the_dict_form_is_read_and_written():
    spec = spec_from_dict(with_isolation("sandbox"))
    assert spec.actions["go"].is_sandboxed
    assert spec.is_sandboxed
    assert spec_to_dict(spec)["actions"]["go"]["isolation"] == "sandbox"
    assert spec_from_dict(spec_to_dict(spec)) == spec


def test_the_kernel_is_the_default_and_not_written():
    spec = spec_from_dict(DATA)
    assert spec == spec_from_dict(with_isolation("kernel"))
    assert not spec.is_sandboxed
    assert "isolation" not in spec_to_json(spec)


def test_a_spec_without_isolation_keeps_its_hash():
    go = ActionDef("go", "", {"x": "int"}, "pending.approve()", ["x"], {})
    spec = OperationSpec("op", "d", {"n": {"type": "int"}}, {"go": go})
    assert spec.spec_hash == "f354accf4147d9765570fedf9263bf278b823f59c77eeaa75bbc945433a9450e"
    assert spec_from_dict(DATA).spec_hash != spec_from_dict(with_isolation("sandbox")).spec_hash


@pytest.mark.parametrize("value", ["sandboxed", "Sandbox", "", None, True, 3, [], {}])
def test_an_invalid_isolation_is_refused_with_the_nearest_value(value):
    with pytest.raises(SpecError, match=r"actions.go.isolation must be 'kernel' or 'sandbox'") as caught:
        spec_from_dict(with_isolation(value))
    assert ("Did you mean 'sandbox'?" in str(caught.value)) == (value in ("sandboxed", "Sandbox"))
    made = OperationSpec("op", "", {}, {"go": ActionDef("go", "", {}, "pass", isolation=value)})
    with pytest.raises(SpecError, match="isolation must be 'kernel' or 'sandbox'"):
        make_dynamic_pending_class(made)


def test_an_operation_is_sandboxed_only_if_all_actions_are():
    both = {"a": {"code": "pass", "isolation": "sandbox"}, "b": {"code": "pass"}}
    assert not spec_from_dict({"name": "op", "actions": both}).is_sandboxed
    assert not spec_from_dict({"name": "op"}).is_sandboxed


def test_sandboxed_code_has_no_access_and_leaving_the_sandbox_adds_access():
    outside, inside = spec_reach(spec_from_dict(DATA)), spec_reach(spec_from_dict(with_isolation("sandbox")))
    assert inside["imports"] == frozenset()
    assert inside["actions"] == {"go(), in the sandbox"}
    gain = gained(inside, outside)
    assert "json" in gain["imports"]
    assert gain["actions"] == {"go()"}
