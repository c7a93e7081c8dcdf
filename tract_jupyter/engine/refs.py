"""Where one is: HEAD, the current branch, names that resolve to commits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import (
    AmbiguousPrefixError,
    BranchExistsError,
    BranchNotFoundError,
    CommitNotFoundError,
    InvalidBranchNameError,
    nearest,
)
from tract_jupyter.models.commit import BranchInfo
from tract_jupyter.storage.refs import HEAD

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.refs import Position, RefRows

DEFAULT_BRANCH = "main"
_SHORTEST_PREFIX = 4
_LONGEST_NAME = 200  # characters; the column has room for 255
# what `git branch` refuses: https://git-scm.com/docs/git-check-ref-format
_BAD_NAME = re.compile(
    r"^$|^[-./]|[./]$|\.\.|//|/\.|@\{|^@$|^HEAD$|\.lock(/|$)|[\x00-\x20\x7f~^:?*\[\\\ud800-\udfff]"
)


class Refs:
    """HEAD and the branches of one tract."""

    def __init__(self, database: Database, refs: RefRows, commits: CommitRows) -> None:
        self._database = database
        self._refs = refs
        self._commits = commits

    @property
    def position(self) -> Position:
        """The current branch and its newest commit."""
        with self._database.read() as connection:
            return self._refs.position(connection)

    def branch(self, name: str, *, source: str | None = None, switch: bool = True) -> str | None:
        """Make a branch at `source` (hash, prefix or branch; HEAD by default) and switch to it."""
        if not _can_be_name(name):
            raise InvalidBranchNameError(
                f"{name!r} is no branch name; use letters, digits, '-', '_' and single '/' as in 'topic/first-try'"
            )
        with self._database.write() as connection:
            if self._refs.exists(connection, name):
                raise BranchExistsError(
                    f"there is a branch {name!r} already; switch to it, or choose another name"
                )
            start = (
                self._refs.position(connection).commit_hash
                if source is None
                else self.find(connection, source)
            )
            self._refs.create(connection, name, start)
            if switch:
                self._refs.point_head(connection, name)
        return start

    def switch(self, name: str) -> str | None:
        """Make a branch the current one and return its commit."""
        with self._database.write() as connection:
            if not _can_be_name(name) or not self._refs.exists(connection, name):
                known = self._refs.branches(connection)
                raise BranchNotFoundError(
                    f"no branch {name!r}.{nearest(name, known)} Branches are: {', '.join(sorted(known))}"
                )
            self._refs.point_head(connection, name)
            return self._refs.tip(connection, name)

    def list_branches(self) -> list[BranchInfo]:
        """All branches, by name."""
        with self._database.read() as connection:
            current = self._refs.position(connection).branch
            branches = self._refs.branches(connection)
        return [BranchInfo(name, tip, name == current) for name, tip in branches.items()]

    def resolve(self, name: str) -> str:
        """Return the full hash of a commit named by hash, branch, `HEAD` or prefix of at least 4 digits.

        Raises:
            CommitNotFoundError: there is none.
            AmbiguousPrefixError: there are several.
        """
        with self._database.read() as connection:
            return self.find(connection, name)

    def find(self, connection: Connection, name: str) -> str:
        """`resolve` within the caller's transaction."""
        tip = None
        if name == HEAD:
            tip = self._refs.position(connection).commit_hash
        elif _can_be_name(name):
            tip = self._refs.tip(connection, name)
        if tip is not None:
            return tip
        if len(name) >= _SHORTEST_PREFIX and re.fullmatch("[0-9a-f]+", name):
            found = self._commits.starting_with(connection, name)
            if len(found) > 1:
                raise AmbiguousPrefixError(f"several commits begin with {name!r}; give more digits")
            if found:
                return found[0]
        raise CommitNotFoundError(
            f"no commit is called {name!r} here: it is neither a branch with commits nor the first "
            f"{_SHORTEST_PREFIX} or more digits of a hash; 'log' lists them"
        )


def _can_be_name(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and not _BAD_NAME.search(name)
