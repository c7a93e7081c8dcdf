"""A request as pure data. Panels, prompts and saved notebooks show the same request.

All texts are printable from the start, so no renderer can hide or reorder a part. Code is the exception: it stays
unchanged because findings refer to positions in it. The renderer makes code printable.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from tract_jupyter.analysis import Finding  # noqa: TC001 # pydantic reads it
from tract_jupyter.exceptions import ContentError, SpecError
from tract_jupyter.models import (
    canonical_json,
    cut,
    distinct,
    distinct_repr,
    printable,
    read_as,
    safe_repr,
    show_value,
)
from tract_jupyter.models.schema import REQUIRED, Parameter, Parameters, parse_type, type_text
from tract_jupyter.review.decision import Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.analysis import RiskLevel
    from tract_jupyter.rehearsal import Effects


MOST_CHARACTERS = 1_000_000
"""The maximum number of characters of a request on a page. A user cannot approve a longer request from its display."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Code with the analysis findings for its lines.

    `header` is an optional line above the code. Line numbers start at `first_line`. `marked` is the line that asked, if
    the block shows a call site. `analysis_note` adds to the findings: no findings, or the rules that did not run.
    `binds` says if an approval covers the code or if the code only explains. A `text` block is not code. It is a value
    whose name is the title. `is_typed` is True if the user typed the code in a cell. An approval does not require such
    code on display again.
    """

    title: str
    code: str
    findings: tuple[Finding, ...] = ()
    header: str = ""
    description: str = ""
    language: Literal["python", "diff", "text"] = "python"
    first_line: int = 1
    marked: int | None = None
    analysis_note: str = ""
    binds: Literal["code", "nothing"] = "code"
    is_typed: bool = False

    def __post_init__(self) -> None:
        _make_printable(self, "title", "description", "analysis_note")

    def is_value(self, name: str, value: object) -> bool:
        """Return True if the block is this value. The value is then not shown again, and can be edited in the block."""
        if self.binds != "code" or self.code != value:
            return False
        return self.language != "text" or self.title.casefold() == name


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A named value with its type and meaning. `of` creates a row with the full value.

    `hidden` names the characters that appear as marks in the texts. `is_default` marks a plain value that comes from a
    default. The page folds such a value, and an approval does not require it on display.
    """

    name: str
    type: str
    value: str
    description: str = ""
    is_cut: bool = False
    hidden: str = ""
    is_default: bool = False

    @classmethod
    def of(
        cls, name: str, type_: str, value: Any, description: str = "", *, is_default: bool = False
    ) -> ValueRow:
        """Return a row with the full value, or with its beginning if the value is too long for a page."""
        if isinstance(value, str | bytes | list) and len(value) > MOST_CHARACTERS:
            return cls(name, type_, show_value(value), description, is_cut=True)
        try:
            canonical_json(value)
            return cls(name, type_, distinct_repr(value), description, is_default=is_default)
        except Exception:  # noqa: BLE001 # repr may raise anything; a value without a fingerprint is not complete
            return cls(name, type_, safe_repr(value), description, is_cut=True)

    def __post_init__(self) -> None:
        parts = ("name", "type", "value", "description")
        notes = {part: distinct(getattr(self, part))[1] for part in parts}
        hidden = "; ".join(f"{part}: {note}" for part, note in notes.items() if note)
        object.__setattr__(self, "hidden", printable(self.hidden or hidden))
        _make_printable(self, *parts)


@dataclass(frozen=True, slots=True)
class ValueTable:
    """A table of rows under a heading.

    `binds` says which part an approval covers: `values` for names and values, `rows` for complete rows (a proposed
    definition), or `nothing` for explanations. `summary` describes the rows in one sentence. `heads` overrides the
    headings of the name, value and description columns. `is_typed` means the same as in `CodeBlock`.
    """

    title: str
    rows: tuple[ValueRow, ...]
    binds: Literal["values", "rows", "nothing"] = "values"
    summary: str = ""
    heads: tuple[str, str, str] = ("Name", "Value", "Meaning")
    is_typed: bool = False

    def __post_init__(self) -> None:
        _make_printable(self, "title", "summary")
        object.__setattr__(self, "heads", tuple(map(printable, self.heads)))


@dataclass(frozen=True, slots=True)
class TextChoice:
    """Two texts for one place. An approval takes one of them or a third text.

    Attributes:
        name: the name of the value with the choice. If values can be edited, it is one of the request's `fields`. The
            value is a word of `CHOICES` or the third text.
        ours: the text of our side. None if our side omits the place.
        theirs: the text of the other side.
        sides: the names of both sides.
        decided: the current choice: a word of `CHOICES`, the third text, or None.
        is_needed: True if an approval requires a choice here.
    """

    name: str
    title: str
    ours: str | None
    theirs: str | None
    sides: tuple[str, str] = ("ours", "theirs")
    decided: str | None = None
    is_needed: bool = True

    def __post_init__(self) -> None:
        _make_printable(self, "title")
        object.__setattr__(self, "sides", tuple(map(printable, self.sides)))

    @property
    def is_open(self) -> bool:
        """True if a choice is required before an approval."""
        return self.is_needed and self.decided is None

    @property
    def said(self) -> str:
        """The current choice in words. It does not include a third text."""
        words = {
            "ours": f"takes {self.sides[0]}",
            "theirs": f"takes {self.sides[1]}",
            "skip": "leaves it out",
        }
        if self.decided is None:
            return "not decided" if self.is_needed else "no decision needed"
        return words.get(self.decided, "takes another text")


CHOICES = ("ours", "theirs", "skip")
"""The words that decide a `TextChoice`. Any other text is the third text."""


@dataclass(frozen=True, slots=True)
class ReviewAction:
    """A button and its inputs."""

    name: str
    label: str
    parameters: Parameters
    style: Literal["approve", "reject", "neutral"] = "neutral"
    description: str = ""

    def __post_init__(self) -> None:
        _make_printable(self, "label", "description")


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """The display of a pending: everything that the user sees.

    Attributes:
        fingerprint: the fingerprint of the operation that an approval would run now.
        why: the reason for asking the user.
        fields: the values that the user may edit before approving, with the current values as defaults. None if the
            user cannot edit any.
        subject: the subject of a possible standing approval. None if each call needs a question.
        choices: the text choices. The user decides them by editing the values with the same names in `fields`.
        note: the result of the last answer, if the pending is still open.
        effects: the effects of the code on a contained copy of the kernel. None if it was not rehearsed.
    """

    pending_id: str
    title: str
    summary: str
    why: str
    fingerprint: str
    actions: tuple[ReviewAction, ...]
    code: tuple[CodeBlock, ...] = ()
    tables: tuple[ValueTable, ...] = ()
    fields: Parameters | None = None
    subject: Subject | None = None
    note: str = ""
    choices: tuple[TextChoice, ...] = ()
    effects: Effects | None = None

    def __post_init__(self) -> None:
        _make_printable(self, "title", "summary", "why", "note")

    def action(self, name: str) -> ReviewAction | None:
        """Return the offered action of that name."""
        return next((action for action in self.actions if action.name == name), None)

    @property
    def main_action(self) -> ReviewAction | None:
        """The action that is offered first: the only action that runs something, or else `approve`."""
        first = next((action for action in self.actions if action.style == "approve"), None)
        return first or self.action("approve")


KEEP: Final = "keep"
"""The action that keeps the effects of a rehearsal. The code does not run in the kernel."""


def keeps_effects(request: ReviewRequest, action: str) -> bool:
    """Return True if an action keeps the effects of a rehearsal. It needs the effects on display, not the code."""
    return action == KEEP and request.effects is not None


def _make_printable(target: object, *names: str) -> None:
    for name in names:
        object.__setattr__(target, name, printable(getattr(target, name)))


_LONGEST_NAME = 32


def run_label(name: str) -> str:
    """Return the label of a button that runs something with this name."""
    return f"Run {cut(name, _LONGEST_NAME)}"


def how_to_decide(pending_id: str) -> str:
    """Return the command that shows and decides a request without a panel."""
    return f"%tract decide {pending_id[:8]}"


def worst_finding(blocks: Iterable[CodeBlock]) -> RiskLevel | None:
    """Return the worst risk level of all findings. None without findings."""
    return max((finding.level for block in blocks for finding in block.findings), default=None)


def findings_text(blocks: Iterable[CodeBlock]) -> str:
    """Summarize the number of findings and the worst level in one sentence. Empty without findings."""
    blocks = tuple(blocks)
    count, worst = sum(len(block.findings) for block in blocks), worst_finding(blocks)
    if worst is None:
        return ""
    if count == 1:
        return f"Its code has one finding, of level {worst.value}."
    return f"Its code has {count} findings, the worst of level {worst.value}."


def request_to_dict(request: ReviewRequest) -> dict[str, Any]:
    """Return the full request as JSON-compatible data."""
    data = {
        field.name: _plain(getattr(request, field.name))
        for field in fields(request)
        if field.name != "effects"
    }
    return data if request.effects is None else {**data, "effects": request.effects.to_data()}


def request_from_dict(data: Mapping[str, Any]) -> ReviewRequest:
    """Restore a request from the output of `request_to_dict`. Nothing runs the restored texts.

    Raises:
        SpecError, RehearsalError, ValueError: the data is not a stored request.
    """
    record = read_as(_REQUEST, data, ContentError, "request")
    actions = [
        {**action, "parameters": _parameters(action["name"], action["parameters"])}
        for action in record["actions"]
    ]
    values, subject = record["fields"], record["subject"]
    return ReviewRequest(**{
        **record,
        "actions": tuple(ReviewAction(**action) for action in actions),
        "fields": None if values is None else _parameters("fields", values),
        "subject": None if subject is None else Subject(**subject),
        "effects": _effects(record["effects"]) if "effects" in record else None,
    })  # fmt: skip


def _effects(data: dict[str, Any]) -> Effects:
    from tract_jupyter.rehearsal import effects_from_data  # most requests have none

    return effects_from_data(data)


def _record(name: str, texts: tuple[str, ...], **others: Any) -> Any:
    """Return the type of a stored record with exactly these text fields and other fields."""
    shape: Any = TypedDict(name, {**dict.fromkeys(texts, str), **others})  # type: ignore[misc] # the keys are data
    return with_config(ConfigDict(extra="forbid"))(shape)


_PARAMETER = _record("Parameter", ("name", "type", "description"), default=NotRequired[Any])
_ACTION = _record("Action", ("name", "label", "style", "description"), parameters=list[_PARAMETER])  # type: ignore[valid-type] # of data
_SUBJECT = _record(
    "Subject", ("kind", "name", "definition_hash", "actor", "rule"), values=dict[str, Any], ignored=dict[str, Any]
)  # fmt: skip
_REQUEST = _record(
    "Request", ("pending_id", "title", "summary", "why", "fingerprint", "note"),
    code=tuple[CodeBlock, ...], tables=tuple[ValueTable, ...], choices=tuple[TextChoice, ...],
    actions=list[_ACTION],  # type: ignore[valid-type] # of data
    fields=list[_PARAMETER] | None, subject=_SUBJECT | None,  # type: ignore[valid-type] # of data
    effects=NotRequired[dict[str, Any]],
)  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, CodeBlock):  # is_typed is valid in the asking process only
        return {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if field.name != "is_typed"
        }
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Subject):
        return {**value._asdict(), "ignored": dict(value.ignored)}
    if isinstance(value, Parameters):
        return [_plain_parameter(parameter) for parameter in value]
    if isinstance(value, Enum):
        return value.value
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _plain_parameter(parameter: Parameter) -> dict[str, Any]:
    default = {} if parameter.required else {"default": parameter.default}
    return {
        "name": parameter.name,
        "type": type_text(parameter.annotation),
        "description": parameter.description,
        **default,
    }


def _parameters(subject: str, stored: list[dict[str, Any]]) -> Parameters:
    parameters = [
        Parameter(p["name"], _type(p["type"]), p.get("default", REQUIRED), p["description"]) for p in stored
    ]
    return Parameters(subject, parameters)


def _type(text: str) -> Any:
    """Return the type with this name.

    Return `Any` for a type that only the asking process knows. That process checks the values.
    """
    try:
        return parse_type(text)
    except SpecError:
        return Any
