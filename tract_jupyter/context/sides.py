"""The two branches of a merge or rebase: their positions and their comparison.

The base is the set of common commits, even if there are several nearest common ancestors (after criss-cross merges).
Earlier merges may have joined these commits in different orders. The sides can then disagree about a message without
new changes to it. This is also a conflict.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain, permutations
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.context.ancestry import merge_bases
from tract_jupyter.context.splice import reference
from tract_jupyter.exceptions import BranchMovedError, HistoryError
from tract_jupyter.models import COMPRESSED_FROM, Conflict, ConflictKind, Priority, default_priority
from tract_jupyter.storage import APPEND, EDIT, commit_hash, damaged, from_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.context.timeline import Timeline
    from tract_jupyter.storage import Position, Step


class Heads(NamedTuple):
    """The two branches of a decision: the current one, and the newest commit of the other."""

    branch: str | None
    other: str | None


@dataclass(frozen=True, slots=True)
class Sides:
    """The current branch and another one. Both have commits, and some are common."""

    here: Position
    there: Position
    bases: tuple[str, ...]
    compared: Comparison

    @property
    def names(self) -> tuple[str, str]:
        """The two branches."""
        return self.here.branch or "", self.there.branch or ""

    @property
    def tips(self) -> tuple[str, str]:
        """The newest commit of each."""
        return self.here.commit_hash or "", self.there.commit_hash or ""

    @property
    def is_behind(self) -> bool:
        """True if the other branch has all commits of the current one."""
        return self.tips[0] in self.compared.common

    @property
    def is_ahead(self) -> bool:
        """True if the current branch has all commits of the other one."""
        return self.tips[1] in self.compared.common


def compare_branches(
    repository: Repository,
    name: str,
    doing: str,
    *,
    ours_last: bool = False,
    strict: bool = False,
    expected: Heads | None = None,
) -> Sides:
    """Compare the current branch with the branch `name`."""
    here, there = _here(repository, name, doing), repository.refs.at(name)
    if expected is not None and Heads(here.branch, there.commit_hash) != expected:
        raise BranchMovedError(
            f"cannot {doing}: the decision is for branch {expected.branch!r}, with {name!r} at "
            f"{(expected.other or 'no commit')[:8]}; the current branch is {here.branch!r}, and {name!r} is at "
            f"{(there.commit_hash or 'no commit')[:8]}. Nothing was changed; propose it again"
        )
    if there.commit_hash is None:
        raise HistoryError(f"branch {name!r} has no commits yet: nothing to {doing}")
    with repository.timelines.lock:
        ours, theirs = (
            repository.timelines.at(here.commit_hash),
            repository.timelines.at(there.commit_hash),
        )
        compared = Comparison(ours, theirs, ours_last=ours_last, strict=strict)
        _check_hashes(repository, ours, theirs)
        _check_summaries((here.branch or "", ours), (name, theirs))
        common = [step for step in ours.steps if step.commit_hash in compared.common]
    if not common:
        raise HistoryError(
            f"cannot {doing}: {here.branch!r} and {name!r} have no common commit. Copy single commits with "
            "import_commits()"
        )
    with repository.database.read() as connection:
        bases = merge_bases(connection, repository.rows, common)
    return Sides(here, there, bases, compared)


def _check_hashes(repository: Repository, *sides: Timeline) -> None:
    """Check the messages of one side only. With damaged metadata, a summary would look like another message."""
    own = [
        step.commit_hash
        for timeline, other in permutations(sides)
        for step in timeline.steps
        if step.operation == APPEND and step.commit_hash not in other.place
    ]
    with repository.database.read() as connection:
        entries = repository.rows.among(connection, own)
    for entry in entries:
        if entry.commit_hash != commit_hash(entry, entry.tract_id, entry.parent_hash, (), entry.created_at):
            raise damaged(f"commit {entry.commit_hash[:8]} does not match its hash")


def _here(repository: Repository, name: str, doing: str) -> Position:
    here = repository.refs.position
    if here.branch is not None and here.commit_hash is None:
        raise HistoryError(
            f"branch {here.branch!r} has no commits yet, so none is common with {name!r}; copy the branch with "
            f"reset({name!r})"
        )
    return repository.refs.on_branch(doing)


def _check_summaries(*sides: tuple[str, Timeline]) -> None:
    """Check that the result does not have both a summary and its messages."""
    for (name, timeline), (other_name, other) in permutations(sides):
        for step in timeline.steps:
            if COMPRESSED_FROM not in step.metadata_json or step.commit_hash in other.place:
                continue
            if any(commit in other.place and commit not in timeline.place for commit in _summarized(step)):
                raise HistoryError(
                    f"{name!r} has a summary, {step.commit_hash[:8]}, of messages that {other_name!r} still has, and "
                    "the result would have both. Copy single commits with import_commits(), or a full branch with "
                    "reset()"
                )


def _summarized(step: Step) -> frozenset[str]:
    """Return the commits of a summary. Users can write such metadata, so invalid values are ignored."""
    origin = reference(from_json(step.metadata_json, dict))
    return frozenset() if origin is None else origin[1]


class State(NamedTuple):
    """The state of one message in a history: content, priority, retention."""

    winner: Step
    """The commit with the effective content."""
    priority_source: Step
    """The commit with the effective priority."""

    @property
    def priority(self) -> Priority:
        """The effective priority."""
        priority = self.priority_source.priority
        return Priority(priority) if priority else default_priority(self.priority_source.content_type)

    @property
    def is_skipped(self) -> bool:
        """True if the context omits the message."""
        return self.priority is Priority.SKIP

    def after(self, step: Step) -> State:
        """Return the state after an edit or annotation of the message."""
        return State(
            step if step.operation == EDIT else self.winner, step if step.priority else self.priority_source
        )


@dataclass(frozen=True, slots=True)
class Divergence:
    """A message with different states on the two sides."""

    target: Step
    ours: State
    theirs: State
    in_order: State
    """The state from the order of the joined history alone."""
    wanted: State
    """The state of the result without a decision."""
    conflict: Conflict | None


class _View(NamedTuple):
    """The states of a common message. The bases differ if earlier merges had different orders."""

    target: Step
    ours_base: State
    theirs_base: State
    ours: State
    theirs: State
    in_order: State


class Comparison:
    """A comparison of two histories. Create it under the lock of the timelines; it keeps no reference to them.

    Args:
        ours: the history of the current branch.
        theirs: the history of the other branch.
        ours_last: our new messages come after theirs, as in a rebase. In a merge, their messages come last.
        strict: warnings block.
    """

    def __init__(
        self, ours: Timeline, theirs: Timeline, *, ours_last: bool = False, strict: bool = False
    ) -> None:
        self.common = ours.place.keys() & theirs.place.keys()
        self.ours = [step for step in ours.steps if step.commit_hash not in self.common]
        self.theirs = [step for step in theirs.steps if step.commit_hash not in self.common]
        self._ours_last = ours_last
        self._strict = strict
        self._written = tuple(
            tuple(step.commit_hash for step in new if step.operation == APPEND)
            for new in (self.ours, self.theirs)
        )
        self.findings = [self._finding(view) for view in self._disagreements(ours, theirs)]

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The conflicts in context order."""
        return tuple(finding.conflict for finding in self.findings if finding.conflict is not None)

    def _disagreements(self, ours: Timeline, theirs: Timeline) -> Iterator[_View]:
        changed = {step.edit_target for step in chain(ours.steps, theirs.steps) if step.edit_target}
        messages = [ours.steps[ours.place[name]] for name in changed if name in self.common]
        messages.sort(key=lambda step: ours.place[step.commit_hash])
        bases = [
            _states(messages, (step for step in side.steps if step.commit_hash in self.common))
            for side in (ours, theirs)
        ]
        our_states, their_states = _states(messages, ours.steps), _states(messages, theirs.steps)
        first, last = (their_states, self.ours) if self._ours_last else (our_states, self.theirs)
        ordered = _states(messages, last, first)
        for message in messages:
            states = (side[message.commit_hash] for side in (*bases, our_states, their_states, ordered))
            view = _View(message, *states)
            if not _agree(view.ours, view.theirs) or not _agree(view.ours, view.in_order):
                yield view

    def _finding(self, view: _View) -> Divergence:
        wanted = State(
            self._wanted_content(view) or view.in_order.winner, self._wanted_priority(view.ours, view.theirs)
        )
        kind = self._kind(view, wanted)
        conflict = None if kind is None else self._conflict(kind, view)
        return Divergence(view.target, view.ours, view.theirs, view.in_order, wanted, conflict)

    def _wanted_content(self, view: _View) -> Step | None:
        """Return the content that only one side changed. None if both changed it, or if the bases differ."""
        ours, theirs = view.ours.winner, view.theirs.winner
        if same_content(ours, theirs):
            return ours if self._ours_last else theirs
        ours_edits, theirs_edits = self._edits(view)
        if ours_edits == theirs_edits or not same_content(view.ours_base.winner, view.theirs_base.winner):
            return None
        return ours if ours_edits else theirs

    def _wanted_priority(self, ours: State, theirs: State) -> Step:
        """Return the commit of the changed priority. If both sides changed it, the last side's commit."""
        our_source, their_source = ours.priority_source, theirs.priority_source
        ours_new, theirs_new = self._is_new(our_source), self._is_new(their_source)
        if ours_new == theirs_new:
            return our_source if self._ours_last else their_source
        return our_source if ours_new else their_source

    def _kind(self, view: _View, wanted: State) -> ConflictKind | None:
        ours_edits, theirs_edits = self._edits(view)
        if view.ours.is_skipped != view.theirs.is_skipped and not view.ours_base.is_skipped:
            if theirs_edits if view.ours.is_skipped else ours_edits:
                return ConflictKind.SKIP_VS_EDIT
        elif self._wanted_content(view) is None:
            return ConflictKind.BOTH_EDIT
        if ours_edits == theirs_edits or wanted.is_skipped:
            return None
        return ConflictKind.EDIT_PLUS_APPEND if self._written[ours_edits] else None

    def _conflict(self, kind: ConflictKind, view: _View) -> Conflict:
        is_warning = kind is ConflictKind.EDIT_PLUS_APPEND
        return Conflict(
            kind,
            view.target.commit_hash,
            _content(view.ours_base.winner),
            _visible_content(view.ours),
            _visible_content(view.theirs),
            _deciding(view.ours),
            _deciding(view.theirs),
            is_blocking=self._strict or not is_warning,
            appended=self._written[self._edits(view)[0]] if is_warning else (),
        )

    def _edits(self, view: _View) -> tuple[bool, bool]:
        """Return True for each side that changed the content of the message."""
        ours, theirs = view.ours.winner, view.theirs.winner
        return (
            self._is_new(ours) and not same_content(ours, view.ours_base.winner),
            self._is_new(theirs) and not same_content(theirs, view.theirs_base.winner),
        )

    def _is_new(self, step: Step) -> bool:
        return step.commit_hash not in self.common


def _states(
    messages: Iterable[Step], steps: Iterable[Step], before: dict[str, State] | None = None
) -> dict[str, State]:
    """Return the state of each message after `steps`. `before` are the states before them."""
    states = dict(before) if before else {m.commit_hash: State(m, m) for m in messages}
    if not states:
        return states
    for step in steps:
        if step.edit_target in states:
            states[step.edit_target] = states[step.edit_target].after(step)
    return states


def same_content(one: Step, other: Step) -> bool:
    """Return True if two commits compile to the same content. Metadata may contain tool calls."""
    return (one.content_hash, one.metadata_json) == (other.content_hash, other.metadata_json)


def _agree(one: State, other: State) -> bool:
    return same_content(one.winner, other.winner) and one.priority is other.priority


def _content(step: Step) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(step.payload)
    return content


def _visible_content(side: State) -> dict[str, Any] | None:
    return None if side.is_skipped else _content(side.winner)


def _deciding(side: State) -> str:
    return side.priority_source.commit_hash if side.is_skipped else side.winner.commit_hash
