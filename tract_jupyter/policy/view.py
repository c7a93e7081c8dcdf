"""The policies' view of the context.

`ContextWatch` records each commit as it is written, so the policies' usual queries after a commit need no database
access. Other values (other branches, garbage) are computed from time to time. Their cost per commit does not grow with
the history.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.storage import APPEND, EDIT, from_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tract_jupyter.context import Repository, VersionedContext
    from tract_jupyter.storage import Entry, Position, Step

_RECENT: Final = 50
_MOST_NEW: Final = 10_000
_EVERY: Final = 5  # commits between two checks of another branch
_GARBAGE_EVERY: Final = 200  # minimum commits between two checks; a fifth of the history if that is more
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class BranchView:
    """A branch other than the current one: its newest commit, the time of that commit, and its number of commits."""

    name: str
    tip: str
    committed_at: datetime
    commits: int


class ContextWatch:
    """The cached state of the context.

    Args:
        repository: the repository of the tract.
        clock: returns the current time.
    """

    def __init__(self, repository: Repository, clock: Callable[[], datetime]) -> None:
        self.repository = repository
        self.clock = clock
        self.new: list[Entry] | None = None
        """The commits since the last evaluation of policies. None if unknown, as in a new process."""
        self.forget()

    def forget(self) -> None:
        """Clear the cache after a possible rollback."""
        self.new = None
        self._tip: str | None = None
        self._break()

    def _break(self) -> None:
        """Reset the cache because the branch changed or moved."""
        self._recent: deque[Entry] = deque(maxlen=_RECENT)
        self._is_whole = False
        self._counted: dict[tuple[str, str | None, str], tuple[str | None, int, int]] = {}

    def take(self, entries: Sequence[Entry]) -> None:
        """Record commits."""
        for entry in entries:
            if entry.parent_hash != self._tip or self._tip is None:
                self._break()
                self._is_whole = entry.parent_hash is None
            self._tip = entry.commit_hash
            self._recent.append(entry)
            if self.new is not None:
                self.new.append(entry)
        if self.new is not None and len(self.new) > _MOST_NEW:
            self.new = None

    def settled(self, count: int | None) -> None:
        """Record that this many new commits were evaluated. None means all of them."""
        if self.new is None or count is None:
            self.new = []
        else:
            del self.new[:count]

    def changed(self) -> None:
        """Clear the cached counts after an action."""
        self._counted.clear()
        self._garbage: tuple[int, int, datetime] | None = None

    _garbage: tuple[int, int, datetime] | None = None
    _young_until: tuple[float, datetime] | None = None
    _since = 0

    def recent(self, head: str | None) -> Sequence[Entry]:
        """Return the newest commits of the branch, oldest first."""
        if head is None:
            return ()
        if self._tip != head or not (self._is_whole or len(self._recent) == _RECENT):
            with self.repository.database.read() as connection:
                chain = self.repository.rows.chain(connection, head, _RECENT)
            self._recent = deque(reversed(chain), maxlen=_RECENT)
            self._tip, self._is_whole = head, True
            self._counted = {}
        return self._recent

    def made_at(self, commit_hash: str, back: int) -> str:
        """Return the time of a commit that is probably `back` places before the end."""
        if len(self._recent) >= back and self._recent[-back].commit_hash == commit_hash:
            return self._recent[-back].created_at
        return self.repository.commits.entry(commit_hash).created_at

    def difference(self, here: Position, other: str, way: str) -> int:
        """Count the commits that only one of two branches has. The count is refreshed every few commits."""
        key = (way, here.branch, other)
        known = self._counted.get(key)
        if way == "behind" and known is not None and here.generation < known[2] + _EVERY:
            return known[1]
        with self.repository.database.read() as connection:
            tip = self.repository.ref_rows.tip(connection, other)
        if way == "behind" and known is not None and tip == known[0]:
            count = known[1]
        else:
            timelines = self.repository.timelines
            with timelines.lock:
                mine, its = timelines.at(here.commit_hash), timelines.at(tip)
                one, two = (its, mine) if way == "behind" else (mine, its)
                count = sum(
                    step.commit_hash not in two.place and step.operation in {APPEND, EDIT}
                    for step in one.steps
                )
        self._counted[key] = (tip, count, here.generation)
        return count

    def garbage(self, now: datetime, days: float, generation: int) -> int:
        """Count the commits that a garbage collection would remove. The count is refreshed from time to time."""
        self._since += 1
        known = self._garbage
        if known is not None and self._since < known[1] and now < known[2]:
            return known[0]
        if self._young_until is None or self._young_until[0] != days:
            oldest = self._first_time()
            if oldest is None:
                return 0
            self._young_until = days, from_text(oldest) + timedelta(days=days)
        if now < self._young_until[1]:
            return 0  # everything is too young
        from tract_jupyter.context import Choice, Retain, collect_garbage

        collected = collect_garbage(self.repository, Retain(days), Choice(), dry_run=True)
        self._since = 0
        self._garbage = (len(collected.commits), max(_GARBAGE_EVERY, generation // 5), now + _HOUR)
        return len(collected.commits)

    def _first_time(self) -> str | None:
        with self.repository.database.read() as connection:
            return self.repository.rows.first_time(connection)

    def branches(self, here: Position, before: datetime) -> Iterator[BranchView]:
        """Yield the other branches whose newest commit is older than a given time."""
        repository = self.repository
        with repository.database.read() as connection:
            tips = repository.ref_rows.branches(connection)
            entries = {name: repository.rows.get(connection, tip) for name, tip in tips.items() if tip}
        for name, entry in entries.items():
            if name == here.branch or entry is None:
                continue
            at = from_text(entry.created_at)
            if at < before:
                yield BranchView(name, entry.commit_hash, at, entry.generation + 1)


class PolicyView:
    """The context at the current moment. Each property is computed on first use.

    Attributes:
        moment: the moment of the evaluation: `commit`, `compile` or `turn`.
        memory: the policy's own data, a JSON object. It is stored when the policy fires.
    """

    def __init__(self, tract: VersionedContext, watch: ContextWatch, moment: str) -> None:
        self.moment = moment
        self.memory: dict[str, Any] = {}
        self._tract = tract
        self._watch = watch
        self._repository = watch.repository
        self._position: Position | None = None
        self._now: datetime | None = None
        self._tokens: int | None = None

    @property
    def tract(self) -> VersionedContext:
        """The tract, for reading."""
        return self._tract

    @property
    def now(self) -> datetime:
        """The current time in UTC."""
        if self._now is None:
            self._now = self._watch.clock()
        return self._now

    @property
    def position(self) -> Position:
        """The current branch and its newest commit."""
        if self._position is None:
            writer = self._repository.writer
            known = writer.known if self.moment == "commit" else None
            self._position = known or writer.position
        return self._position

    @property
    def branch(self) -> str | None:
        """The current branch. None if HEAD is detached."""
        return self.position.branch

    @property
    def head(self) -> str | None:
        """The newest commit of the current branch."""
        return self.position.commit_hash

    @property
    def generation(self) -> int:
        """The number of commits before HEAD. -1 before the first commit."""
        return self.position.generation

    @property
    def tokens(self) -> int:
        """The tokens of the context, as in `status()`."""
        if self._tokens is None:
            here = self.position
            source = self._repository.history.token_source(here)
            self._tokens = self._repository.corrections.tokens(here.context_tokens, source)
        return self._tokens

    @property
    def max_tokens(self) -> int | None:
        """The token limit of the budget, or None without a budget."""
        return self._repository.max_tokens()

    @property
    def new(self) -> Sequence[Entry] | None:
        """The commits since the last evaluation. None if unknown, as in a new process."""
        new = self._watch.new
        return None if new is None else tuple(new)

    @property
    def idle_seconds(self) -> float:
        """The seconds from the last commit before this moment until now. 0 without such a commit."""
        new = self._watch.new
        head = self.head
        if head is None:
            return 0.0
        if new:
            last = new[0].parent_hash
            back = len(new) + 1
        elif new is None and self.moment == "commit":  # the first commit that this process sees
            last, back = self._watch.recent(head)[-1].parent_hash, 2
        else:
            last, back = head, 1
        if last is None:
            return 0.0
        return (self.now - from_text(self._watch.made_at(last, back))).total_seconds()

    def recent_types(self, count: int) -> list[str]:
        """Return the content types of the newest messages of the branch, oldest first, at most 50."""
        types: list[str] = []
        for entry in reversed(self._watch.recent(self.head)):
            if entry.operation == APPEND:
                types.append(entry.content_type)
                if len(types) == count:
                    break
        return types[::-1]

    def messages_before(self, kept: int) -> Iterator[tuple[str, bool]]:
        """Yield the messages before the newest `kept`, newest first, with True if a compression keeps the message."""
        timelines = self._repository.timelines
        with timelines.lock:
            timeline = timelines.at(self.head)
            messages = (
                step
                for step in reversed(timeline.steps)
                if step.operation == APPEND and timeline.priority(step) != "skip"
            )
            for step in islice(messages, kept, None):
                yield step.commit_hash, timeline.priority(step) == "pinned"

    def steps(self) -> Iterator[tuple[Step, bool]]:
        """Yield the messages of the branch, newest first, with True if an annotation set the priority."""
        timelines = self._repository.timelines
        with timelines.lock:
            timeline = timelines.at(self.head)
            for step in reversed(timeline.steps):
                if step.operation == APPEND:
                    yield step, timeline.priority_source(step.commit_hash) is not None

    def is_annotated(self, commit_hash: str) -> bool:
        """Return True if an annotation set the message's priority, or the message is not on the branch."""
        timelines = self._repository.timelines
        with timelines.lock:
            timeline = timelines.at(self.head)
            return commit_hash not in timeline.place or timeline.priority_source(commit_hash) is not None

    def ahead_of(self, branch: str) -> int:
        """Count the messages and edits of the current branch that another branch lacks."""
        return self._watch.difference(self.position, branch, "ahead")

    def behind(self, branch: str) -> int:
        """Count the messages and edits of another branch that the current branch lacks. 0 if it does not exist."""
        return self._watch.difference(self.position, branch, "behind")

    def garbage(self, days: float) -> int:
        """Count the commits that `gc` would remove now."""
        return self._watch.garbage(self.now, days, self.generation)

    def stale_branches(self, days: float) -> Iterator[BranchView]:
        """Yield the other branches without a commit in the last `days` days."""
        return self._watch.branches(self.position, self.now - timedelta(days=days))
