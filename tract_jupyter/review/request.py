"""The request that a person is shown: pure data, the same for a panel, a prompt and a saved notebook.

Its texts are printable from the beginning, so that no way of showing them can hide or turn around a part. Only code
stays as it is, for the places of its findings; whoever shows it makes it printable.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NotRequired

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


MOST_CHARACTERS = 1_000_000
"""Characters of one request that a page can show; of what is longer, nothing can be approved after looking at it."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Code with what the analysis says about its lines.

    `header` is the line before the first, if any. Lines count from `first_line`. `marked` is the line that asked, if
    that is what the block is about. `analysis_note` says what the findings alone do not: that there are none, or which
    rules did not look. `binds` says whether an approval is about the code, or whether it only explains. A `text` is no
    code: it is the value that has the name which the title is. `is_typed` is True if the user typed the code in a cell:
    an approval does not need it on display again.
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
        """Return True if this is a value, which need not be shown again, and may be changed in its place."""
        if self.binds != "code" or self.code != value:
            return False
        return self.language != "text" or self.title.casefold() == name


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A named value with its type and meaning; `of` makes one that shows all of a value.

    `hidden` names the characters that are marks in its texts. `is_default` says that it is a plain value which nobody
    gave: it is folded, and an approval does not need it on display.
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
        """Return a row with the whole value; with its beginning, if no page could show it."""
        if isinstance(value, str | bytes | list) and len(value) > MOST_CHARACTERS:
            return cls(name, type_, show_value(value), description, is_cut=True)
        try:
            canonical_json(value)
            return cls(name, type_, distinct_repr(value), description, is_default=is_default)
        except Exception:  # noqa: BLE001 # its repr may raise anything; and what no fingerprint can hold is not whole
            return cls(name, type_, safe_repr(value), description, is_cut=True)

    def __post_init__(self) -> None:
        parts = ("name", "type", "value", "description")
        notes = {part: distinct(getattr(self, part))[1] for part in parts}
        told = "; ".join(f"{part}: {note}" for part, note in notes.items() if note)
        object.__setattr__(self, "hidden", printable(self.hidden or told))
        _make_printable(self, *parts)


@dataclass(frozen=True, slots=True)
class ValueTable:
    """A table of rows under a heading.

    `binds` says what of it an approval is about: the names and values, the rows with all that they say (they are a
    definition, which somebody proposes), or nothing, where they only explain. `summary` says in a sentence what such
    rows say in detail. `heads` are the headings of names, values and descriptions, where they are something else.
    `is_typed` is that of `CodeBlock`.
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
    """Two texts for one place. An approval takes one of them, or another text.

    Attributes:
        name: of the value that says which; it is one of the request's `fields`, where they may be changed: a word of
            `CHOICES`, or the other text.
        title: what place it is.
        ours: the text of one side; None where that leaves the place out.
        theirs: the text of the other side.
        sides: what the two are called.
        decided: what is decided about it: a word of `CHOICES`, the other text, or None.
        is_needed: True if nothing can be approved before it is decided.
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
        """True if it is to be decided before anything can be approved."""
        return self.is_needed and self.decided is None

    @property
    def said(self) -> str:
        """What is decided, in words; of another text, without it."""
        words = {
            "ours": f"takes {self.sides[0]}",
            "theirs": f"takes {self.sides[1]}",
            "skip": "leaves it out",
        }
        if self.decided is None:
            return "not decided" if self.is_needed else "no decision needed"
        return words.get(self.decided, "takes another text")


CHOICES = ("ours", "theirs", "skip")
"""The words that decide a `TextChoice`; every other text is the text itself."""


@dataclass(frozen=True, slots=True)
class ReviewAction:
    """A button with the inputs that go with it."""

    name: str
    label: str
    parameters: Parameters
    style: Literal["approve", "reject", "neutral"] = "neutral"
    description: str = ""

    def __post_init__(self) -> None:
        _make_printable(self, "label", "description")


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """A showing of a pending: all that a person sees of it.

    Attributes:
        fingerprint: of what would run if it were approved now.
        why: why a person is asked.
        fields: the values that may be changed before approving, with the present ones as defaults; None if none may.
        subject: what a standing approval could be about; None if it is asked about each time.
        choices: what is decided by changing the values of the same names in `fields`.
        note: what came of the last answer, where the pending is still open.
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

    def __post_init__(self) -> None:
        _make_printable(self, "title", "summary", "why", "note")

    def action(self, name: str) -> ReviewAction | None:
        """Return the offered action of that name."""
        return next((action for action in self.actions if action.name == name), None)

    @property
    def main_action(self) -> ReviewAction | None:
        """The action that is offered first: the one that runs something, if there is only one; else approving."""
        first = next((action for action in self.actions if action.style == "approve"), None)
        return first or self.action("approve")


def _make_printable(what: object, *names: str) -> None:
    for name in names:
        object.__setattr__(what, name, printable(getattr(what, name)))


_LONGEST_NAME = 32


def run_label(name: str) -> str:
    """Return the label of what runs something by that name."""
    return f"Run {cut(name, _LONGEST_NAME)}"


def how_to_decide(pending_id: str) -> str:
    """Return the command that shows a request and decides it without a panel."""
    return f"%tract decide {pending_id[:8]}"


def worst_finding(blocks: Iterable[CodeBlock]) -> RiskLevel | None:
    """Return the worst level among the findings, None if there are none."""
    return max((finding.level for block in blocks for finding in block.findings), default=None)


def findings_text(blocks: Iterable[CodeBlock]) -> str:
    """Summarize in a sentence how many findings there are and how bad the worst is; empty if there are none."""
    blocks = tuple(blocks)
    count, worst = sum(len(block.findings) for block in blocks), worst_finding(blocks)
    if worst is None:
        return ""
    if count == 1:
        return f"Its code has one finding, of level {worst.value}."
    return f"Its code has {count} findings, the worst of level {worst.value}."


def request_to_dict(request: ReviewRequest) -> dict[str, Any]:
    """Return everything that was shown, as data that JSON can hold."""
    return {one.name: _plain(getattr(request, one.name)) for one in fields(request)}


def request_from_dict(data: Mapping[str, Any]) -> ReviewRequest:
    """Read what `request_to_dict` made. Its texts are shown, never run.

    Raises:
        SpecError, ValueError: it is something else.
    """
    given = read_as(_REQUEST, data, ContentError, "request")
    actions = [{**one, "parameters": _parameters(one["name"], one["parameters"])} for one in given["actions"]]
    values, subject = given["fields"], given["subject"]
    return ReviewRequest(**{
        **given,
        "actions": tuple(ReviewAction(**one) for one in actions),
        "fields": None if values is None else _parameters("fields", values),
        "subject": None if subject is None else Subject(**subject),
    })  # fmt: skip


def _record(name: str, texts: tuple[str, ...], **others: Any) -> Any:
    """Return the shape of a stored record. It has these texts and other parts, and no more."""
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
)  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, CodeBlock):  # that the user typed it holds in that process alone
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.name != "is_typed"}
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Subject):
        return {**value._asdict(), "ignored": dict(value.ignored)}
    if isinstance(value, Parameters):
        return [_plain_parameter(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _plain_parameter(one: Parameter) -> dict[str, Any]:
    default = {} if one.required else {"default": one.default}
    return {"name": one.name, "type": type_text(one.annotation), "description": one.description, **default}


def _parameters(subject: str, stored: list[dict[str, Any]]) -> Parameters:
    found = [
        Parameter(p["name"], _type(p["type"]), p.get("default", REQUIRED), p["description"]) for p in stored
    ]
    return Parameters(subject, found)


def _type(text: str) -> Any:
    """Return the type of that name; `Any` for one that only the asking process knows, which checks its values."""
    try:
        return parse_type(text)
    except SpecError:
        return Any
