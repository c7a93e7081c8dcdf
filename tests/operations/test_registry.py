"""The registry of active operations."""

from __future__ import annotations

import json

import pytest

from tract_jupyter.exceptions import OperationExistsError, SpecError, UnknownOperationError
from tract_jupyter.operations import OperationRegistry


@pytest.fixture
def registry():
    return OperationRegistry()


def test_register_and_get(registry, spec):
    made = registry.register(spec())
    assert registry.get_class("citation_check") is made
    assert registry.require_class("citation_check") is made
    assert registry.get_spec("citation_check") == spec()
    assert registry.is_registered("citation_check")
    assert registry.operation_names == {"citation_check"}
    assert registry.get_class("other") is None
    assert registry.get_spec("other") is None
    assert not registry.is_registered("other")


def test_register_duplicate_raises(registry, spec):
    made = registry.register(spec())
    for again in (spec(), spec("pending.reject()")):
        with pytest.raises(OperationExistsError, match="operation 'citation_check' is already active"):
            registry.register(again)
    assert registry.get_class("citation_check") is made


def test_register_replace(registry, spec):
    registry.register(spec())
    made = registry.register(spec("pending.reject()"), replace=True)
    assert registry.get_class("citation_check") is made
    assert registry.get_spec("citation_check") == spec("pending.reject()")


@pytest.mark.parametrize("name", ["compress", "gc", "rebase", "merge", "policy", "tool_result"])
def test_register_builtin_name_raises(registry, spec, name):
    with pytest.raises(OperationExistsError, match="built-in"):
        registry.register(spec(name=name))
    assert registry.operation_names == set()


def test_unregister(registry, spec):
    registry.register(spec())
    registry.unregister("citation_check")
    assert not registry.is_registered("citation_check")
    assert registry.get_class("citation_check") is None
    with pytest.raises(UnknownOperationError, match="No operation is active"):
        registry.unregister("citation_check")
    registry.register(spec())


def test_an_unknown_name_is_answered_with_the_nearest(registry, spec):
    registry.register(spec())
    for ask in (registry.unregister, registry.require_class):
        with pytest.raises(UnknownOperationError, match="Did you mean 'citation_check'"):
            ask("citation_chek")
    for odd in (None, 3, "a\ud800"):
        with pytest.raises(UnknownOperationError):
            registry.require_class(odd)


def test_to_config_from_config_roundtrip(registry, spec):
    registry.register(spec())
    registry.register(spec("pending.approve()", name="another"))
    config = json.loads(json.dumps(registry.to_config()))
    other = OperationRegistry()
    other.from_config(config)
    assert other.to_config() == registry.to_config()
    assert other.operation_names == {"another", "citation_check"}
    assert other.get_class("another").__name__ == "PendingAnother"


def test_from_config_keeps_active_operations(registry, spec):
    made = registry.register(spec())
    other = OperationRegistry()
    other.register(spec("pending.reject()"))
    registry.from_config(other.to_config())
    assert registry.get_class("citation_check") is made


def test_from_config_refuses_a_wrong_one(registry):
    with pytest.raises(SpecError):
        registry.from_config([{"name": "x", "actions": {"a": {"code": "("}}}])
    assert registry.operation_names == set()


def test_every_change_shows_in_the_revision_and_a_refusal_does_not(registry, spec):
    seen = [registry.revision]
    registry.register(spec())
    seen.append(registry.revision)
    with pytest.raises(SpecError):
        registry.register(spec("(", name="broken"))
    assert registry.revision == seen[-1]
    registry.unregister("citation_check")
    seen.append(registry.revision)
    registry.trust(spec())
    seen.append(registry.revision)
    assert len(set(seen)) == 4


def test_spec_fields_deep_copied_on_register(registry, spec):
    """A change after registration does not affect the class."""
    given = spec()
    registry.register(given)
    given.fields["urls"]["default"] = []
    given.fields["extra"] = {"type": "str"}
    given.actions["verify"].params["more"] = "str"
    given.actions.clear()
    assert registry.get_spec("citation_check") == spec()
    assert set(registry.get_class("citation_check").field_parameters.names) == {"urls", "verified"}
