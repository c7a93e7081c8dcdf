"""Descriptions of a pending: for a model, for a form, for a user."""

from __future__ import annotations

import inspect
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from tract_jupyter.models import cut_with_size, one_line, printable
from tract_jupyter.models.schema import Parameters, type_text
from tract_jupyter.review.decision import NO_ACTION
from tract_jupyter.review.process import is_on_other_host, process_text, runs_elsewhere
from tract_jupyter.review.request import ReviewAction, ValueRow, ValueTable, run_label

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.models.schema import Parameter
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.storage import StoredDecision


F = TypeVar("F", bound="Callable[..., Any]")


_MARK = "_tract_offer"


def gated(method: F) -> F:
    """Mark a method as an action that goes through the gate by itself."""
    setattr(method, _MARK, "decides")
    return method


def reading(method: F) -> F:
    """Mark a method as a read-only action. Its calls are not stored, and it has no button."""
    setattr(method, _MARK, "reads")
    return method


def offered(cls: type) -> frozenset[str]:
    """Return the names of all actions of a class."""
    return frozenset([name for name in dir(cls) if hasattr(getattr(cls, name), _MARK)])


def decides(cls: type, name: str) -> bool:
    """Return True if an action decides or changes something, and False if it only reads."""
    return bool(getattr(getattr(cls, name), _MARK) == "decides")


PERSONAL = frozenset({"scope", "uses", "pattern", "whom", "volatile"})
"""The parameters of `approve` that only a user may set. They approve more than the current request."""

APPROVE_ONLY = "Approve without running"
"""The label of the approve button if another button runs something."""
OWN_WORDS: Final = ("edit", "session", "always")
"""The words that a prompt adds to the actions."""
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})
_NO_WORDS: Final[Mapping[str, str]] = MappingProxyType({})
_MAX_TEXT = 500
_MAX_LIST = 5
_MAX_DICT = 10


def action_parameters(cls: type, name: str) -> Parameters:
    """Return the parameters of an action of a pending class."""
    known = _KNOWN.setdefault(cls, {})
    if name not in known:
        known[name] = Parameters.of(getattr(cls, name), skip=1)
    return known[name]


def parameters_for_models(cls: type, name: str) -> Parameters:
    """Return the parameters of an action without those that only a user may set, such as the scope of an approval."""
    every = action_parameters(cls, name)
    return every.without(PERSONAL) if name == "approve" else every


_KNOWN: Final[WeakKeyDictionary[type, dict[str, Parameters]]] = WeakKeyDictionary()
"""The parameters of actions, by class and action. Each registration makes a class, which must not outlive its tract."""


def state(pending: Pending) -> dict[str, Any]:
    """Return identity, status, fields and outcome, without truncation."""
    return {
        "operation": pending.operation,
        "pending_id": pending.pending_id,
        "status": pending.status.value,
        "fields": dict(pending.fields),
        "triggered_by": pending.triggered_by,
        "actor": pending.actor,
        "rejection_reason": pending.rejection_reason,
        "error": pending.error,
        "result": pending.result,
        "created_at": pending.created_at.isoformat(),
        "executed_at": pending.executed_at.isoformat() if pending.executed_at else None,
        "available_actions": _offered(pending),
    }


def to_dict(pending: Pending) -> dict[str, Any]:
    """Return the data that a model needs to decide. Long texts, lists and dicts are marked as truncated."""
    return {
        "operation": pending.operation,
        "pending_id": pending.pending_id,
        "status": pending.status.value,
        "fields": {name: _cut(value) for name, value in pending.fields.items()},
        "available_actions": _offered(pending),
    }


def to_tools(pending: Pending) -> list[dict[str, Any]]:
    """Return one function schema for each action, in OpenAI's format."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": _summary(pending.owner_of_action(name), name),
                "parameters": _schema(pending, name),
            },
        }
        for name in _offered(pending)
    ]


def _schema(pending: Pending, name: str) -> dict[str, Any]:
    """Return the JSON Schema of an action's arguments. Edits use the schema of the fields, with all fields optional."""
    schema = parameters_for_models(pending.owner_of_action(name), name).json_schema
    fields = pending.editable() if name == "approve" and "edits" in schema["properties"] else None
    if fields is None:
        return schema
    within = fields.json_schema
    described = {"description": schema["properties"]["edits"].get("description", "")}
    # the fields already contain the current values
    properties = {
        field: {k: v for k, v in about.items() if k != "default"}
        for field, about in within["properties"].items()
    }
    edits = {**described, "type": "object", "properties": properties, "additionalProperties": False}
    defined = {"$defs": {**schema.get("$defs", {}), **within["$defs"]}} if "$defs" in within else {}
    return {**schema, "properties": {**schema["properties"], "edits": edits}, **defined}


def describe_api(pending: Pending) -> str:
    """Describe the fields with types and meanings, and the actions with signatures, in Markdown."""
    lines = [f"# {pending.operation}", "", _purpose(type(pending)), "", "## Fields", ""]
    lines += [
        f"- `{row.name}: {row.type}` = `{row.value}`{f': {row.description}' if row.description else ''}"
        for table in field_tables(pending)
        for row in table.rows
    ]
    lines += ["", "## Actions", ""]
    for name in _offered(pending):
        signature = parameters_for_models(pending.owner_of_action(name), name).signature_text()
        lines.append(f"- `{name}{signature}`: {_summary(pending.owner_of_action(name), name)}")
    return "\n".join(lines)


def to_text(pending: Pending) -> str:
    """Format a pending for a terminal."""
    lines = [
        f"{pending.operation}  [{pending.status}]  {pending.pending_id}",
        _purpose(type(pending)),
    ]
    lines += [f"  {row.name}: {row.value}" for table in field_tables(pending) for row in table.rows]
    if pending.rejection_reason:
        lines.append(f"  rejected because: {pending.rejection_reason}")
    if pending.error:
        lines.append(f"  failed with: {pending.error}")
    lines.append(f"  actions: {', '.join(_offered(pending))}")
    return printable("\n".join(line for line in lines if line))


_SECTIONS: Final = re.compile(r"^(?:Args|Attributes|Raises|Returns|Yields):$", re.MULTILINE)


def _purpose(cls: type) -> str:
    """Return the docstring without its sections, which describe the constructor."""
    return _SECTIONS.split(inspect.cleandoc(cls.__doc__ or ""), maxsplit=1)[0].strip()


def unfinished_text(unfinished: StoredDecision | None) -> str:
    """Describe an approval that was not completely carried out."""
    if unfinished is None:
        return ""
    when = unfinished.decided_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    text = f"{unfinished.decided_by} chose {unfinished.action!r} on {when} ({unfinished.channel})"
    if runs_elsewhere(unfinished.claimed_by):
        return f"{text}; {process_text(unfinished.claimed_by)} runs it now. Until it ends, you can only reject it here."
    if is_on_other_host(unfinished.claimed_by):
        return (
            f"{text}; {process_text(unfinished.claimed_by)} on another host may run it now, so you can only reject it "
            "here. To run it once more, check its effects, reject it, and ask again."
        )
    if unfinished.started_at is None:
        return f"{text}; it was not run. Choose it again to run it now."
    return (
        f"{text}; {process_text(unfinished.claimed_by)} began to run it, and its progress is unknown. Check its "
        "effects before you choose it again, which runs it once more."
    )


def field_tables(pending: Pending) -> tuple[ValueTable, ...]:
    """Return the fields as one table, with the declared types and meanings if they exist."""
    about = getattr(pending, "about", None)
    if isinstance(about, dict):  # a built-in pending describes its fields
        known = {name: pending.fields[name] for name in about if name in pending.fields}
        rows = value_rows({**known, **pending.fields}, {}, about)  # the order of `about`, not of the store
    else:
        declared = {p.name: p for p in getattr(pending, "field_parameters", ())}
        rows = value_rows(pending.fields, declared, trusted=getattr(pending, "trusts_defaults", True))
    return (ValueTable("Fields", rows),) if rows else ()


def rest_tables(pending: Pending) -> tuple[ValueTable, ...]:
    """Return the fields that the fingerprint covers but the pending's other tables omit."""
    if pending.in_view is None:
        return ()
    about = getattr(pending, "about", _NO_WORDS)
    names = [
        *(name for name in about if name in pending.fields),
        *sorted(pending.fields.keys() - about.keys()),
    ]
    rest = {name: _as_stored(pending.fields[name]) for name in names if name not in pending.in_view}
    present = {name: value for name, value in rest.items() if value not in _NOTHING}
    empty = [name for name in rest if name not in present]
    decided = {name: value for name, value in present.items() if name not in pending.machinery}
    needed = {name: value for name, value in present.items() if name in pending.machinery}
    empty_row = ValueRow("empty", "", ", ".join(empty), "Fields without a value.")
    tables = (
        ValueTable("Details", (*value_rows(decided, {}, about), *([empty_row] if empty else []))),
        ValueTable("Technical fields", value_rows(needed, {}, about), "nothing"),
    )
    return tuple(table for table in tables if table.rows)


def _as_stored(value: Any) -> Any:
    """Return a field's value with sorted keys, as after a restart."""
    if isinstance(value, dict):
        return {key: _as_stored(value[key]) for key in sorted(value, key=str)}
    return [_as_stored(item) for item in value] if isinstance(value, list) else value


def value_rows(
    values: Mapping[str, Any],
    declared: Mapping[str, Parameter],
    about: Mapping[str, str] = _NO_WORDS,
    *,
    trusted: bool = True,
) -> tuple[ValueRow, ...]:
    """Return one row for each value, with its declared type and description.

    With `trusted`, the user or this package vouches for the declared defaults. `about` has the meanings of undeclared
    values.
    """
    return tuple(
        ValueRow.of(
            name,
            type_text(declared[name].annotation) if name in declared else type(value).__name__,
            value,
            declared[name].description if name in declared else about.get(name, ""),
            is_default=name in declared and _is_default(declared[name], value, trusted=trusted),
        )
        for name, value in values.items()
    )


_WORD: Final = re.compile(r"[\w-]{1,24}", re.ASCII)


def _is_default(parameter: Parameter, value: Any, *, trusted: bool) -> bool:
    """Return True if a plain value equals its default. An empty value always counts.

    A number, a boolean or a word counts only if the defaults are trusted.
    """
    if parameter.required or (type(value), value) != (type(parameter.default), parameter.default):
        return False
    if value in _NOTHING:
        return True
    is_word = isinstance(value, str) and _WORD.fullmatch(value) is not None
    return trusted and (is_word or isinstance(value, bool | int | float))


def review_actions(pending: Pending) -> tuple[ReviewAction, ...]:
    """Return the buttons: the operation's own actions first, then approve and reject."""
    by_action, subject = pending.runs_nothing("approve"), pending.subject
    offered = [name for name in _offered(pending) if name not in _BASIC | pending.without_button]
    actions = [name for name in offered if decides(pending.owner_of_action(name), name)]
    ordered = sorted(actions, key=lambda name: name in pending.preparing)
    doing = [name for name in ordered if name not in pending.preparing]
    buttons = [
        ReviewAction(
            name,
            pending.labels.get(name)
            or (name.replace("_", " ").capitalize() if subject is None else run_label(name)),
            action_parameters(pending.owner_of_action(name), name),
            style="approve" if name == pending.leading or (by_action and doing == [name]) else "neutral",
            description=_summary(pending.owner_of_action(name), name),
        )
        for name in ordered
    ]
    for name in ("approve", "reject"):
        if pending.status.is_open:
            # edits and scopes need no inputs: a panel has forms for them
            allowed = {"volatile"} if getattr(pending, "requests", ()) else frozenset()
            parameters = action_parameters(pending.owner_of_action(name), name).without(
                (PERSONAL - allowed) | {"edits"}
            )
            is_idle = by_action and name == "approve"
            style: Any = "neutral" if name == "approve" and (by_action or pending.leading) else name
            runs_tool = name == "approve" and subject is not None and subject.kind == "tool"
            run_text = _tool_label(pending, subject.name) if subject and runs_tool else pending.labels[name]
            label = APPROVE_ONLY if is_idle else run_text
            buttons.append(ReviewAction(name, label, parameters, style=style))
    return tuple(buttons)


def _tool_label(pending: Pending, tool: str) -> str:
    """Return the label of the button that calls a tool: the title in words, or else "Run" and the tool's name."""
    return run_label(tool) if pending.title.endswith(tool) else one_line(pending.title, _LONGEST_LABEL)


_LONGEST_LABEL = 40
_BASIC = frozenset({"approve", "reject", "pass_through", "get_state"})


def _offered(pending: Pending) -> list[str]:
    return sorted(pending.offered_actions)


def _summary(cls: type, name: str) -> str:
    return ((getattr(cls, name).__doc__ or "").strip().splitlines() or [""])[0]


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return cut_with_size(value, _MAX_TEXT)
    if isinstance(value, list) and len(value) > _MAX_LIST:
        return {"_truncated": True, "_total": len(value), "items": [_cut(item) for item in value[:3]]}
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        items = {key: _cut(item) for key, item in list(value.items())[:_MAX_DICT]}
        return items if len(value) <= _MAX_DICT else {**items, "_truncated": True, "_total": len(value)}
    return value


def outcome_text(pending: Pending) -> str:
    """Describe the part of the last decision that did not run; empty if all of it ran."""
    decision = pending.decision
    return NO_ACTION if decision is not None and pending.runs_nothing(decision.action) else ""
