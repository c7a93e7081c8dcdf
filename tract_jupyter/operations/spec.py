"""A dynamic operation as data, from a cell of the user or from a model's JSON."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from tract_jupyter.exceptions import ContentError, SpecError, nearest
from tract_jupyter.models import Trigger, brief_repr, canonical_json, digest, read_as
from tract_jupyter.models.schema import REQUIRED, Parameter, Parameters, parse_type

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_SPEC_BYTES = 1_000_000

Isolation = Literal["kernel", "sandbox"]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class ActionDef:
    """An action of an operation.

    Attributes:
        name: becomes a method.
        description: one line, for panels and tool schemas.
        params: the type name of each parameter, such as `{"strict": "bool"}`.
        code: the body of `def name(pending, ...)`, unchanged.
        required: the parameters without a default. The default of all others is in `defaults`, otherwise None.
        defaults: default values by parameter name.
        isolation: `kernel` runs the code as ordinary Python without restrictions. `sandbox` runs it in the sandbox,
            with access only to `pending.fields`, `pending.approve()` and `pending.reject(reason)`.
    """

    name: str
    description: str
    params: dict[str, str]
    code: str
    required: list[str] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)
    isolation: Isolation = "kernel"

    @property
    def is_sandboxed(self) -> bool:
        """True if the code runs in the sandbox."""
        return self.isolation == "sandbox"

    def parameters(self) -> Parameters:
        """Return the parameters with parsed types.

        Raises:
            SpecError: a type name is unknown, a default is invalid, or `required` has a name that is not a parameter.
        """
        for name in (*self.required, *self.defaults):
            if name not in self.params:
                raise SpecError(
                    f"{name!r} is not a parameter.{nearest(name, self.params)} Add it to params",
                    action=self.name,
                )
        for name in self.required:
            if name in self.defaults:
                raise SpecError(
                    f"{name!r} is required and has a default; it can be only one of them", action=self.name
                )
        return Parameters(self.name, [self._parameter(name, kind) for name, kind in self.params.items()])

    def _parameter(self, name: str, kind: str) -> Parameter:
        default = REQUIRED if name in self.required else copy.deepcopy(self.defaults.get(name))
        try:
            return Parameter(name, parse_type(kind), default)
        except SpecError as error:
            raise SpecError(f"parameter {name!r}: {error.message}", action=self.name) from None


RunHook = Literal["before_main_llm", "after_main_llm"]
_HOOKS_TEXT = " or ".join(f"hook: {name}" for name in get_args(RunHook))
_HOOK_TEXTS = {
    "before_main_llm": "before the model's call of each run",
    "after_main_llm": "after the model's call of each run",
}


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class FiringCondition(Trigger):
    """The condition for automatic firing: a `Trigger`, or a hook of each run.

    Attributes:
        fields: the field values. At a hook, texts in them may be templates.
        hook: before (`before_main_llm`) or after (`after_main_llm`) the main model call of each run. It excludes the
            parts of a trigger.
        action: at a hook, the action to run if no handler decides and the user is not asked.
        required: at a hook, True if the run fails without an approval of the firing.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    hook: RunHook | None = None
    action: str | None = None
    required: bool = False

    def __post_init__(self) -> None:
        """Check the combination of the parts. The check of the operation covers their types."""
        if self.hook is None:
            if self.action or self.required:
                name = "action" if self.action else "required"
                raise SpecError(f"fires_on: {name} needs a hook of a run; add {_HOOKS_TEXT}, or leave it out")
            try:
                super().__post_init__()
            except ContentError as error:
                raise SpecError(f"fires_on: {error}") from None
            return
        for part in fields(Trigger):
            if getattr(self, part.name) is not None:
                raise SpecError(
                    f"fires_on: {part.name} does not apply to a hook, which each run fires; leave it out"
                )

    def __str__(self) -> str:
        values = ", ".join(f"{name}={brief_repr(value)}" for name, value in self.fields.items())
        if self.hook is None:
            when = super().__str__()
        else:
            action = f", with the action {self.action!r}" if self.action else ""
            required = "; the run fails without approval" if self.required else ""
            when = f"{_HOOK_TEXTS[self.hook]}{action}{required}"
        return f"{when}; with {values}" if values else when

    @classmethod
    def from_dict(cls, data: Any) -> FiringCondition:
        """Parse the dict form."""
        if isinstance(data, Mapping):
            data = {name: value for name, value in data.items() if value is not None}
        condition: FiringCondition = read_as(cls, data, SpecError, "fires_on")
        return condition


GUIDANCE_FIELDS = ("guidance", "guidance_source")
"""The additional fields of an operation in two stages."""
_GUIDANCE = (
    Parameter(
        "guidance",
        parse_type("str | None"),
        None,
        "The guidance for this firing. If omitted, a model writes it.",
    ),
    Parameter(
        "guidance_source",
        parse_type("Literal['llm', 'user', 'user+llm'] | None"),
        None,
        "The author of the guidance; null if there is none.",
    ),
)


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class OperationSpec:
    """An operation: typed fields, and actions that decide about them.

    Attributes:
        name: the name of the operation and of its hook event. Its tool is `fire_<name>`.
        description: the purpose of the operation.
        fields: `{"urls": {"type": "list[str]", "description": "...", "default": None}}`. A field without a value gets
            its default, or None. With `"required": True`, a value is necessary. `"volatile": True` means that
            standing approvals and recorded decisions ignore the value. In a model's spec it is a request, which the
            user may accept.
        actions: by name.
        version: the author's version text, for display.
        unhandled: the default for a firing without a handler's decision: `approve`, or `ask` the user.
        fires_on: the condition for automatic firing, as a policy of the tract or in runs. None for never. See
            `FiringCondition`.
        two_stage: True if a model writes guidance for each firing first. The guidance can be edited before an action
            follows it. The pendings have the additional fields `guidance` and `guidance_source`.
    """

    name: str
    description: str
    fields: dict[str, dict[str, Any]]
    actions: dict[str, ActionDef]
    version: str = "1"
    unhandled: Literal["approve", "ask"] = "approve"
    fires_on: FiringCondition | None = None
    two_stage: bool = False

    @property
    def fires_in_runs(self) -> bool:
        """True if the operation takes part in each run."""
        return self.fires_on is not None and self.fires_on.hook is not None

    def parameters(self) -> Parameters:
        """Return the fields with parsed types, including the guidance fields of a two-stage operation."""
        parameters = [_field(name, definition) for name, definition in self.fields.items()]
        return Parameters(self.name, [*parameters, *(_GUIDANCE if self.two_stage else ())])

    def given_parameters(self) -> Parameters:
        """Return the fields that a caller may pass on firing. `guidance_source` is not one of them."""
        return self.parameters().without({GUIDANCE_FIELDS[1]})

    @property
    def volatile(self) -> frozenset[str]:
        """The fields that standing approvals and recorded decisions ignore."""
        return frozenset(name for name, definition in self.fields.items() if definition.get("volatile"))

    def with_volatile(self, names: Collection[str]) -> OperationSpec:
        """Return a spec with exactly these fields volatile."""
        fields = {
            name: {
                **{part: value for part, value in definition.items() if part != "volatile"},
                **({"volatile": True} if name in names else {}),
            }
            for name, definition in self.fields.items()
        }
        return replace(self, fields=fields)

    @property
    def is_sandboxed(self) -> bool:
        """True if the operation has code and all of it runs in the sandbox."""
        return bool(self.actions) and all(action.is_sandboxed for action in self.actions.values())

    @property
    def spec_hash(self) -> str:
        """sha256 of the canonical form. Specs with the same meaning have the same hash."""
        return digest(spec_to_dict(self))


def changes(old: OperationSpec, new: OperationSpec) -> list[str]:
    """Return the changes between two versions, each in a few words. Empty if both have the same meaning."""
    before, after = spec_to_dict(old), spec_to_dict(new)
    differences = [
        f"{part} is {brief_repr(after.get(part))}, was {brief_repr(before.get(part))}"
        for part in ("description", "version", "unhandled", "fires_on", "two_stage")
        if before.get(part) != after.get(part)
    ]
    for kind, name in (("field", "fields"), ("action", "actions")):
        old_parts, new_parts = before[name], after[name]
        for key in [*old_parts, *(key for key in new_parts if key not in old_parts)]:
            if key not in new_parts or key not in old_parts:
                differences.append(f"{kind} {key!r} is {'new' if key in new_parts else 'gone'}")
            elif old_parts[key] != new_parts[key]:
                parts = [
                    part
                    for part in {**old_parts[key], **new_parts[key]}
                    if old_parts[key].get(part) != new_parts[key].get(part)
                ]
                differences.append(f"{kind} {key!r} has a different {' and '.join(parts)}")
    return differences


def _field(name: str, definition: dict[str, Any]) -> Parameter:
    required = bool(definition.get("required"))
    if required and "default" in definition:
        raise SpecError(f"field {name!r} is required and has a default; it can be only one of them")
    default = REQUIRED if required else copy.deepcopy(definition.get("default"))
    try:
        return Parameter(
            name, parse_type(definition.get("type", "Any")), default, definition.get("description", "")
        )
    except SpecError as error:
        raise SpecError(f"field {name!r}: {error.message}") from None


def spec_to_dict(spec: OperationSpec) -> dict[str, Any]:
    """Return a spec as a JSON-compatible dict, which `spec_from_dict` parses. It shares nothing with the spec."""
    data = asdict(spec)
    if spec.fires_on is None:
        del data["fires_on"]  # a spec without it keeps its approved hash
    elif isinstance(spec.fires_on, FiringCondition):
        data["fires_on"] = spec.fires_on.to_dict()
    if spec.two_stage is False:
        del data["two_stage"]  # for the same reason
    actions = data["actions"] if isinstance(data["actions"], dict) else {}
    for action in actions.values():
        if isinstance(action, dict) and action.get("isolation") == "kernel":
            del action["isolation"]  # the default; a spec without it keeps its approved hash
    return data


def spec_to_json(spec: OperationSpec) -> str:
    """Return the text of a spec for signing and storage. Fields and parameters keep the author's order."""
    if not isinstance(spec, OperationSpec):
        raise SpecError(
            f"an OperationSpec is required, not {type(spec).__name__}; spec_from_dict makes one from a dict"
        )
    data = spec_to_dict(spec)
    try:
        canonical_json(data)
    except ContentError as error:
        raise SpecError(f"{spec.name!r} cannot be stored: {error}") from None
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    size = len(text.encode())
    if size > MAX_SPEC_BYTES:
        raise SpecError(
            f"{spec.name!r} is {size:,} bytes long; the maximum is {MAX_SPEC_BYTES:,}. Pass large data as fields"
        )
    return text


def spec_from_json(text: str) -> OperationSpec:
    """Parse the text from `spec_to_json`."""
    try:
        data = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise SpecError(f"invalid JSON: {error}") from None
    return spec_from_dict(data)


def spec_from_dict(data: Mapping[str, Any]) -> OperationSpec:
    """Parse the dict form, either stored or from a model.

    An action's `name` is optional. The default is its key.

    Raises:
        SpecError: parts are missing, unknown or of the wrong shape.
    """
    if not isinstance(data, Mapping):
        raise SpecError(f"an operation must be a dict, not {type(data).__name__}")
    parts = {
        "description": "",
        "fields": {},
        "actions": {},
        **_without_none(data, ("fields", "actions", "fires_on")),
    }
    if type(parts.get("version")) is int:
        parts["version"] = str(parts["version"])
    if isinstance(parts["actions"], dict):
        parts["actions"] = {name: _filled(name, action) for name, action in parts["actions"].items()}
    condition = parts.pop("fires_on", None)
    spec: OperationSpec = read_as(OperationSpec, parts, SpecError)
    read_as(dict[str, _FieldDefinition], spec.fields, SpecError, "fields")
    return spec if condition is None else replace(spec, fires_on=FiringCondition.from_dict(condition))


@with_config(ConfigDict(extra="forbid"))
class _FieldDefinition(TypedDict, total=False):
    type: Any
    description: str
    default: Any
    required: bool
    volatile: bool


def _filled(name: str, action: object) -> object:
    if not isinstance(action, dict):
        return action
    parts = _without_none(action, ("params", "required", "defaults"))
    return {"name": name, "description": "", "params": {}, **parts}


def _without_none(data: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None or name not in names}
