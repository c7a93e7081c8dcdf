"""From the decisions in the store to entries of the lock file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.review.decision import without_grant
from tract_jupyter.review.lock import Entry
from tract_jupyter.review.recorded import lasting_title
from tract_jupyter.storage.clock import to_text

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.review.project import Project
    from tract_jupyter.storage.decisions import StoredDecision
    from tract_jupyter.storage.pendings import StoredPending

CHANNELS = frozenset({"panel", "prompt", "command", "inbox", "code"})
"""Whose decisions are recorded: a person's. A dict or a tool call may be a model's."""

_ACTIVATE = "activate_operation"


class Found(NamedTuple):
    """The signed entries, and how many decisions of persons were left out: unsigned, failed, or not carried out."""

    entries: list[Entry]
    left_out: int


def find_entries(
    ledger: Ledger,
    project: Project,
    *,
    since: datetime | None,
    active: Collection[str] = (),
    notebook: str = "",
) -> Found:
    """The decisions that persons made about what they were asked, as signed entries in their order.

    Args:
        ledger: where they are stored.
        project: where they are recorded; signs the entries.
        since: only those from then on; None for all.
        active: identities of activations that are taken from before, too: those of operations that are active now.
        notebook: the notebook's path below the project; empty if it is not known.

    Raises:
        TrustError: there is no usable secret.
    """
    decided = ledger.decided(CHANNELS)
    asked = [
        (d, p)
        for d, p in decided
        if ((p.request is not None and not p.is_unshown) or p.operation == _ACTIVATE) and _is_offered(d)
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
    return Found(entries, len(chosen) - len(usable))


def _is_offered(decision: StoredDecision) -> bool:
    return decision.action != "pass_through"  # for handlers only; it settles nothing


def _is_done(decision: StoredDecision) -> bool:
    """Whether it was carried out to its end, rather than failed, put aside or superseded."""
    return decision.finished_at is not None and decision.error is None


def _entry(decision: StoredDecision, pending: StoredPending, notebook: str) -> Entry:
    subject = (pending.request or {}).get("subject") or {}
    return Entry(
        kind="activation" if pending.operation == _ACTIVATE else subject.get("kind", "pending"),
        title=lasting_title(pending.title),
        identity=decision.identity,
        action=decision.action,
        arguments=without_grant(decision.action, decision.arguments),
        decided_by=decision.decided_by,
        decided_at=to_text(decision.decided_at),
        notebook=notebook,
    )
