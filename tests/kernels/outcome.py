"""What the store says of a request, what its action did, and deciding it from another process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.review import deciding, is_waited_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kernels.kernel import Kernel
    from tract_jupyter import Tract
    from tract_jupyter.storage import StoredPending


class Outcome:
    """Seen from a process that is not the kernel.

    Args:
        store: the kernel's store.
        path: where the action `go` writes.
    """

    def __init__(self, store: Tract, path: Path) -> None:
        self.store = store
        self._path = path

    @property
    def effects(self) -> list[str]:
        """A line for each time that the action ran."""
        return self._path.read_text().splitlines() if self._path.exists() else []

    def decisions(self, pending_id: str) -> list[tuple[str, str]]:
        """The action and the channel of each decision."""
        return [(d.action, d.channel) for d in self.store.reviewer.ledger.decisions(pending_id)]

    def waiting(self) -> StoredPending:
        """The one request in the inbox."""
        (stored,) = self.store.review.inbox()
        return stored

    def until_waited_for(self, kernel: Kernel) -> None:
        """Wait until a cell says in the store that it waits."""
        kernel.until(lambda: is_waited_for(self.waiting()), "the cell saying that it waits")

    def until_nobody_waits(self, kernel: Kernel) -> None:
        """Wait until what a process said of its waiting is no longer true."""
        kernel.until(lambda: not is_waited_for(self.waiting()), "the end of the lease")

    def is_open(self) -> None:
        """Check that the one request waits, undecided."""
        stored = self.waiting()
        assert (stored.status, self.decisions(stored.pending_id), self.effects) == ("pending", [], [])

    def decide_here(self, action: str = "go") -> str:
        """Decide the oldest request in this process's inbox; returns its id."""
        pending = self.store.operations.rebuild(self.store.review.inbox()[0])
        with deciding("inbox"):
            pending.execute_tool(action, {})
        return pending.pending_id

    def is_done(self, pending_id: str, channel: str) -> None:
        """Check that it was decided once, over this channel, and that its action ran once."""
        assert self.decisions(pending_id) == [("go", channel)]
        assert self.effects == ["1"]
        assert self.store.review.inbox() == []
