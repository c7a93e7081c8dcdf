"""What a graph says about each commit, in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tract_jupyter.models.commit import CommitOperation, show_tokens
from tract_jupyter.models.priority import Priority
from tract_jupyter.models.text import printable
from tract_jupyter.notebook.excerpts import cut_note, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from tract_jupyter.models.commit import BranchInfo, CommitInfo

_MESSAGE_LENGTH = 72
_KIND_LENGTH = 30
_LABEL_LENGTH = 40
_MOST_LABELS = 6
_CONTENT_LENGTH = 600
_ANNOTATIONS = {
    Priority.PINNED: "pin",
    Priority.IMPORTANT: "mark important",
    Priority.NORMAL: "back to normal",
    Priority.SKIP: "skip",
}


class Mark(StrEnum):
    """The shape of a commit's dot, by what is told apart: a message's priority, or a commit that has no message."""

    PINNED = "pinned"
    IMPORTANT = "important"
    NORMAL = "normal"
    SKIP = "skip"
    CHANGE = "edit or annotation"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Label:
    """A name at a commit: `kind` is `current`, `branch`, `head` (detached), `tag` or `more`."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One commit in words, all of it safe to be shown once it is escaped."""

    short_hash: str
    mark: Mark
    kind: str
    tokens: str
    time: str
    message: str
    labels: tuple[Label, ...]
    hover: str


def make_rows(
    commits: Sequence[CommitInfo],
    branches: Iterable[BranchInfo],
    head: str | None,
    contents: Mapping[str, str],
    roles: Mapping[str, str],
) -> list[Row]:
    """One row for each commit, in the same order."""
    names = _names(branches, head)
    pattern = _time_pattern([info.created_at for info in commits])
    return [
        Row(
            short_hash=info.short_hash,
            mark=_mark(info),
            kind=one_line(_kind(info, roles.get(info.commit_hash, "")), _KIND_LENGTH),
            tokens=show_tokens(info.token_count, info.token_counter),
            time=info.created_at.astimezone().strftime(pattern),
            message=one_line(info.message, _MESSAGE_LENGTH),
            labels=_labels(names.get(info.commit_hash, []), info.tags),
            hover=_hover(info, contents.get(info.commit_hash, "")),
        )
        for info in commits
    ]


def _names(branches: Iterable[BranchInfo], head: str | None) -> dict[str, list[Label]]:
    """The labels of branches, and of HEAD where it is not at the current branch's tip."""
    names: dict[str, list[Label]] = {}
    attached = None
    for branch in sorted(branches, key=lambda branch: (not branch.is_current, branch.name)):
        text = one_line(branch.name, _LABEL_LENGTH)
        label = Label("current", f"HEAD → {text}") if branch.is_current else Label("branch", text)
        attached = branch.commit_hash if branch.is_current else attached
        if branch.commit_hash is not None:
            names.setdefault(branch.commit_hash, []).append(label)
    if head is not None and head != attached:
        names.setdefault(head, []).insert(0, Label("head", "detached HEAD"))
    return names


def _labels(names: list[Label], tags: Sequence[str]) -> tuple[Label, ...]:
    labels = [*names, *(Label("tag", one_line(tag, _LABEL_LENGTH)) for tag in tags[: _MOST_LABELS + 1])]
    more = len(names) + len(tags) - _MOST_LABELS
    return tuple(labels) if more <= 0 else (*labels[:_MOST_LABELS], Label("more", f"{more} more"))


def _mark(info: CommitInfo) -> Mark:
    if info.operation is CommitOperation.MERGE:
        return Mark.MERGE
    return Mark(info.priority.value) if info.operation is CommitOperation.APPEND else Mark.CHANGE


def _kind(info: CommitInfo, role: str) -> str:
    target = (info.edit_target or "")[:8]
    if info.operation is CommitOperation.EDIT:
        return f"edit of {target}"
    if info.operation is CommitOperation.ANNOTATE:
        return f"{_ANNOTATIONS[info.priority]} {target}"
    if info.operation is CommitOperation.MERGE:
        return "merge"
    if info.metadata.get("tool_call_id"):
        failed = "failed " if info.metadata.get("is_error") else ""
        return f"{failed}result of {info.metadata.get('name') or 'a tool'}"
    speaker = role if role and info.content_type == "dialogue" else info.content_type
    called = _called(info.metadata.get("tool_calls"))
    return f"{speaker} calls {called}" if called else speaker


def _called(calls: Any) -> str:
    """The names of the tools; metadata is the user's, and may be anything."""
    given = calls if isinstance(calls, list | tuple) else ()
    return ", ".join(str(call["name"]) for call in given if isinstance(call, dict) and call.get("name"))


def _time_pattern(times: Sequence[datetime]) -> str:
    """As short as tells the times apart: of one day the time, of one year the day too."""
    days = {moment.astimezone().date() for moment in times}
    if len(days) <= 1:
        return "%H:%M:%S"
    return "%m-%d %H:%M" if len({day.year for day in days}) == 1 else "%Y-%m-%d %H:%M"


def _hover(info: CommitInfo, content: str) -> str:
    when = info.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    parts = [info.priority.value] if info.operation is CommitOperation.APPEND else []
    parts += [f"{show_tokens(info.token_count, info.token_counter)} tokens", when]
    lines = [info.commit_hash, " · ".join(parts)]
    if info.tags:
        lines.append(f"tags: {one_line(', '.join(info.tags), _CONTENT_LENGTH)}")
    if info.context_messages:
        total = show_tokens(info.context_tokens, info.token_counter)
        lines.append(f"the context up to here: {info.context_messages:,} messages, {total} tokens")
    if content:
        lines += [
            "",
            printable(content, _CONTENT_LENGTH) + cut_note(len(content), _CONTENT_LENGTH),
        ]
    return "\n".join(lines)
