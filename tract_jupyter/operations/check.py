"""The rules that a spec must satisfy before anything is made of it. Nothing is compiled here, and nothing runs."""

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
"""The prefix of the name of an operation's tool; no other tool has it."""

MAX_NAME = 59
"""The longest name of an operation: providers of models take 64 characters, with the prefix of its tool."""

_SAID = frozenset({"approve", "reject", APPROVE_ONLY.casefold(), *OWN_WORDS})
"""Words of the buttons and prompts of every request."""

_ALIKE = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}
"""Alphabets with letters that look the same."""

_GREEK_OF_ITS_OWN = frozenset("ΓΔΘΛΞΠΣΦΨΩαβγδεζηθικλμξπρςστυφχψω")
"""Letters that are used beside Latin ones, as in Δt, and are taken for none of these."""

_MEMBERS = frozenset(members_of(DynamicPending))
_MEMBERS_GUIDED = frozenset(members_of(GuidedDynamicPending))
_DECISIONS = frozenset({"approve", "reject", "pass_through", "fields"})
_RECORDED = frozenset({"expire"})
"""A name that is stored like an action without being one: nobody decided in time."""


@dataclass(frozen=True, slots=True)
class CheckedSpec:
    """A spec that satisfies every rule, with what was made of it on the way, each part once.

    Attributes:
        spec: it shares nothing with what it was read from.
        text: its JSON: what is signed and stored.
        spec_hash: sha256 of the canonical form.
        fields: the operation's fields, with their types parsed.
        actions: the parameters of each action, by its name.
    """

    spec: OperationSpec
    text: str
    spec_hash: str
    fields: Parameters
    actions: Mapping[str, Parameters]

    @classmethod
    def of(cls, spec: OperationSpec | CheckedSpec) -> CheckedSpec:
        """Check names, types, defaults and shape of a spec, by way of its text.

        Raises:
            OperationExistsError: the name is that of a built-in operation.
            SpecError: anything else; the message says where and what to do.
        """
        return spec if isinstance(spec, CheckedSpec) else cls.read(spec_to_json(spec))

    @classmethod
    def read(cls, text: str) -> CheckedSpec:
        """Read a spec from its text and check it; otherwise as `of`."""
        spec = spec_from_json(text)
        fields, actions = _check(spec)
        return cls(spec, text, spec.spec_hash, fields, actions)

    def with_volatile(self, names: Collection[str]) -> CheckedSpec:
        """Return the same with these fields as the volatile ones, and no others."""
        changed = self.spec.with_volatile(names)
        return self if changed == self.spec else CheckedSpec.of(changed)


def check_spec(spec: OperationSpec) -> OperationSpec:
    """Check names, types, defaults and shape, and return a copy that shares nothing with `spec`.

    Raises:
        OperationExistsError: the name is that of a built-in operation.
        SpecError: anything else; the message says where and what to do.
    """
    return CheckedSpec.of(spec).spec


def _check(spec: OperationSpec) -> tuple[Parameters, dict[str, Parameters]]:
    """Check a spec, and return what its fields and its actions take."""
    if spec.name in BUILTIN_OPERATIONS:
        raise OperationExistsError(f"{spec.name!r} is a built-in operation; choose another name")
    check_name("an operation", spec.name, reserved=_DECISIONS)
    for name in spec.fields:
        check_name("a field", name, reserved=frozenset({"fields"}))
        if spec.two_stage and name in GUIDANCE_FIELDS:
            raise SpecError(
                f"field {name!r} is there already, as the operation is in two stages; leave it out"
            )
    members = _MEMBERS_GUIDED if spec.two_stage else _MEMBERS
    actions = {key: _check_action(key, action, members) for key, action in spec.actions.items()}
    _check_told_apart(spec.actions)
    fields = spec.parameters()
    if spec.fires_on is not None:
        _check_condition(spec.fires_on, spec.given_parameters(), actions)
    return fields, actions


def _check_condition(
    condition: FiringCondition, fields: Parameters, actions: Mapping[str, Parameters]
) -> None:
    """Check that an operation can be fired by itself with the values that it gives, and does what it says then."""
    action = condition.action
    if action is not None and action not in actions:
        known = f" It has {', '.join(actions)}" if actions else " It has no actions"
        raise SpecError(f"fires_on: there is no action {action!r}.{nearest(action, actions)}{known}")
    if action is not None and any(parameter.required for parameter in actions[action]):
        raise SpecError(
            f"fires_on: action {action!r} takes values that must be given; give its parameters defaults"
        )
    try:
        fields.validate(condition.fields)
    except ParameterError as error:
        raise SpecError(f"fires_on: fields: {'; '.join(error.problems)}") from None


def _check_action(key: str, action: ActionDef, members: frozenset[str]) -> Parameters:
    check_name("an action", key, reserved=members | _RECORDED)
    if action.name != key:
        raise SpecError(f"action {key!r} is called {action.name!r} inside; use one name")
    for name in action.params:
        check_name(f"a parameter of {key!r}", name, reserved=frozenset({"pending", "self"}))
    parameters = action.parameters()
    if not action.code.strip():
        raise SpecError("there is no code; write at least 'pending.approve()'", action=key)
    return parameters


def _check_told_apart(actions: Mapping[str, ActionDef]) -> None:
    """Check that each button has its own words, none of them those of the buttons that every request has.

    Raises:
        SpecError: two have the same words, or one is reserved.
    """
    said: dict[str, str] = {}
    for name in actions:
        words = " ".join(name.replace("_", " ").split()).casefold()
        if words in _SAID:
            raise SpecError(
                f"{name!r} is reserved and no name for an action: every request says {words!r}; try {name + '_it'!r}"
            )
        if words in said:
            raise SpecError(
                f"the actions {said[words]!r} and {name!r} would be shown alike, as {words!r}; rename one"
            )
        said[words] = name


def check_name(what: str, name: object, *, reserved: frozenset[str]) -> None:
    """Check that a name can be one.

    Raises:
        SpecError: it is no identifier, a Python keyword, begins with an underscore, is reserved, or can be taken for
            another one that looks the same.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise SpecError(
            f"{_show(name)} is not a name for {what}; use letters, digits and '_', beginning with a letter"
        )
    if len(name) > MAX_NAME:
        raise SpecError(
            f"{_show(name)} is {len(name)} characters long; {MAX_NAME} is the most for the name of {what}"
        )
    if not name.isascii():
        _check_letters(what, name)
    if keyword.iskeyword(name):
        raise SpecError(f"{name!r} is a Python keyword and no name for {what}; try {name + '_'!r}")
    if name.startswith("_"):
        raise SpecError(
            f"{name!r} begins with an underscore, which is for Python itself; use {name.strip('_')!r}"
        )
    if name in reserved:
        raise SpecError(f"{name!r} is reserved and no name for {what}; try {name + '_it'!r}")


def _check_letters(what: str, name: str) -> None:
    """Check that a name is read as it is written, and is taken for no other one.

    Raises:
        SpecError: Python reads it otherwise, a part cannot be seen, or it mixes alphabets that look alike.
    """
    if (plain := unicodedata.normalize("NFKC", name)) != name:  # Python reads names in this form
        raise SpecError(f"{_show(name)} is not a name for {what}: Python reads it as {plain!r}; write it so")
    if printable(name) != name:
        raise SpecError(
            f"{_show(name)} is not a name for {what}: a part of it cannot be seen; leave that out"
        )
    for word in name.split("_"):
        alphabets = sorted({_alphabet(letter) for letter in word} & _ALIKE)
        if len(alphabets) > 1:
            raise SpecError(
                f"{_show(name)} is not a name for {what}: {_show(word)} has {' and '.join(alphabets)} letters, which "
                "look alike; write a word in one alphabet"
            )


def _alphabet(letter: str) -> str:
    return "" if letter in _GREEK_OF_ITS_OWN else unicodedata.name(letter, "").split(" ")[0]


def _show(name: object) -> str:
    return ascii(name)[:60]
