"""What this user approved and what not: active operations and handlers, and stored ones that are not active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationError, TractError
from tract_jupyter.notebook.command import Command
from tract_jupyter.notebook.display import Grid, View

if TYPE_CHECKING:
    from collections.abc import Collection

    from tract_jupyter.hooks.dynamic.spec import OperationSpec
    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.tract import Tract

_REVOKE = "%tract trust revoke OPERATION, or OPERATION HANDLER"


def offer_quarantined(tract: Tract) -> tuple[tuple[str, str, str], ...]:
    """Put what is stored and not active into the inbox, with what changed since it was approved last.

    Returns:
        Name, reason and command of those that are not put there: they cannot be read, or were turned down before.
    """
    return tuple(
        (name, why, f"%tract review {name}")
        for name, why in quarantined(tract).items()
        if not _offered(tract, name)
    )


def quarantined(tract: Tract) -> dict[str, str]:
    """Why each stored operation and handler is not active; a handler is `operation/name`."""
    handlers = {f"{operation}/{name}": why for (operation, name), why in tract.handlers.quarantined.items()}
    return dict(sorted({**tract.operations.quarantined, **handlers}.items()))


def reviewed(tract: Tract, name: str) -> Pending:
    """The pending that would activate something stored.

    Raises:
        SpecError: there is no such thing, or it cannot be read.
    """
    operation, slash, handler = name.rpartition("/")
    if slash:
        return tract.handlers.review_quarantined(operation, handler)
    return tract.operations.review_quarantined(name)


def _offered(tract: Tract, name: str) -> bool:
    """Whether it stands in the inbox, since now or before."""
    try:
        pending, ledger = reviewed(tract, name), tract.reviewer.ledger
        if ledger.needs_asking(pending):
            tract.reviewer.keep(pending)
        return ledger.is_waiting(pending)
    except TractError:
        return False


def code_text(spec: OperationSpec, unreviewed: Collection[str]) -> str:
    """Where an operation's code runs, and that nobody reviewed it; empty if it is reviewed, and the kernel's."""
    told = ["sandboxed"] if spec.is_sandboxed else []
    return ", ".join([*told, "not reviewed"] if spec.name in unreviewed else told)


def _review(session: Session, rest: list[str]) -> None:
    if len(rest) != 1:
        raise OperationError("name one stored operation, or OPERATION/HANDLER: %tract review NAME")
    session.tract.reviewer.show(reviewed(session.tract, rest[0]))


def _trust(session: Session, rest: list[str]) -> View:
    tract = session.tract
    if not rest:
        return _trusted(tract)
    if rest[0] != "revoke" or len(rest) not in (2, 3):
        raise OperationError(
            f"%tract trust lists it, {_REVOKE} takes an approval back; got {' '.join(rest)!r}"
        )
    tract.revoke_trust(*rest[1:])
    name = "/".join(rest[1:])
    return View(
        f"{name} is not active any more", (f"It stays in the store: %tract review {name} looks at it.",)
    )


def _trusted(tract: Tract) -> View:
    registry = tract.operations.registry
    specs = map(registry.require_spec, registry.operation_names)
    operations = [
        (
            spec.name,
            ", ".join(filter(None, ["operation", code_text(spec, registry.unreviewed)])),
            spec.spec_hash[:8],
        )
        for spec in specs
    ]
    handlers = [
        (f"{on}/{name}", "handler", spec.spec_hash[:8]) for (on, name), spec in tract.handlers.active.items()
    ]
    heads = ("Name", "Kind", "Version")
    active = Grid(
        heads, tuple(sorted([*operations, *handlers])), "Active", code=frozenset({"Name", "Version"})
    )
    others = tuple((name, why, f"%tract review {name}") for name, why in quarantined(tract).items())
    return View(
        f"Trusted with {tract.trust.source}",
        () if active.rows else ("Nothing yet.",),
        (active, not_active(others)),
    )


def trust_words(tract: Tract, given: list[str]) -> list[tuple[str, str]]:
    """What Tab offers after `%tract trust` and the words that are `given`."""
    handlers = tract.handlers.active
    match given:
        case []:
            return [("revoke", "option")]
        case ["revoke"]:
            names = {*tract.operations.registry.operation_names, *(operation for operation, _ in handlers)}
            return [(name, "operation") for name in sorted(names)]
        case ["revoke", operation]:
            return [(name, "handler") for on, name in sorted(handlers) if on == operation]
    return []


def not_active(rows: tuple[tuple[str, str, str], ...]) -> Grid:
    """The table of what is stored and not active."""
    heads = ("Name", "Why it is not active", "Look at it")
    return Grid(heads, rows, "Stored, and not active", code=frozenset({heads[0], heads[2]}))


TRUST = {
    "review": Command(
        "review NAME",
        "look at a stored operation or handler that is not active or not reviewed",
        _review,
        ("operation",),
    ),
    "trust": Command(
        "trust [revoke NAME]",
        "what you approved that is active; take an approval back",
        _trust,
        ("trust",),
    ),
}
