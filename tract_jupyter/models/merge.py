"""Conflicts, resolutions and results of merges, rebases and imports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tract_jupyter.exceptions import HistoryError
from tract_jupyter.models.content import text_of
from tract_jupyter.models.text import counted, cut

if TYPE_CHECKING:
    from pydantic import BaseModel

_EXCERPT = 60


class ConflictKind(StrEnum):
    """A kind of conflict about a message that both sides have.

    `both_edit`: both edited it differently. `skip_vs_edit`: one skipped it, the other edited it. `edit_plus_append`:
    one edited it while the other appended after the old text; a warning.
    """

    BOTH_EDIT = "both_edit"
    SKIP_VS_EDIT = "skip_vs_edit"
    EDIT_PLUS_APPEND = "edit_plus_append"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A message on both sides with conflicting changes."""

    kind: ConflictKind
    target: str
    """The hash of the commit that made the message."""
    base: dict[str, Any]
    """Its content in the common history."""
    ours: dict[str, Any] | None
    """Its content on the current branch; None if the branch skips it."""
    theirs: dict[str, Any] | None
    ours_commit: str
    """The commit with this content: the original, an edit or an annotation."""
    theirs_commit: str
    is_blocking: bool = True
    """True if the operation writes nothing before a decision."""
    appended: tuple[str, ...] = ()
    """For `edit_plus_append`: the messages that the other side wrote after the old text."""

    @property
    def key(self) -> str:
        """A key that stays the same while the two sides do not change."""
        return f"{self.kind}:{self.target[:12]}"

    @property
    def base_text(self) -> str:
        """The text of `base`."""
        return text_of(self.base)

    @property
    def ours_text(self) -> str | None:
        """The text of `ours`."""
        return None if self.ours is None else text_of(self.ours)

    @property
    def theirs_text(self) -> str | None:
        """The text of `theirs`."""
        return None if self.theirs is None else text_of(self.theirs)

    def __str__(self) -> str:
        return f"{self.key}: ours {_excerpt(self.ours_text)}, theirs {_excerpt(self.theirs_text)}"


class Action(StrEnum):
    """The decision about a conflict."""

    OURS = "ours"
    THEIRS = "theirs"
    REPLACE = "replace"
    SKIP = "skip"
    ABORT = "abort"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise HistoryError(
            f"{value!r} is not a decision for a conflict; use 'ours', 'theirs', 'skip', 'abort' or "
            "Resolution.text('...')"
        )


@dataclass(frozen=True, slots=True)
class Resolution:
    """A decision about a conflict: `Resolution("ours")`, `Resolution.text("the text of both")`, ...

    `ours` and `theirs` take one side's version, `skip` leaves the message out, `abort` cancels the whole operation.
    """

    action: Action | str
    replacement: str | dict[str, Any] | BaseModel | None = None
    """With `replace`: the message's new text, or its whole content."""
    reason: str = ""

    def __post_init__(self) -> None:
        """Check that `replace`, and only `replace`, has a replacement."""
        object.__setattr__(self, "action", Action(self.action))
        if (self.action is Action.REPLACE) != (self.replacement is not None):
            raise HistoryError(
                "a replacement and 'replace' must be used together; use Resolution.text('...')"
            )

    @classmethod
    def text(cls, text: str, reason: str = "") -> Resolution:
        """Return a decision that replaces the message's text."""
        return cls(Action.REPLACE, text, reason)

    @classmethod
    def content(cls, content: dict[str, Any] | BaseModel, reason: str = "") -> Resolution:
        """Return a decision that replaces the message's content: with a model, or with a dict with a `content_type`."""
        return cls(Action.REPLACE, content, reason)


class MergeType(StrEnum):
    """The way in which two histories were joined.

    `fast_forward`: the branch moved forward. `clean`: a merge commit without conflicts. `conflict`: at least one
    conflict needed a decision, or in a preview needs one.
    """

    FAST_FORWARD = "fast_forward"
    CLEAN = "clean"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The result of a merge, or its preview."""

    merge_type: MergeType
    source_branch: str
    """The merged branch."""
    target_branch: str
    """The branch that receives the merge."""
    base: str
    """The nearest common ancestor; the newest if there are several."""
    bases: tuple[str, ...]
    incoming: tuple[str, ...]
    """The commits from the source, in the order of the context."""
    conflicts: tuple[Conflict, ...] = ()
    """The conflicts, including warnings."""
    resolutions: dict[str, Resolution] = field(default_factory=dict)
    """The decisions, by the conflict's key."""
    merge_commit: str | None = None
    commits: tuple[str, ...] = ()
    """The written commits: the merge, then the commits that apply the decisions."""
    head: str | None = None
    """The branch's tip after the merge; None in a preview."""

    @property
    def blocking(self) -> tuple[Conflict, ...]:
        """The conflicts that need a decision."""
        return tuple(conflict for conflict in self.conflicts if conflict.is_blocking)

    def __str__(self) -> str:
        verb = "would merge" if self.head is None else "merged"
        incoming = counted(len(self.incoming), "commit")
        blocking = f", {counted(len(self.blocking), 'conflict')}" if self.blocking else ""
        return f"{self.target_branch}: {verb} {self.source_branch} ({incoming}){blocking}"


class RebaseType(StrEnum):
    """The outcome of a rebase: copied commits, a branch moved forward, or nothing to do."""

    REBASED = "rebased"
    FAST_FORWARD = "fast_forward"
    UP_TO_DATE = "up_to_date"


@dataclass(frozen=True, slots=True)
class RebaseResult:
    """The result of a rebase."""

    rebase_type: RebaseType
    branch: str
    target_branch: str
    """The branch whose tip the commits now follow."""
    base: str
    """The nearest common ancestor before."""
    old_head: str
    new_head: str
    copies: dict[str, str] = field(default_factory=dict)
    """The copy of each own commit, oldest first. The originals stay addressable."""
    commits: tuple[str, ...] = ()
    """The written commits: the copies, then the commits that apply the decisions."""
    conflicts: tuple[Conflict, ...] = ()
    resolutions: dict[str, Resolution] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.rebase_type is RebaseType.UP_TO_DATE:
            return f"{self.branch}: is based on {self.target_branch} already"
        copied = f" with {counted(len(self.copies), 'copied commit')}" if self.copies else ""
        return f"{self.branch}: is based on {self.target_branch} now{copied}"


@dataclass(frozen=True, slots=True)
class ImportIssue:
    """An edit or annotation in an import without its target here."""

    commit: str
    operation: str
    """`edit` or `annotate`."""
    target: str
    content: dict[str, Any]
    target_content: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import."""

    copies: dict[str, str]
    """The copy of each imported commit, in order."""
    skipped: tuple[str, ...] = ()
    """The commits that the resolver left out."""

    @property
    def commits(self) -> tuple[str, ...]:
        """The written commits."""
        return tuple(self.copies.values())

    def __str__(self) -> str:
        skipped = f", left out {counted(len(self.skipped), 'commit')}" if self.skipped else ""
        return f"imported {counted(len(self.copies), 'commit')}{skipped}"


Resolver: TypeAlias = (
    Callable[[Conflict], Resolution | str | None] | Mapping[str, Resolution | str] | Literal["ours", "theirs"]
)
"""Who decides the conflicts of a merge or rebase."""
ImportResolver: TypeAlias = Callable[[ImportIssue], str | None] | str
"""Who decides what becomes of an edit or annotation whose target is not here."""


def _excerpt(text: str | None) -> str:
    if text is None:
        return "leaves it out"
    return repr(cut(text, _EXCERPT))
