"""A protocol of what can be decided, as this room knows it; every `Pending` satisfies it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from tract_jupyter.review.decision import NO_ACTION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    from tract_jupyter.models import PendingStatus
    from tract_jupyter.review.decision import Decision, Question, Subject
    from tract_jupyter.review.request import ReviewRequest
    from tract_jupyter.storage import StoredDecision, StoredPending

RunsIn: TypeAlias = Literal["", "kernel", "sandbox"]
"""The place where the code of a request runs; empty if it has no code."""


class Asked(Protocol):
    """A question, open or past: a pending, or its row."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The values that it is about."""
        ...

    @property
    def fingerprint(self) -> str:
        """The fingerprint that an approval of it binds to."""
        ...


class Reviewable(Protocol):
    """Something that can be decided: every `Pending`."""

    pending_id: str
    operation: str
    actor: str
    triggered_by: str | None
    fields: dict[str, Any]
    error: str | None
    rejection_reason: str
    created_at: datetime
    executed_at: datetime | None
    on_timeout: str
    result: Any
    status: PendingStatus
    rounds: int
    deciding_thread: int | None
    decision: Decision | None
    branch: str | None
    is_unshown: bool
    unfinished: StoredDecision | None
    note: str
    doubt: str
    unguarded: str
    origin: str | None
    not_granted: str
    advice: str
    timeout: float | None
    runs_elsewhere: bool

    @property
    def title(self) -> str:
        """The heading of its panel."""
        ...

    @property
    def question(self) -> Question:
        """The question as it is now, frozen."""
        ...

    def freeze(self) -> Question:
        """Compute the question anew."""
        ...

    @property
    def fingerprint(self) -> str:
        """The fingerprint that an approval of it, as it is now, binds to."""
        ...

    @property
    def is_named(self) -> bool:
        """True if the code that decides has said which text it decides about."""
        ...

    @property
    def is_definition(self) -> bool:
        """True if an approval makes code active that then runs by itself."""
        ...

    @property
    def expires_at(self) -> datetime | None:
        """The time after which it cannot be approved any more."""
        ...

    @property
    def identity(self) -> str:
        """The fingerprint without volatile fields, by which a recorded decision is found."""
        ...

    @property
    def subject(self) -> Subject | None:
        """The subject that a standing approval could have; None if it is asked about each time."""
        ...

    @property
    def resumable(self) -> bool:
        """True if another process could carry it out."""
        ...

    @property
    def runs_in(self) -> RunsIn:
        """The place where its code runs; empty if it has none."""
        ...

    @property
    def is_destructive(self) -> bool:
        """True if what it takes away may be gone for good."""
        ...

    @property
    def is_renewed(self) -> bool:
        """True if, asked again, the newer one replaces the open one, in the same process too."""
        ...

    def repeats(self, other: Asked) -> bool:
        """Return True if it asks the very same as another question of the same identity."""
        ...

    def runs_nothing(self, action: str) -> bool:
        """Return True if an action leaves undone what another one would do."""
        ...

    def is_instant(self, action: str) -> bool:
        """Return True if an action only decides, so that there is nothing to carry out."""
        ...

    def check_fields(self) -> None:
        """Check that the fields are of their types, whatever was put into them."""
        ...

    def check_current(self) -> None:
        """Check that what it would run is still what is active."""
        ...

    def edited(
        self, action: str, arguments: Mapping[str, Any], *, keep: bool = True
    ) -> AbstractContextManager[None]:
        """Change the fields as an approval says; back again if the block raises, or with `keep=False`."""
        ...

    def review_request(self, note: str = "") -> ReviewRequest:
        """Return everything that is shown, as data."""
        ...

    @property
    def offered_actions(self) -> frozenset[str]:
        """The names of all that can be done about it, or read of it."""
        ...

    def execute_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out an offered action."""
        ...

    def adopt(self, stored: StoredPending, decision: Decision | None) -> None:
        """Take over what another process made of it."""
        ...


def outcome_text(pending: Reviewable) -> str:
    """Describe what the last decision left undone; return an empty text if that is nothing."""
    made = pending.decision
    return NO_ACTION if made is not None and pending.runs_nothing(made.action) else ""
