"""Operations that become active without a person: new ones of a model, all of whose code runs in the sandbox.

All that such code can do is to decide about a pending that somebody fired, and its fields. Who may fire it, and who may
choose its actions, is asked about as ever. What it could take away is a name that means something to a person: so it
takes none that was ever in use here, or asked for. It is signed as not reviewed, and stands so in every list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.hooks.builtin.activation import PendingActivation, titles
from tract_jupyter.review.decision import deciding

if TYPE_CHECKING:
    from tract_jupyter.hooks.dynamic.pending import DynamicPending
    from tract_jupyter.hooks.dynamic.spec import OperationSpec
    from tract_jupyter.hooks.registry import OperationRegistry
    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.events import EventRows
    from tract_jupyter.storage.specs import SpecRows

UNREVIEWED_KIND = "operation-spec-unreviewed"
"""What the signature of such a spec is for; that of an approval is another."""
NOT_REVIEWED: Final = {"reviewed": False, "why": "it is new, and all of its code runs in the sandbox"}
"""In the event of its activation."""
MOST_UNREVIEWED = 20
"""At a time: each is a tool that models are told about."""
_MOST_LOOKED_AT = 1_000


class Unreviewed:
    """The part of `Operations` that activates what needs no review."""

    registry: OperationRegistry
    quarantined: dict[str, str]
    _tract: Any
    _database: Database
    _specs: SpecRows
    _events: EventRows
    _ledger: Ledger

    def activate(self, spec: OperationSpec, *, actor: str, reviewed: bool) -> type[DynamicPending]:
        """See `Operations`."""
        raise NotImplementedError

    def _needs_no_review(self, spec: OperationSpec) -> bool:
        """Whether all of its code runs in the sandbox, and its name never meant anything here."""
        is_crowded = len(self.registry.unreviewed) >= MOST_UNREVIEWED
        return spec.is_sandboxed and not is_crowded and not self._was_known(spec.name)

    def _was_known(self, name: str) -> bool:
        """Whether an operation of that name is or was active, stored, or asked for, whatever came of it."""
        if self.registry.is_registered(name) or name in self.quarantined:
            return True
        with self._database.read() as connection:
            if self._specs.get(connection, name) is not None:
                return True
            events = self._events.newest(connection, "operation.*", _MOST_LOOKED_AT)
        was_active = any(event.data.get("name") == name for event in events)
        return was_active or self._ledger.was_asked(titles(name))

    def _activated_unreviewed(self, spec: OperationSpec, *, actor: str, **options: Any) -> PendingActivation:
        """Activate it through the gate, as nobody's decision."""
        pending = PendingActivation(
            spec,
            tract=self._tract,
            activate=lambda approved: self.activate(approved, actor=actor, reviewed=False),
            actor=actor,
            **options,
        )
        with deciding("automatic", "nobody"):
            pending.approve()
        return pending
