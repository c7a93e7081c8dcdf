"""The request that a person is shown: pure data, the same for a panel, a prompt and a saved notebook.

Its texts are printable from the beginning, so that no way of showing them can hide or turn around a part. Only code
stays as it is, for the places of its findings; whoever shows it makes it printable.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.analysis import Finding, RiskLevel, Span
from tract_jupyter.exceptions import SpecError
from tract_jupyter.models import (
    canonical_json,
    cut,
    distinct,
    distinct_repr,
    printable,
    safe_repr,
    show_value,
)
from tract_jupyter.models.schema import REQUIRED, Parameter, Parameters, parse_type, type_text
from tract_jupyter.review.decision import Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
    return {
        **{name: getattr(request, name) for name in _TEXTS},
        "actions": [_action_to_dict(action) for action in request.actions],
        "code": [_code_to_dict(block) for block in request.code],
        "tables": [asdict(table) for table in request.tables],
        "choices": [asdict(choice) for choice in request.choices],
        "fields": None if request.fields is None else _parameters_to_list(request.fields),
        "subject": None if request.subject is None else _subject_to_dict(request.subject),
    }


def request_from_dict(data: Mapping[str, Any]) -> ReviewRequest:
    """Read what `request_to_dict` made. Its texts are shown, never run.

    Raises:
        SpecError, KeyError, TypeError, ValueError: it is something else.
    """
    _check(data, _REQUEST, "request")
    return ReviewRequest(
        **{name: str(data[name]) for name in _TEXTS},
        actions=tuple(_action_from_dict(action) for action in data["actions"]),
        code=tuple(_code_from_dict(block) for block in data["code"]),
        tables=tuple(
            ValueTable(**{**table, "rows": tuple(ValueRow(**row) for row in table["rows"])})
            for table in data["tables"]
        ),
        choices=tuple(TextChoice(**choice) for choice in data["choices"]),
        fields=None if data["fields"] is None else _parameters_from_list("fields", data["fields"]),
        subject=None if data["subject"] is None else Subject(**data["subject"]),
    )


_ANYTHING = object()
_TEXT, _NUMBER = (str,), (int,)
_PARAMETER = {"name": _TEXT, "type": _TEXT, "description": _TEXT, "default": _ANYTHING}
_SPAN = {"line": _NUMBER, "column": _NUMBER, "end_line": _NUMBER, "end_column": _NUMBER}
_FINDING = {
    **dict.fromkeys(("code", "category", "level", "text", "reason", "remedy"), _TEXT),
    "span": _SPAN,
    "confidence": (int, float),
    "paths": [_TEXT],
}
_BLOCK = {
    **dict.fromkeys(("title", "code", "header", "description", "language", "analysis_note", "binds"), _TEXT),
    "first_line": _NUMBER,
    "marked": (int, type(None)),
    "findings": [_FINDING],
}
_ACTION = {**dict.fromkeys(("name", "label", "style", "description"), _TEXT), "parameters": [_PARAMETER]}
_TABLE = {
    "title": _TEXT,
    "summary": _TEXT,
    "binds": _TEXT,
    "heads": [_TEXT],
    "rows": [dict.fromkeys(("name", "type", "value", "description", "hidden"), _TEXT)],
}
_CHOICE = {
    **dict.fromkeys(("name", "title"), _TEXT),
    **dict.fromkeys(("ours", "theirs", "decided"), (str, type(None))),
    "sides": [_TEXT],
}
_SUBJECT = {
    **dict.fromkeys(("kind", "name", "definition_hash", "actor", "rule"), _TEXT),
    "values": {},
    "ignored": {},
}
_REQUEST = {
    **dict.fromkeys(("pending_id", "title", "summary", "why", "fingerprint", "note"), _TEXT),
    "actions": [_ACTION],
    "code": [_BLOCK],
    "tables": [_TABLE],
    "choices": [_CHOICE],
    "fields": [_PARAMETER],
    "subject": _SUBJECT,
}
"""The shape of a request: a tuple lists types, an empty dict stands for any dict."""
_MAY_BE_NONE = ("request.fields", "request.subject")


def _check(data: Any, shape: Any, place: str) -> None:
    """Check the shape of data that may come from anybody.

    Raises:
        TypeError: it has another one; the message says where.
    """
    if shape is _ANYTHING or (data is None and place in _MAY_BE_NONE):
        return
    kind = shape if isinstance(shape, tuple) else type(shape)
    if not isinstance(data, kind) or isinstance(data, bool):
        raise TypeError(f"{place} is of type {type(data).__name__}")
    if isinstance(shape, list):
        for part in data:
            _check(part, shape[0], place)
    elif isinstance(shape, dict):
        for name in data.keys() & shape.keys():
            _check(data[name], shape[name], f"{place}.{name}")


_CODE = (
    "title",
    "code",
    "header",
    "description",
    "language",
    "first_line",
    "marked",
    "analysis_note",
    "binds",
)
_TEXTS = ("pending_id", "title", "summary", "why", "fingerprint", "note")


def _subject_to_dict(subject: Subject) -> dict[str, Any]:
    return {**subject._asdict(), "ignored": dict(subject.ignored)}


def _action_to_dict(action: ReviewAction) -> dict[str, Any]:
    texts = {name: getattr(action, name) for name in ("name", "label", "style", "description")}
    return {**texts, "parameters": _parameters_to_list(action.parameters)}


def _action_from_dict(data: Mapping[str, Any]) -> ReviewAction:
    parameters = _parameters_from_list(data["name"], data["parameters"])
    return ReviewAction(
        data["name"], data["label"], parameters, style=data["style"], description=data["description"]
    )


def _parameters_to_list(parameters: Parameters) -> list[dict[str, Any]]:
    return [
        {
            "name": p.name,
            "type": type_text(p.annotation),
            "description": p.description,
            **({} if p.required else {"default": p.default}),
        }
        for p in parameters
    ]


def _parameters_from_list(subject: str, data: list[Mapping[str, Any]]) -> Parameters:
    return Parameters(
        subject,
        [Parameter(p["name"], _type(p["type"]), p.get("default", REQUIRED), p["description"]) for p in data],
    )


def _type(text: str) -> Any:
    """Return the type of that name; `Any` for one that only the asking process knows, which checks its values."""
    try:
        return parse_type(text)
    except SpecError:
        return Any


def _code_to_dict(block: CodeBlock) -> dict[str, Any]:
    plain = {name: getattr(block, name) for name in _CODE}
    findings = [{**asdict(finding), "level": finding.level.value} for finding in block.findings]
    return {**plain, "findings": findings}


def _code_from_dict(data: Mapping[str, Any]) -> CodeBlock:
    findings = tuple(
        Finding(
            **{
                **finding,
                "level": RiskLevel(finding["level"]),
                "span": Span(**finding["span"]),
                "paths": tuple(finding["paths"]),
            }
        )
        for finding in data["findings"]
    )
    return CodeBlock(**{**data, "findings": findings})
