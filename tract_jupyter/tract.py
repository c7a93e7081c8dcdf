"""`Tract`: one versioned context with its operations and tools. Composition and delegation only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tract_jupyter.facade.exchange import Exchange
from tract_jupyter.facade.family import Kinship
from tract_jupyter.facade.learning import Learning
from tract_jupyter.facade.querying import Querying
from tract_jupyter.facade.running import Running
from tract_jupyter.facade.serving import Serving
from tract_jupyter.facade.tagging import Tagging
from tract_jupyter.facade.trusting import Trusting
from tract_jupyter.storage.database import Database
from tract_jupyter.storage.engines import MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tract_jupyter.models.config import TokenBudget
    from tract_jupyter.protocols import TokenCounter
    from tract_jupyter.review.trust import Trust


class Tract(Learning, Running, Exchange, Querying, Tagging, Trusting, Serving, Kinship):
    """One versioned, token-counted context. Open one with `Tract.open`; it may be used from several threads."""

    @classmethod
    def open(
        cls,
        path: str | Path = MEMORY,
        *,
        url: str | None = None,
        tract_id: str | None = None,
        tokenizer: TokenCounter | None = None,
        budget: TokenBudget | None = None,
        trust: Trust | None = None,
        lock_timeout: float = 5.0,
    ) -> Self:
        """Open a store, or make it.

        Nothing that the store holds is executed or compiled by this.

        Args:
            path: an SQLite file; `:memory:` keeps nothing.
            url: an SQLAlchemy URL instead, such as `postgresql+psycopg://user@host/name`.
            tract_id: which tract of the store; the one it was made with if left out.
            tokenizer: counts tokens; tiktoken if its vocabulary is at hand, else an estimate.
            budget: how large the context may become.
            trust: signs and verifies approvals; the user's own by default.
            lock_timeout: seconds to wait for another process's lock.

        Raises:
            StoreError: locked, read-only, corrupt, or from a newer version; the subclass tells.
        """
        database = Database(path, url=url, lock_timeout=lock_timeout)
        try:
            return cls(database, tract_id=tract_id, tokenizer=tokenizer, budget=budget, trust=trust)
        except BaseException:
            database.close()
            raise

    @classmethod
    def from_notebook(
        cls, source: Mapping[str, Any] | str | Path, path: str | Path = MEMORY, **options: Any
    ) -> Self:
        """Open a store, or make it, and commit a notebook's cells to it. Nothing of the notebook is executed.

        Args:
            source: the notebook's path, or what nbformat or JSON gave.
            path: the store.
            **options: as for `open`.

        Raises:
            ContentError: it is no valid notebook.
        """
        tract = cls.open(path, **options)
        try:
            tract.import_notebook(source)
        except BaseException:
            tract.close()
            raise
        return tract

    def close(self) -> None:
        """Close the store; end its MCP servers, and the processes of its sandbox. A second call does nothing."""
        self.sandboxes.close()
        self._mcp.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Tract {self.tract_id[:8]} in {self.location}>"

    @property
    def location(self) -> str:
        """The path or URL of the store."""
        return self._database.location
