"""Recorded decisions: which ones are recorded, and how they settle what is asked where nobody can be; each once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.review.decision import personal_channels, without_grant
from tract_jupyter.review.lock import Project, RecordedDecision, read_lock
from tract_jupyter.review.records import ACTIVATE
from tract_jupyter.storage import to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime
    from pathlib import Path

    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.trust import Trust
    from tract_jupyter.storage import StoredDecision, StoredPending


class RecordableDecisions(NamedTuple):
    """The signed entries, and how many decisions of persons were left out: unsigned, failed, or not carried out."""

    entries: list[RecordedDecision]
    left_out: int


def recordable_decisions(
    ledger: Ledger,
    project: Project,
    *,
    since: datetime | None,
    active: Collection[str] = (),
    notebook: str = "",
) -> RecordableDecisions:
    """Return the decisions that people made about what they were asked, as signed entries in their order.

    Args:
        ledger: where they are stored.
        project: where they are recorded; signs the entries.
        since: only those from then on; None for all.
        active: identities of activations that are taken from before, too: those of operations that are active now.
        notebook: the notebook's path below the project; empty if it is not known.

    Raises:
        TrustError: there is no usable secret.
    """
    decided = ledger.decided(personal_channels())
    asked = [
        (d, p)
        for d, p in decided
        if ((p.request is not None and not p.is_unshown) or p.operation == ACTIVATE) and _is_offered(d)
    ]
    chosen = [(d, p) for d, p in asked if since is None or d.decided_at >= since]
    usable = [(d, p) for d, p in chosen if _is_done(d) and ledger.verifies(d)]
    have = {d.identity for d, _ in usable}
    earlier = {
        d.identity: (d, p)
        for d, p in asked
        if d.identity in active and d.identity not in have and d.action == "approve" and _is_done(d)
        and ledger.verifies(d)
    }  # fmt: skip
    entries = [_entry(d, p, notebook).signed(project) for d, p in [*earlier.values(), *usable]]
    return RecordableDecisions(entries, len(chosen) - len(usable))


def _is_offered(decision: StoredDecision) -> bool:
    return decision.action != "pass_through"  # for handlers only; it settles nothing


def _is_done(decision: StoredDecision) -> bool:
    """Return True if it was carried out to its end, rather than failed, put aside or superseded."""
    return decision.finished_at is not None and decision.error is None


def _entry(decision: StoredDecision, pending: StoredPending, notebook: str) -> RecordedDecision:
    subject = (pending.request or {}).get("subject") or {}
    return RecordedDecision(
        kind="activation" if pending.operation == ACTIVATE else subject.get("kind", "pending"),
        title=lasting_title(pending.title),
        identity=decision.identity,
        action=decision.action,
        arguments=without_grant(decision.action, decision.arguments),
        decided_by=decision.decided_by,
        decided_at=to_text(decision.decided_at),
        notebook=notebook,
    )


class RecordedDecisions:
    """The recorded decisions of one lock file, in a process that carries them out.

    Entries of one identity are a queue. Each is used once, so that what is asked twice needs two recorded answers; a
    copy of an entry has its signature, and is no second answer.

    Args:
        path: of the lock file; read when something is looked up for the first time.
        trust: says which entries this user signed.
        used: signatures of entries that were used in this process already; those that are used here are added.
        cell: gives the source of the cell that runs; empty if that is not known.
    """

    def __init__(
        self, path: Path, trust: Trust, used: set[str] | None = None, cell: Callable[[], str] = lambda: ""
    ) -> None:
        self.path = path
        self._cell = cell
        self._project: Project | None = None
        self._trust = trust
        self._used = set() if used is None else used
        self._entries: tuple[RecordedDecision, ...] | None = None
        self._lock = threading.Lock()

    def take(self, identity: str) -> RecordedDecision | None:
        """Use up the next decision about this very thing, and return it; None if there is none left.

        Raises:
            LockFileError: the file cannot be read.
            TrustError: the signing secret cannot be read.
        """
        with self._lock:
            for entry in self._all():
                is_used = entry.signature in self._used
                if entry.identity == identity and not is_used and not self._why_not_here(entry):
                    self._used.add(entry.signature)
                    return entry
        return None

    def knows(self, identity: str) -> bool:
        """Return True if there is an entry for it, used or not."""
        return any(entry.identity == identity for entry in self._all())

    def why_not(self, pending: Pending) -> str:
        """Explain in a sentence why there is no decision about it."""
        title, name = pending.title, self.path.name
        same = [entry for entry in self._all() if entry.identity == pending.identity]
        wrong = next(filter(None, map(self._why_not_here, same)), "")
        if wrong:
            return f"the entry for {title!r} in {name} {wrong}"
        if same:
            times = "once" if len(same) == 1 else f"{len(same)} times"
            return f"{name} answers {title!r} {times}, and it is asked more often"
        if any(entry.title == lasting_title(title) for entry in self._all()):
            return f"{name} has an entry for {title!r}, but for other code or other values: these were changed since"
        return f"{name} has no entry for {title!r}"

    def _all(self) -> tuple[RecordedDecision, ...]:
        if self._entries is None:
            self._entries = read_lock(self.path)
        return self._entries

    def _why_not_here(self, entry: RecordedDecision) -> str:
        """Explain why an entry does not count in this project and for the cell that runs; empty if it counts."""
        if self._project is None:
            self._project = Project.of(self.path, self._trust)
        return self._project.why_not(entry, self._cell())


def lasting_title(title: str) -> str:
    """Return a title that does not depend on the store: on whether an operation is new or replaces one there."""
    return title.replace("Replace operation ", "Activate operation ", 1)
