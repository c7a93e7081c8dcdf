"""What a person is shown when asked: pure data, the same for a panel, a prompt and a saved notebook.

Its texts are printable from the beginning, so that no way of showing them can hide or turn around a part. Only code
stays as it is, for the places of its findings; whoever shows it makes it printable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.text import printable, safe_repr
from tract_jupyter.review.display import MOST_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.models.parameters import Parameters
    from tract_jupyter.review.fingerprint import Subject


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Code with what the analysis says about its lines.

    `header` is the line before the first, if any. Lines count from `first_line`. `marked` is the line that asked, if
    that is what the block is about. `analysis_note` says what the findings alone do not: that there are none, or which
    rules did not look. `binds` says whether an approval is about the code, or whether it only explains.
    """

    title: str
    code: str
    findings: tuple[Finding, ...] = ()
    header: str = ""
    description: str = ""
    language: Literal["python", "diff"] = "python"
    first_line: int = 1
    marked: int | None = None
    analysis_note: str = ""
    binds: Literal["code", "nothing"] = "code"

    def __post_init__(self) -> None:
        _make_printable(self, "title", "description", "analysis_note")


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A named value with its type and meaning; `of` makes one that shows all of a value."""

    name: str
    type: str
    value: str
    description: str = ""
    is_cut: bool = False

    @classmethod
    def of(cls, name: str, type_: str, value: Any, description: str = "") -> ValueRow:
        """A row with the whole value; with its beginning, if no page could show it."""
        if isinstance(value, str | bytes | list) and len(value) > MOST_CHARACTERS:
            return cls(name, type_, show_value(value), description, is_cut=True)
        try:
            canonical_json(value)
            return cls(name, type_, repr(value), description)
        except Exception:  # noqa: BLE001 # its repr may raise anything; and what no fingerprint can hold is not whole
            return cls(name, type_, safe_repr(value), description, is_cut=True)

    def __post_init__(self) -> None:
        _make_printable(self, "name", "type", "value", "description")


@dataclass(frozen=True, slots=True)
class ValueTable:
    """Rows under a heading.

    `binds` says what of it an approval is about: the names and values, the rows with all that they say (they are a
    definition, which somebody proposes), or nothing, where they only explain.
    """

    title: str
    rows: tuple[ValueRow, ...]
    binds: Literal["values", "rows", "nothing"] = "values"

    def __post_init__(self) -> None:
        _make_printable(self, "title")


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
    """One showing of a pending.

    Attributes:
        fingerprint: of what would run if it were approved now.
        why: why a person is asked.
        fields: the values that may be changed before approving, with the present ones as defaults; None if none may.
        subject: what a standing approval could be about; None if it is asked about each time.
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

    def __post_init__(self) -> None:
        _make_printable(self, "title", "summary", "why", "note")

    def action(self, name: str) -> ReviewAction | None:
        """The offered action of that name."""
        return next((action for action in self.actions if action.name == name), None)


def _make_printable(what: object, *names: str) -> None:
    for name in names:
        object.__setattr__(what, name, printable(getattr(what, name)))


def worst_finding(blocks: Iterable[CodeBlock]) -> RiskLevel | None:
    """The worst level among the findings, None if there are none."""
    return max((finding.level for block in blocks for finding in block.findings), default=None)


def findings_text(blocks: Iterable[CodeBlock]) -> str:
    """How many findings there are and how bad the worst is, in a sentence; empty if there are none."""
    blocks = tuple(blocks)
    count, worst = sum(len(block.findings) for block in blocks), worst_finding(blocks)
    if worst is None:
        return ""
    if count == 1:
        return f"Its code has one finding, of level {worst.value}."
    return f"Its code has {count} findings, the worst of level {worst.value}."


def show_value(value: Any, limit: int = 300) -> str:
    """A value as a short text; a huge one is cut, with its size said."""
    size = len(value) if isinstance(value, str | bytes | list | dict) else 0
    if isinstance(value, str | bytes | list) and size > limit:
        value = value[:limit]
    text = safe_repr(value)
    if len(text) <= limit and size <= limit:
        return text
    return f"{text[:limit]}… ({size:,} {'characters' if isinstance(value, str | bytes) else 'entries'})"
