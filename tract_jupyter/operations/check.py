"""The validation rules for a spec. This module compiles and runs nothing."""

from __future__ import annotations

import keyword
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationExistsError, ParameterError, SpecError, nearest
from tract_jupyter.models import printable
from tract_jupyter.operations.pending import DynamicPending, GuidedDynamicPending, members_of
from tract_jupyter.operations.spec import (
    GUIDANCE_FIELDS,
    FiringCondition,
    spec_from_json,
    spec_to_json,
)
from tract_jupyter.review import APPROVE_ONLY, OWN_WORDS
from tract_jupyter.review.builtin import BUILTIN_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tract_jupyter.models.schema import Parameters
    from tract_jupyter.operations.spec import ActionDef, OperationSpec

TOOL_PREFIX = "fire_"
"""The prefix of the tool name of each operation. No other tool name has it."""

MAX_NAME = 59
"""The maximum length of an operation's name. Model providers allow 64 characters, including the tool prefix."""

_RESERVED_LABELS = frozenset({"approve", "reject", APPROVE_ONLY.casefold(), *OWN_WORDS})
"""The words on the buttons and prompts of every request."""

_ALIKE = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}
"""Alphabets with identical-looking letters."""

_DISTINCT_GREEK = frozenset("ΓΔΘΛΞΠΣΦΨΩαβγδεζηθικλμξπρςστυφχψω")
"""Greek letters that occur with Latin ones, as in Δt, and look like none of them."""

_MEMBERS = frozenset(members_of(DynamicPending))
_MEMBERS_GUIDED = frozenset(members_of(GuidedDynamicPending))
_DECISIONS = frozenset({"approve", "reject", "pass_through", "fields"})
_RECORDED = frozenset({"expire"})
"""A stored name that looks like an action: the expiry of a request."""


@dataclass(frozen=True, slots=True)
class CheckedSpec:
    """A valid spec, with the values computed during validation.

    `text` is its JSON, which is signed and stored. `spec_hash` is the sha256 of the canonical form.
    """

    spec: OperationSpec
    text: str
    spec_hash: str
    fields: Parameters
    actions: Mapping[str, Parameters]

    @classmethod
    def of(cls, spec: OperationSpec | CheckedSpec) -> CheckedSpec:
        """Check the names, types, defaults and shape of a spec, after a conversion to text.

        Raises:
            OperationExistsError: a built-in operation has this name.
            SpecError: any other error. The message has the position and the remedy.
        """
        return spec if isinstance(spec, CheckedSpec) else cls.read(spec_to_json(spec))

    @classmethod
    def read(cls, text: str) -> CheckedSpec:
        """Parse a spec from its text and check it. Raise the same errors as `of`."""
        spec = spec_from_json(text)
        fields, actions = _check(spec)
        return cls(spec, text, spec.spec_hash, fields, actions)

    def with_volatile(self, names: Collection[str]) -> CheckedSpec:
        """Return a spec with exactly these fields volatile."""
        changed = self.spec.with_volatile(names)
        return self if changed == self.spec else CheckedSpec.of(changed)


def check_spec(spec: OperationSpec) -> OperationSpec:
    """Check names, types, defaults and shape, and return a copy that shares nothing with `spec`.

    Raises:
        OperationExistsError: a built-in operation has this name.
        SpecError: any other error. The message has the position and the remedy.
    """
    return CheckedSpec.of(spec).spec


def _check(spec: OperationSpec) -> tuple[Parameters, dict[str, Parameters]]:
    """Check a spec. Return its fields, and the parameters of each action."""
    if spec.name in BUILTIN_OPERATIONS:
        raise OperationExistsError(f"{spec.name!r} is a built-in operation; choose another name")
    check_name("an operation", spec.name, reserved=_DECISIONS)
    for name in spec.fields:
        check_name("a field", name, reserved=frozenset({"fields"}))
        if spec.two_stage and name in GUIDANCE_FIELDS:
            raise SpecError(f"a two-stage operation has a field {name!r} already; leave it out")
    members = _MEMBERS_GUIDED if spec.two_stage else _MEMBERS
    actions = {key: _check_action(key, action, members) for key, action in spec.actions.items()}
    _check_labels(spec.actions)
    fields = spec.parameters()
    if spec.fires_on is not None:
        _check_condition(spec.fires_on, spec.given_parameters(), actions)
    return fields, actions


def _check_condition(
    condition: FiringCondition, fields: Parameters, actions: Mapping[str, Parameters]
) -> None:
    action = condition.action
    if action is not None and action not in actions:
        known = f" It has {', '.join(actions)}" if actions else " It has no actions"
        raise SpecError(f"fires_on: there is no action {action!r}.{nearest(action, actions)}{known}")
    if action is not None and any(parameter.required for parameter in actions[action]):
        raise SpecError(f"fires_on: action {action!r} has required parameters; give them defaults")
    try:
        fields.validate(condition.fields)
    except ParameterError as error:
        raise SpecError(f"fires_on: fields: {'; '.join(error.problems)}") from None


def _check_action(key: str, action: ActionDef, members: frozenset[str]) -> Parameters:
    check_name("an action", key, reserved=members | _RECORDED)
    if action.name != key:
        raise SpecError(f"action {key!r} has the name {action.name!r} in its definition; use one name")
    for name in action.params:
        check_name(f"a parameter of {key!r}", name, reserved=frozenset({"pending", "self"}))
    parameters = action.parameters()
    if not action.code.strip():
        raise SpecError("there is no code; write at least 'pending.approve()'", action=key)
    return parameters


def _check_labels(actions: Mapping[str, ActionDef]) -> None:
    """Check that each action has a different label, and not the label of a button that every request has."""
    names: dict[str, str] = {}
    for name in actions:
        words = " ".join(name.replace("_", " ").split()).casefold()
        if words in _RESERVED_LABELS:
            raise SpecError(
                f"{name!r} is reserved: every request has the label {words!r}. Try {name + '_it'!r}"
            )
        if words in names:
            raise SpecError(
                f"the actions {names[words]!r} and {name!r} have the same label {words!r}; rename one"
            )
        names[words] = name


def check_name(what: str, name: object, *, reserved: frozenset[str]) -> None:
    """Check that a name is valid."""
    if not isinstance(name, str) or not name.isidentifier():
        raise SpecError(
            f"{_show(name)} is not a valid name for {what}; use letters, digits and '_', starting with a letter"
        )
    if len(name) > MAX_NAME:
        raise SpecError(
            f"{_show(name)} is {len(name)} characters long; the maximum for the name of {what} is {MAX_NAME}"
        )
    if not name.isascii():
        _check_letters(what, name)
    if keyword.iskeyword(name):
        raise SpecError(f"{name!r} is a Python keyword, so it cannot name {what}; try {name + '_'!r}")
    if name.startswith("_"):
        raise SpecError(
            f"{name!r} starts with an underscore, which is reserved for Python; use {name.strip('_')!r}"
        )
    if name in reserved:
        raise SpecError(f"{name!r} is reserved, so it cannot name {what}; try {name + '_it'!r}")


def _check_letters(what: str, name: str) -> None:
    """Check that Python reads a non-ASCII name as written, and that it looks like no other name."""
    if (plain := unicodedata.normalize("NFKC", name)) != name:  # Python reads names in this form
        raise SpecError(
            f"{_show(name)} is not a valid name for {what}: Python reads it as {plain!r}; write that"
        )
    if printable(name) != name:
        raise SpecError(
            f"{_show(name)} is not a valid name for {what}: it has invisible characters; remove them"
        )
    for word in name.split("_"):
        alphabets = sorted({_alphabet(letter) for letter in word} & _ALIKE)
        if len(alphabets) > 1:
            raise SpecError(
                f"{_show(name)} is not a valid name for {what}: {_show(word)} has {' and '.join(alphabets)} letters, "
                "which look alike; use one alphabet in each word"
            )


def _alphabet(letter: str) -> str:
    return "" if letter in _DISTINCT_GREEK else unicodedata.name(letter, "").split(" ")[0]


def _show(name: object) -> str:
    return ascii(name)[:60]
