"""HEAD and branches, and the names that resolve to commits."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import (
    AmbiguousPrefixError,
    BranchError,
    BranchExistsError,
    BranchMovedError,
    BranchNotFoundError,
    CommitNotFoundError,
    DetachedHeadError,
    HistoryError,
    InvalidBranchNameError,
    UnmergedBranchError,
    nearest,
)
from tract_jupyter.models import BranchInfo, check_limit
from tract_jupyter.storage import BRANCHES, HEAD, OWN_HEADS, OwnHead

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from sqlalchemy import Connection

    from tract_jupyter.storage import CommitRows, Database, Move, Position, ReflogRows, RefRows


DEFAULT_BRANCH = "main"
_SHORTEST_PREFIX = 4
_LONGEST_NAME = 200  # characters; the column has room for 255
# what `git branch` refuses: https://git-scm.com/docs/git-check-ref-format
_BAD_NAME = re.compile(
    r"^$|^[-./]|[./]$|\.\.|//|/\.|@\{|^@$|^HEAD$|\.lock(/|$)|[\x00-\x20\x7f~^:?*\[\\\ud800-\udfff]"
)


class Refs:
    """HEAD and the branches of one tract."""

    def __init__(self, database: Database, refs: RefRows, commits: CommitRows, reflog: ReflogRows) -> None:
        self._database = database
        self._refs = refs
        self._commits = commits
        self._reflog = reflog
        self.on_move: Callable[[], None] = lambda: None
        """Called after a move of HEAD or of a branch, except for commits."""
        self._under_way: list[OwnHead] = []

    @property
    def position(self) -> Position:
        """The current branch and its newest commit."""
        with self._database.read() as connection:
            return self._refs.position(connection)

    def here(self, connection: Connection) -> Position:
        """Return the current branch and its newest commit, in the caller's transaction."""
        return self._refs.position(connection)

    def own_head(self, branch: str | None = None, *, follows: bool = False) -> OwnHead:
        """Return a separate HEAD for `with_head`, on a branch or at the current HEAD; see `OwnHead`."""
        outer = OWN_HEADS.get().get(self._refs)
        return OwnHead(branch or self.position.branch, follows, "" if outer is None else outer.refusal)

    @contextmanager
    def with_head(self, head: OwnHead) -> Iterator[OwnHead]:
        """Use this HEAD in the current context and its copies in threads."""
        token = OWN_HEADS.set({**OWN_HEADS.get(), self._refs: head})
        self._under_way.append(head)
        try:
            yield head
        finally:
            self._under_way.remove(head)
            OWN_HEADS.reset(token)

    def at(self, name: str) -> Position:
        """Return a branch and its newest commit."""
        with self._database.read() as connection:
            return self._known(connection, name)

    def on_branch(self, doing: str, expected: str | None = None) -> Position:
        """Return the current branch for an operation that moves it."""
        here = self.position
        if expected is not None and here.branch != expected:
            raise BranchMovedError(
                f"cannot {doing}: the decision is for branch {expected!r}, and the current branch is {here.branch!r}; "
                f"nothing was changed. Call switch({expected!r}) first"
            )
        if here.branch is None:
            raise DetachedHeadError(
                f"HEAD is detached: cannot {doing}. Switch to a branch, or create one, first"
            )
        if here.commit_hash is None:
            raise HistoryError(f"branch {here.branch!r} has no commits yet: nothing to {doing}")
        return here

    def branch(
        self, name: str, *, source: str | None = None, switch: bool = True, is_empty: bool = False
    ) -> str | None:
        """Create a branch at `source` (hash, prefix or branch; HEAD by default), or an empty one, and switch to it."""
        check_name(name)
        with self._database.write() as connection:
            if self._refs.exists(connection, name):
                raise BranchExistsError(
                    f"there is a branch {name!r} already; switch to it, or choose another name"
                )
            here = self._refs.position(connection)
            start = here.commit_hash if source is None else self.find(connection, source)
            start = None if is_empty else start
            self._refs.create(connection, name, start)
            if switch:
                self._point_head(connection, here, name)
        self.on_move()
        return start

    def switch(self, name: str) -> str | None:
        """Switch to a branch and return its commit; `-` is the previous branch."""
        with self._database.write() as connection:
            here = self._refs.position(connection)
            there = self._known(connection, self._before(connection, name))
            self._point_head(connection, here, there.branch)
        self.on_move()
        return there.commit_hash

    def checkout(self, name: str) -> str | None:
        """Switch to a branch, or detach HEAD at a commit; return the commit. `-` is the previous position."""
        with self._database.write() as connection:
            here = self._refs.position(connection)
            target = self._before(connection, name)
            if _can_be_name(target) and target != HEAD and self._refs.exists(connection, target):
                commit_hash = self._refs.tip(connection, target)
                self._point_head(connection, here, target)
            else:
                commit_hash = self.find(connection, target)
                self._point_head(connection, here, None, commit_hash)
        self.on_move()
        return commit_hash

    def reset(self, target: str) -> str:
        """Move the current branch to another commit; `undo` moves it back."""
        with self._database.write() as connection:
            here = self._refs.position(connection)
            if here.branch is None:
                raise DetachedHeadError(
                    "HEAD is detached: there is no branch to reset; use checkout to move HEAD"
                )
            commit_hash = self.find(connection, target)
            self.move(connection, here, commit_hash, "reset", f"to {target}")
        self.on_move()
        return commit_hash

    def move_current(self, new: str | None, operation: str, message: str) -> None:
        """Move the current branch, within the caller's transaction. None is before its first commit."""
        with self._database.write() as connection:
            here = self._refs.position(connection)
            if here.branch is None:
                raise DetachedHeadError("HEAD is detached: there is no branch to move; switch to one first")
            if new is not None and self._commits.get(connection, new) is None:
                raise HistoryError("gc removed the commits of the new position, so nothing was moved")
            self.move(connection, here, new, operation, message)

    def move(
        self, connection: Connection, here: Position, new: str | None, operation: str, message: str
    ) -> None:
        """Move a branch, and record the move."""
        branch = here.branch or ""
        if not self._refs.move(connection, branch, here.commit_hash, new):
            raise BranchError(f"another process or thread moved branch {branch!r}; try again")
        self._reflog.add(connection, BRANCHES + branch, here.commit_hash, new, operation, message)

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a branch."""
        with self._database.write() as connection:
            there = self._known(connection, name)
            if self._refs.is_current(connection, name):
                raise BranchError(f"{name!r} is the current branch; switch to another one first")
            if any(head.branch == name for head in tuple(self._under_way)):
                raise BranchError(
                    f"a turn is running on {name!r} and commits its reply there; wait for it, or stop it"
                )
            if there.commit_hash is not None and not force:
                self._check_merged(connection, name, there.commit_hash)
            self._refs.delete(connection, name)
            self._reflog.add(connection, BRANCHES + name, there.commit_hash, None, "delete branch")
        self.on_move()

    def list_branches(self) -> list[BranchInfo]:
        """Return all branches, by name."""
        with self._database.read() as connection:
            current = self._refs.position(connection).branch
            branches = self._refs.branches(connection)
        return [BranchInfo(name, tip, name == current) for name, tip in branches.items()]

    def tips(self, connection: Connection) -> Collection[str | None]:
        """Return the newest commits of all branches and HEAD."""
        return {*self._refs.branches(connection).values(), self._refs.position(connection).commit_hash}

    def reflog(self, limit: int = 100) -> list[Move]:
        """Return the moves of the current branch, newest first, without plain commits."""
        most = check_limit(limit)
        with self._database.read() as connection:
            name = self._refs.position(connection).branch
            return list(self._reflog.newest_first(connection, BRANCHES + (name or ""), most))

    def tip_at(self, moment: str) -> str | None:
        """Return the newest commit of the current branch or HEAD at a time. It may include later plain commits."""
        with self._database.read() as connection:
            here = self._refs.position(connection)
            tip = here.commit_hash
            moves = self._reflog.newest_first(connection, BRANCHES + here.branch) if here.branch else ()
            for move in moves:
                if move.created_at <= moment or move.old is None:
                    break
                tip = move.old
            if tip is not None and tip != here.commit_hash and self._commits.get(connection, tip) is None:
                raise CommitNotFoundError(
                    f"gc removed {tip[:12]}, the commit of {here.branch!r} at that time; choose a later time"
                )
        return tip

    def resolve(self, name: str) -> str:
        """Return the full hash for a hash, branch, `HEAD`, `ORIG_HEAD` or prefix of at least 4 digits."""
        with self._database.read() as connection:
            return self.find(connection, name)

    def find(self, connection: Connection, name: str) -> str:
        """Resolve a name as `resolve` does, in the caller's transaction."""
        tip = self._tip(connection, name)
        if tip is not None:
            return tip
        if isinstance(name, str) and len(name) >= _SHORTEST_PREFIX and re.fullmatch("[0-9a-f]+", name):
            matches = self._commits.starting_with(connection, name)
            if len(matches) > 1:
                first, second = (commit_hash[: max(12, len(name) + 4)] for commit_hash in matches[:2])
                raise AmbiguousPrefixError(
                    f"several commits begin with {name!r}, such as {first} and {second}; use more digits"
                )
            if matches:
                return matches[0]
        raise CommitNotFoundError(
            f"there is no commit {name!r}: use a branch with commits, or the first {_SHORTEST_PREFIX} or more digits "
            "of a hash; 'log' lists the commits"
        )

    def _tip(self, connection: Connection, name: str) -> str | None:
        if name == HEAD:
            return self._refs.position(connection).commit_hash
        if name == "ORIG_HEAD":
            branch = self._refs.position(connection).branch or ""
            last = next(self._reflog.newest_first(connection, BRANCHES + branch, 1), None)
            return last.old if last else None
        return self._refs.tip(connection, name) if _can_be_name(name) else None

    def _known(self, connection: Connection, name: str) -> Position:
        there = self._refs.at_branch(connection, name) if _can_be_name(name) else None
        if there is None:
            known = self._refs.branches(connection)
            raise BranchNotFoundError(
                f"no branch {name!r}.{nearest(str(name), known)} Branches are: {', '.join(sorted(known))}"
            )
        return there

    def _before(self, connection: Connection, name: str) -> str:
        """Return the previous position of HEAD for the name `-`; otherwise the name."""
        if name != "-":
            return name
        last = next(self._reflog.newest_first(connection, self._refs.head_name, 1), None)
        if last is None or last.old is None:
            raise BranchNotFoundError("HEAD has no previous position; name a branch")
        return last.old

    def _point_head(
        self, connection: Connection, here: Position, branch: str | None, commit_hash: str | None = None
    ) -> None:
        self._refs.point_head(connection, branch, commit_hash)
        old, new = here.branch or here.commit_hash, branch or commit_hash
        self._reflog.add(connection, self._refs.head_name, old, new, "switch")

    def _check_merged(self, connection: Connection, name: str, commit_hash: str) -> None:
        for other, tip in self._refs.branches(connection).items():
            if other != name and tip and commit_hash in self._commits.ancestors(connection, tip):
                return
        raise UnmergedBranchError(
            f"branch {name!r} has commits that are on no other branch; merge it, or delete it with force=True"
        )


def check_name(name: str) -> None:
    """Check the name of a branch."""
    if not _can_be_name(name):
        raise InvalidBranchNameError(
            f"invalid branch name {name!r}; use letters, digits, '-', '_' and single '/' as in 'topic/first-try'"
        )


def _can_be_name(name: object) -> bool:
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and not _BAD_NAME.search(name)
