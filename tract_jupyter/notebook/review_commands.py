"""The subcommands of `%tract` about what a person decides: what waits, what is stored, what is not asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationError, TractError
from tract_jupyter.notebook.command import Command, no_arguments, when
from tract_jupyter.notebook.display import Grid, View
from tract_jupyter.notebook.inbox import Inbox, stuck
from tract_jupyter.notebook.trust_commands import TRUST, not_active, offer_quarantined

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.review.grants import Grant
    from tract_jupyter.tract import Tract

_MAX_COVERS = 200
_SEVERAL = 2


def _inbox(session: Session, rest: list[str]) -> View | None:
    """Put what waits on display, so that it can be decided here: one request in its panel, several in one list."""
    no_arguments("inbox", rest)
    tract = session.tract
    left = offer_quarantined(tract)
    count = tract.reviewer.ledger.count_waiting()
    if count >= _SEVERAL and session.front_end.can_click:
        Inbox(tract, left).show()
        return None
    return _one_by_one(tract, count, not_active(left))


def _one_by_one(tract: Tract, count: int, quarantined: Grid) -> View | None:
    waiting, stuck_rows = tract.inbox(), []
    more = count - len(waiting)
    for stored in waiting:
        try:
            tract.reviewer.show_again(tract.operations.rebuild(stored))
        except TractError as error:
            found = stuck(stored, error)
            stuck_rows.append((found.pending_id[:8], found.title, found.why, found.since))
    if waiting and more <= 0 and not stuck_rows and not quarantined.rows:
        return None
    heads = ("Id", "What", "Why it cannot be decided here", "Since")
    cannot = Grid(heads, tuple(stuck_rows), code=frozenset({"Id"}))
    told = "" if waiting else "Nothing waits for a decision."
    if more > 0:
        told = f"{more:,} more wait: %tract inbox shows them when these are decided."
    return View("Inbox", (told,) if told else (), (cannot, quarantined))


def _grants(session: Session, rest: list[str]) -> View:
    tract = session.tract
    if rest and (rest[0] != "revoke" or len(rest) != _SEVERAL):
        raise OperationError(
            f"%tract grants lists them, %tract grants revoke ID takes one back; got {' '.join(rest)!r}"
        )
    if rest:
        grant = tract.grants.revoke(rest[1])
        return View(f"Revoked: {grant.kind} {grant.name} ({_covered(grant)}) is asked about again")
    grants = tract.grants.all()
    nothing = 'None. "Don\'t ask again…" in a panel gives one.'
    heads = ("Id", "What", "Version", "Covers", "For", "Scope", "Used", "By", "Since", "State")
    grid = Grid(heads, tuple(map(_grant_row, grants)), code=frozenset({"Id", "Version", "Covers"}))
    return View("Standing approvals", () if grants else (nothing,), (grid,))


def _grant_row(grant: Grant) -> tuple[str, ...]:
    return (
        grant.grant_id[:8],
        f"{grant.kind} {grant.name}",
        grant.definition_hash[:8],
        _covered(grant),
        grant.whom,
        grant.scope,
        f"{grant.uses:,}" if grant.most_uses is None else f"{grant.uses:,} of {grant.most_uses:,}",
        grant.granted_by,
        when(grant.created_at),
        grant.state,
    )


def _covered(grant: Grant) -> str:
    covers = grant.covers if len(grant.covers) <= _MAX_COVERS else f"{grant.covers[:_MAX_COVERS]}…"
    return f"{covers}; whatever {', '.join(grant.ignores)} is" if grant.ignores else covers


def grant_words(tract: Tract, given: list[str]) -> list[tuple[str, str]]:
    """What Tab offers after `%tract grants` and the words that are `given`."""
    if not given:
        return [("revoke", "option")]
    if given != ["revoke"]:
        return []
    return [(grant.grant_id[:8], "grant") for grant in tract.grants.all() if grant.state != "revoked"]


REVIEW = {
    "inbox": Command("inbox", "what waits for a decision, whichever kernel asked", _inbox),
    "grants": Command(
        "grants [revoke ID]", "what is not asked about again; take such an approval back", _grants, ("grant",)
    ),
    **TRUST,
}
