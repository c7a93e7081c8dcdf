"""`Session`: several tracts in one store, and several agents at work on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self
from uuid import uuid4

from tract_jupyter.context.identity import DEFAULT_NAME, make_tract
from tract_jupyter.context.tokens import default_counter
from tract_jupyter.exceptions import SessionError, TractExistsError
from tract_jupyter.facade.agents import Agents, checked_name
from tract_jupyter.facade.open_tracts import OpenTracts
from tract_jupyter.models.checks import check_budget, check_limit, check_text
from tract_jupyter.models.content import text_of
from tract_jupyter.storage.database import Database
from tract_jupyter.storage.engines import MEMORY
from tract_jupyter.storage.refs import RefRows
from tract_jupyter.storage.tracts import TractRows
from tract_jupyter.tract import Tract

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.config import TokenBudget
    from tract_jupyter.models.context import CompiledContext
    from tract_jupyter.models.spawn import TimelineEntry, TractInfo
    from tract_jupyter.protocols import TokenCounter
    from tract_jupyter.review.trust import Trust


class Session(Agents):
    """The tracts of one store. Open one with `Session.open`; threads may share it, and processes may share the store.

    Its tracts use one database. Closing one of them leaves the others open; closing the session closes them all.

    Args:
        database: an open database.
        tokenizer: counts the tokens of all tracts; tiktoken if its vocabulary is at hand, else an estimate.
        trust: signs and verifies approvals; the user's own by default.
    """

    def __init__(
        self, database: Database, *, tokenizer: TokenCounter | None = None, trust: Trust | None = None
    ) -> None:
        self._database = database
        self._rows = TractRows()
        self._tracts = OpenTracts(Tract, database, tokenizer or default_counter(), trust)

    @classmethod
    def open(
        cls,
        path: str | Path = MEMORY,
        *,
        url: str | None = None,
        tokenizer: TokenCounter | None = None,
        trust: Trust | None = None,
        lock_timeout: float = 5.0,
    ) -> Self:
        """Open a store, or make it. A new one has no tracts yet.

        Args:
            path: an SQLite file; `:memory:` keeps nothing.
            url: an SQLAlchemy URL instead, such as `postgresql+psycopg://user@host/name`.
            tokenizer: counts tokens; tiktoken if its vocabulary is at hand, else an estimate.
            trust: signs and verifies approvals; the user's own by default.
            lock_timeout: seconds to wait for another process's lock.

        Raises:
            StoreError: locked, read-only, corrupt, or from a newer version; the subclass tells.
        """
        return cls(Database(path, url=url, lock_timeout=lock_timeout), tokenizer=tokenizer, trust=trust)

    @property
    def location(self) -> str:
        """The path or URL of the store."""
        return self._database.location

    def create_tract(
        self,
        *,
        display_name: str = DEFAULT_NAME,
        tract_id: str | None = None,
        budget: TokenBudget | None = None,
    ) -> Tract:
        """Make an empty tract.

        Args:
            display_name: what people call it; need not be unique.
            tract_id: 1 to 32 letters, digits, `_`, `-` or `.`; made up if left out.
            budget: how large its context may become; not stored.

        Raises:
            TractExistsError: the id is taken.
            SessionError: no tract can have that id, or that name.
            ContentError: the budget is no `TokenBudget`.
        """
        self._tracts.check_open()
        check_budget(budget)
        wanted = uuid4().hex if tract_id is None else tract_id
        with self._database.write() as connection:
            if isinstance(wanted, str) and RefRows(wanted).was_made(connection):
                raise TractExistsError(f"there is a tract {wanted!r} already; get_tract opens it")
            make_tract(connection, wanted, checked_name(display_name))
            opened = self._tracts.open(wanted)
            self._tracts.made(opened)
        opened.tract.budget = budget
        return self._tracts.keep(opened)

    def get_tract(self, tract_id: str) -> Tract:
        """A tract by its id, or the agent that was deployed on a branch of it by `tract:branch`.

        The same object for each call, until it is released or closed.

        Raises:
            UnknownTractError: there is none.
        """
        return self._tracts.get(tract_id)

    def release_tract(self, tract_id: str) -> None:
        """Close one tract, or agent, of this session; nothing in the store changes. A second call does nothing.

        Raises:
            UnknownTractError: there is no such tract.
        """
        self._tracts.release(tract_id)

    def list_tracts(self) -> list[TractInfo]:
        """All tracts of the store and where they stand, oldest first. Agents on branches are `children()` of one."""
        self._tracts.check_open()
        with self._database.read() as connection:
            return self._rows.all(connection)

    def resume(self) -> Tract:
        """Return the tract that was worked on last, or whose child was; the newest tract if nobody has committed yet.

        Raises:
            SessionError: the store has no tracts.
        """
        self._tracts.check_open()
        with self._database.read() as connection:
            newest = self._rows.last_worked_on(connection)
        if newest is None:
            raise SessionError(
                f"{self.location} has no tracts yet: nothing to resume; create_tract makes one"
            )
        return self.get_tract(newest)

    def timeline(self, limit: int = 100) -> list[TimelineEntry]:
        """The newest commits and events of all tracts, newest first.

        Raises:
            SessionError: the limit is no whole number.
        """
        self._tracts.check_open()
        limit = check_limit(limit, error=SessionError)
        with self._database.read() as connection:
            return self._rows.newest(connection, limit) if limit else []

    def search(self, term: str, tract_id: str | None = None, *, limit: int = 100) -> list[CommitInfo]:
        """The newest messages and edits whose text, or line in the log, contains a term, in any case.

        Args:
            term: what to look for.
            tract_id: in this tract only; in all if left out.
            limit: how many at most.

        Raises:
            UnknownTractError: there is no such tract.
            SessionError: the term is empty or no text, or the limit no whole number.
        """
        self._tracts.check_open()
        limit = check_limit(limit, error=SessionError)
        needle = check_text(term, "term", error=SessionError).casefold()
        if not needle.strip():
            raise SessionError("search needs a term, as it would find everything without one")
        found: list[CommitInfo] = []
        with self._database.read() as connection:
            within = None if tract_id is None else self._tracts.find(connection, tract_id)[0]
            for entry in self._rows.contents(connection, within):
                if len(found) >= limit:
                    break
                if needle in entry.message.casefold() or needle in text_of(entry.content).casefold():
                    found.append(entry.info(entry.starting_priority()))
        return found

    def compile_at(
        self, tract_id: str, *, at_time: datetime | None = None, at_commit: str | None = None
    ) -> CompiledContext:
        """The context of a tract as it was at a time or a commit; as it is now if neither is given.

        Raises:
            UnknownTractError: there is no such tract.
            CommitNotFoundError: `at_commit` names nothing.
            ContentError: both are given, or the time is none.
        """
        return self.get_tract(tract_id).compile(at_time=at_time, at_commit=at_commit)

    def close(self) -> None:
        """Close the store with all its tracts. A second call does nothing."""
        self._tracts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session on {self.location}>"
