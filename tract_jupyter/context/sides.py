"""The two branches of a merge or rebase: their positions and their comparison.

What both sides have is the base. With several nearest common ancestors (after merges crosswise) it is still one set of
commits; where the two sides disagree although neither has anything new about a message, the orders of earlier merges
disagree, and that is a conflict too, never an accident of the order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain, permutations
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.context.ancestry import merge_bases
from tract_jupyter.exceptions import BranchMovedError, HistoryError
from tract_jupyter.models import COMPRESSED_FROM, Conflict, ConflictKind, Priority, default_priority
from tract_jupyter.storage import APPEND, EDIT, from_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.context.refs import Refs
    from tract_jupyter.context.timeline import Timeline, Timelines
    from tract_jupyter.storage import CommitRows, Database, Position, Step


class Heads(NamedTuple):
    """The two branches of a decision: the current one, and the newest commit of the other."""

    branch: str | None
    other: str | None


@dataclass(frozen=True, slots=True)
class Sides:
    """The current branch and another one, both with commits and with a common beginning."""

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
        """True if the other branch has everything of the current one."""
        return self.tips[0] in self.compared.common

    @property
    def is_ahead(self) -> bool:
        """True if the current branch has everything of the other one."""
        return self.tips[1] in self.compared.common


class SideBySide:
    """Looks at the current branch and another one."""

    def __init__(self, database: Database, rows: CommitRows, refs: Refs, timelines: Timelines) -> None:
        self._database = database
        self._rows = rows
        self._refs = refs
        self._timelines = timelines

    def look(
        self,
        name: str,
        doing: str,
        *,
        ours_last: bool = False,
        strict: bool = False,
        expected: Heads | None = None,
    ) -> Sides:
        """Compare the current branch with the branch `name`.

        Args:
            name: the other branch.
            doing: what for, for errors.
            ours_last: the own changes come after the others'.
            strict: warnings block too.
            expected: what was decided about, if it was decided before. The current branch may have gone on since.

        Raises:
            BranchMovedError: another branch is the current one, or the other one is somewhere else.
            DetachedHeadError: there is no current branch.
            BranchNotFoundError: there is no such branch.
            HistoryError: a branch has no commits, they share none, or one has a summary of messages that the other has.
        """
        here, there = self._here(name, doing), self._refs.at(name)
        if expected is not None and Heads(here.branch, there.commit_hash) != expected:
            raise BranchMovedError(
                f"cannot {doing}: that was decided on {expected.branch!r}, with {name!r} at "
                f"{(expected.other or 'no commit')[:8]}; the current branch is {here.branch!r}, and {name!r} is at "
                f"{(there.commit_hash or 'no commit')[:8]}. Nothing was changed; ask for it again"
            )
        if there.commit_hash is None:
            raise HistoryError(f"branch {name!r} has no commits yet: nothing to {doing}")
        with self._timelines.lock:
            ours, theirs = self._timelines.at(here.commit_hash), self._timelines.at(there.commit_hash)
            compared = Comparison(ours, theirs, ours_last=ours_last, strict=strict)
            _check_summaries((here.branch or "", ours), (name, theirs))
            common = [step for step in ours.steps if step.commit_hash in compared.common]
        if not common:
            raise HistoryError(
                f"{here.branch!r} and {name!r} have no commit in common: nothing says how they belong together. Bring "
                "over what you need with import_commits()"
            )
        with self._database.read() as connection:
            bases = merge_bases(connection, self._rows, common)
        return Sides(here, there, bases, compared)

    def _here(self, name: str, doing: str) -> Position:
        here = self._refs.position
        if here.branch is not None and here.commit_hash is None:
            raise HistoryError(
                f"branch {here.branch!r} has no commits yet, so it has none in common with {name!r}; reset({name!r}) "
                "makes it the same"
            )
        return self._refs.on_branch(doing)


def _check_summaries(*sides: tuple[str, Timeline]) -> None:
    """Check that the result does not have both a summary and its messages."""
    for (name, one), (other_name, other) in permutations(sides):
        for step in one.steps:
            if COMPRESSED_FROM not in step.metadata_json or step.commit_hash in other.place:
                continue
            if any(commit in other.place and commit not in one.place for commit in _stands_for(step)):
                raise HistoryError(
                    f"{name!r} has a summary, {step.commit_hash[:8]}, of messages that {other_name!r} still has: "
                    "joined, both would show. Bring over single commits with import_commits(), or take a whole branch "
                    "with reset()"
                )


def _stands_for(step: Step) -> list[str]:
    """Return the commits that a summary names; anybody may write metadata, so it may name none."""
    origin = from_json(step.metadata_json, dict).get(COMPRESSED_FROM)
    named = origin.get("commits") if isinstance(origin, dict) else None
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


class State(NamedTuple):
    """The state of one message in a history: content, priority, retention."""

    winner: Step
    """The commit whose content counts."""
    given: Step
    """The commit whose priority counts."""

    @property
    def priority(self) -> Priority:
        """The priority in effect."""
        own = self.given.priority
        return Priority(own) if own else default_priority(self.given.content_type)

    @property
    def is_skipped(self) -> bool:
        """True if the message is left out."""
        return self.priority is Priority.SKIP

    def after(self, step: Step) -> State:
        """Return the state after an edit or annotation of the message."""
        return State(step if step.operation == EDIT else self.winner, step if step.priority else self.given)


@dataclass(frozen=True, slots=True)
class Divergence:
    """A message that the two sides do not agree on."""

    target: Step
    ours: State
    theirs: State
    in_order: State
    """What the order of the joined history alone would make of it."""
    wanted: State
    """What is to come of it, unless a decision says otherwise."""
    conflict: Conflict | None


class _View(NamedTuple):
    """A message that both sides have, as each sees it. The bases differ where earlier merges had other orders."""

    target: Step
    ours_base: State
    theirs_base: State
    ours: State
    theirs: State
    in_order: State


class Comparison:
    """Two histories, side by side. Made under the lock of the timelines; keeps none of them.

    Args:
        ours: the history of the current branch.
        theirs: the other one.
        ours_last: new messages of ours follow theirs, as in a rebase; in a merge theirs come last.
        strict: whether warnings block.
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
        """The collisions, in the order of the context."""
        return tuple(finding.conflict for finding in self.findings if finding.conflict is not None)

    def _disagreements(self, ours: Timeline, theirs: Timeline) -> Iterator[_View]:
        changed = {step.edit_target for step in chain(ours.steps, theirs.steps) if step.edit_target}
        messages = [ours.steps[ours.place[name]] for name in changed if name in self.common]
        messages.sort(key=lambda step: ours.place[step.commit_hash])
        bases = [
            _states(messages, (step for step in side.steps if step.commit_hash in self.common))
            for side in (ours, theirs)
        ]
        one, other = _states(messages, ours.steps), _states(messages, theirs.steps)
        first, last = (other, self.ours) if self._ours_last else (one, self.theirs)
        ordered = _states(messages, last, first)
        for message in messages:
            states = (side[message.commit_hash] for side in (*bases, one, other, ordered))
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
        """Return the content that only one side changed; None if both did or this is unknown."""
        ours, theirs = view.ours.winner, view.theirs.winner
        if same_content(ours, theirs):
            return ours if self._ours_last else theirs
        ours_edits, theirs_edits = self._edits(view)
        if ours_edits == theirs_edits or not same_content(view.ours_base.winner, view.theirs_base.winner):
            return None
        return ours if ours_edits else theirs

    def _wanted_priority(self, ours: State, theirs: State) -> Step:
        """Return the priority that one side changed; if both did, the last side's priority."""
        ours_new, theirs_new = self._is_new(ours.given), self._is_new(theirs.given)
        if ours_new == theirs_new:
            return ours.given if self._ours_last else theirs.given
        return ours.given if ours_new else theirs.given

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
            _told(view.ours),
            _told(view.theirs),
            _deciding(view.ours),
            _deciding(view.theirs),
            is_blocking=self._strict or not is_warning,
            appended=self._written[self._edits(view)[0]] if is_warning else (),
        )

    def _edits(self, view: _View) -> tuple[bool, bool]:
        """Return True if each side gave the message another content."""
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
    """Return the state that `steps` give each message, from the one it may have before them."""
    states = dict(before) if before else {m.commit_hash: State(m, m) for m in messages}
    if not states:
        return states
    for step in steps:
        if step.edit_target in states:
            states[step.edit_target] = states[step.edit_target].after(step)
    return states


def same_content(one: Step, other: Step) -> bool:
    """Return True if two contents compile to the same; metadata may hold tool calls."""
    return (one.content_hash, one.metadata_json) == (other.content_hash, other.metadata_json)


def _agree(one: State, other: State) -> bool:
    return same_content(one.winner, other.winner) and one.priority is other.priority


def _content(step: Step) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(step.payload)
    return content


def _told(side: State) -> dict[str, Any] | None:
    return None if side.is_skipped else _content(side.winner)


def _deciding(side: State) -> str:
    return side.given.commit_hash if side.is_skipped else side.winner.commit_hash
