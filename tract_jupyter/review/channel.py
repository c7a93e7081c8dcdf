"""A channel: a way to reach a person.

The ladder, climbed down by what is observed and never by versions: a panel whose front end says `ready`; a prompt
where the front end takes input; else nobody can be asked, which is said at once.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    from tract_jupyter.models.pending import PendingStatus
    from tract_jupyter.review.decision import Answer, Decision
    from tract_jupyter.review.fingerprint import Subject
    from tract_jupyter.review.recorded import Recorded
    from tract_jupyter.review.request import ReviewRequest
    from tract_jupyter.review.ticket import Ticket
    from tract_jupyter.storage.decisions import StoredDecision
    from tract_jupyter.storage.pendings import StoredPending


class Asked(Protocol):
    """What is or was asked: a pending, or its row."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """What it is about."""
        ...

    @property
    def fingerprint(self) -> str:
        """What an approval of it binds to."""
        ...


class Reviewable(Protocol):
    """What can be decided: every `Pending`."""

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
    timeout: float | None
    runs_elsewhere: bool

    @property
    def title(self) -> str:
        """The heading of its panel."""
        ...

    @property
    def fingerprint(self) -> str:
        """What an approval of it, as it is now, binds to."""
        ...

    @property
    def is_named(self) -> bool:
        """Whether the code that decides has said which text it decides about."""
        ...

    @property
    def is_definition(self) -> bool:
        """Whether an approval makes code active that then runs by itself."""
        ...

    @property
    def expires_at(self) -> datetime | None:
        """After that it cannot be approved any more."""
        ...

    @property
    def identity(self) -> str:
        """The same without what the author calls volatile: what a recorded decision is found by."""
        ...

    @property
    def subject(self) -> Subject | None:
        """What a standing approval could be about; None if it is asked about each time."""
        ...

    @property
    def resumable(self) -> bool:
        """Whether another process could carry it out."""
        ...

    @property
    def is_renewed(self) -> bool:
        """Whether, asked again, the newer one takes the place of the open one, in the same process too."""
        ...

    def repeats(self, other: Asked) -> bool:
        """Whether it asks the very same as another question of the same identity."""
        ...

    def runs_nothing(self, action: str) -> bool:
        """Whether an action leaves undone what another one would do."""
        ...

    def is_instant(self, action: str) -> bool:
        """Whether an action only decides, so that there is nothing to carry out."""
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
        """Everything that is shown, as data."""
        ...

    def execute_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out an offered action."""
        ...

    def adopt(self, stored: StoredPending, decision: Decision | None) -> None:
        """Take over what another process made of it."""
        ...


class Channel(Protocol):
    """How requests reach a person and answers come back. `notebook.channels` has the real one."""

    name: str

    def can_reach(self) -> bool:
        """Whether anything but a refusal makes sense: a panel that may be live, or a prompt."""
        ...

    def recorded(self) -> Recorded | None:
        """The recorded decisions that count here, where no person can be reached; None if none do."""
        ...

    def refuses_code(self, pending: Reviewable, *, was_shown: bool) -> str:
        """Return why code may not approve something here, and what to do; empty if it may."""
        ...

    def show(self, ticket: Ticket) -> None:
        """Show the request, or show it anew: a new round, or decided."""
        ...

    def forget(self, ticket: Ticket) -> None:
        """Show the request in a new place the next time."""
        ...

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:
        """Whether to go on waiting for a panel, `waited` seconds after the first showing, rather than prompt."""
        ...

    def prompt(self, ticket: Ticket, *, may_wait: bool = False) -> Answer | None:
        """Ask by `input()`; None where the front end takes no input, or if the person may wait, and would rather."""
        ...

    def later(self, ticket: Ticket, run: Callable[[], None]) -> None:
        """Run what follows from a ticket's answer soon, in a fresh task of the main thread."""
        ...

    def interruptible(self) -> AbstractContextManager[None]:
        """Let the stop button end what blocks within it."""
        ...

    def watch(self, look: Callable[[], bool]) -> bool:
        """Call `look` now and then on the main thread, when that is idle, until it says False.

        Returns:
            Whether it will.
        """
        ...


class NoChannel:
    """Nobody can be asked: a script, a worker, a test."""

    name = "none"

    def can_reach(self) -> bool:
        """No."""
        return False

    def recorded(self) -> Recorded | None:
        """None: a script decides in its own code."""
        return None

    def refuses_code(self, pending: Reviewable, *, was_shown: bool) -> str:  # noqa: ARG002
        """Nothing: a script decides in its own code."""
        return ""

    def show(self, ticket: Ticket) -> None:
        """Nothing to show it on."""

    def forget(self, ticket: Ticket) -> None:
        """It was nowhere."""

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:  # noqa: ARG002
        """There is none."""
        return False

    def prompt(self, ticket: Ticket, *, may_wait: bool = False) -> Answer | None:  # noqa: ARG002
        """No input."""
        return None

    def later(self, ticket: Ticket, run: Callable[[], None]) -> None:  # noqa: ARG002
        """There is no other task: now."""
        run()

    def interruptible(self) -> AbstractContextManager[None]:
        """An interrupt does so anyway."""
        return nullcontext()

    def watch(self, look: Callable[[], bool]) -> bool:  # noqa: ARG002
        """Nothing is on display that could change."""
        return False
