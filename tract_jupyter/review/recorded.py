"""Recorded decisions: select decisions for recording, and settle questions with them if no user is available."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

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


_ACTIVATES: Final = "Activate operation "


class RecordableDecisions(NamedTuple):
    """The signed entries, and the number of omitted user decisions: unsigned, failed, or not carried out."""

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
    """Return the users' decisions on shown requests, as signed entries in order.

    Args:
        ledger: the stored decisions.
        project: the project of the lock file. It signs the entries.
        since: only decisions from this time on; None for all.
        active: identities of currently active operations. Their earlier activations are included.
        notebook: the notebook's path relative to the project. Empty if it is unknown.

    Raises:
        TrustError: no usable secret exists.
    """
    decided = ledger.decided(personal_channels())
    displayed = [  # `pass_through` is for handlers only, and does not settle a pending
        (d, p)
        for d, p in decided
        if ((p.request is not None and not p.is_unshown) or p.operation == ACTIVATE)
        and d.action != "pass_through"
    ]
    chosen = [(d, p) for d, p in displayed if since is None or d.decided_at >= since]
    usable = [(d, p) for d, p in chosen if _is_done(d) and _is_own(ledger, d, p)]
    have = {d.identity for d, _ in usable}
    earlier = {
        d.identity: (d, p)
        for d, p in displayed
        if d.identity in active and d.identity not in have and d.action == "approve" and _is_done(d)
        and _is_own(ledger, d, p)
    }  # fmt: skip
    entries = [_entry(d, p, notebook).signed(project) for d, p in [*earlier.values(), *usable]]
    return RecordableDecisions(entries, len(chosen) - len(usable))


def _is_done(decision: StoredDecision) -> bool:
    """Return True if the decision was carried out completely: it did not fail and was not set aside or superseded."""
    return decision.finished_at is not None and decision.error is None


def _is_own(ledger: Ledger, decision: StoredDecision, pending: StoredPending) -> bool:
    """Return True if this user signed the decision and the request. The entry has parts of both."""
    return ledger.verifies(decision) and ledger.vouches(pending)


def _entry(decision: StoredDecision, pending: StoredPending, notebook: str) -> RecordedDecision:
    request = pending.request or {}
    subject = request.get("subject") or {}
    return RecordedDecision(
        kind="activation" if pending.operation == ACTIVATE else subject.get("kind", "pending"),
        title=lasting_title(request["title"]) if request else _title_of(pending),
        identity=decision.identity,
        action=decision.action,
        arguments=without_grant(decision.action, decision.arguments),
        decided_by=decision.decided_by,
        decided_at=to_text(decision.decided_at),
        notebook=notebook,
    )


def _title_of(pending: StoredPending) -> str:
    """Return the title of an activation that was not displayed. The column with the title is not signed."""
    with suppress(ValueError, LookupError, TypeError):
        return f"{_ACTIVATES}{json.loads(pending.fields['spec'])['name']}"
    return pending.operation


class RecordedDecisions:
    """The recorded decisions of one lock file, in a process that carries them out.

    Entries with the same identity form a queue. Each entry is used once, so two identical questions need two entries. A
    copy of an entry has the same signature and does not count as a second entry.

    Args:
        path: the path of the lock file. The first lookup reads it.
        trust: verifies the entries' signatures.
        used: signatures of entries that this process has already used. New uses are added.
        cell: returns the source of the running cell. Empty if it is unknown.
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
        """Consume the next decision with this identity and return it. Return None if none is available.

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
        """Return True if the file has an entry with this identity, used or not."""
        return any(entry.identity == identity for entry in self._all())

    def why_not(self, pending: Pending) -> str:
        """Explain in one sentence why no decision applies to a pending."""
        title, name = pending.title, self.path.name
        same = [entry for entry in self._all() if entry.identity == pending.identity]
        wrong = next(filter(None, map(self._why_not_here, same)), "")
        if wrong:
            return f"the entry for {title!r} in {name} {wrong}"
        if same:
            times = "once" if len(same) == 1 else f"{len(same)} times"
            return f"{name} answers {title!r} {times}, and this run needs more answers"
        if any(entry.title == lasting_title(title) for entry in self._all()):
            return f"{name} has an entry for {title!r}, but for other code or other values: they have changed since"
        return f"{name} has no entry for {title!r}"

    def _all(self) -> tuple[RecordedDecision, ...]:
        if self._entries is None:
            self._entries = read_lock(self.path)
        return self._entries

    def _why_not_here(self, entry: RecordedDecision) -> str:
        """Explain why an entry is not valid in this project and for the running cell. Empty for a valid entry."""
        if self._project is None:
            self._project = Project.of(self.path, self._trust)
        return self._project.why_not(entry, self._cell())


def lasting_title(title: str) -> str:
    """Return a title that does not depend on whether the store already has the operation."""
    return title.replace("Replace operation ", _ACTIVATES, 1)
