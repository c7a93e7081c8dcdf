"""`Question`: what a pending asks, before anybody decides: its fields, what an approval binds to, what is shown."""

from __future__ import annotations

import secrets
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tract_jupyter.hooks import introspection
from tract_jupyter.hooks.introspection import offered
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.models.text import printable
from tract_jupyter.review.decision import Subject, fingerprint, outcome_text
from tract_jupyter.review.display import showable
from tract_jupyter.review.request import ReviewRequest, ValueTable
from tract_jupyter.review.source import calling_site
from tract_jupyter.storage.interrupts import whole_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from tract_jupyter.models.schema import Parameters
    from tract_jupyter.review.channel import Asked
    from tract_jupyter.review.decision import Decision
    from tract_jupyter.review.request import CodeBlock, ValueRow
    from tract_jupyter.storage.questions import StoredDecision, StoredPending

OnTimeout = Literal["wait", "deny", "stop"]


class Question:
    """What is asked, and where it stands.

    Args:
        operation: the operation's name.
        tract: the tract it belongs to.
        fields: what it is about; validated by whoever makes it.
        execute_fn: what `approve` runs, given the pending; its result becomes `result`.
        triggered_by: what set it off, for the log.
        actor: who set it off: `user` or `agent:<id>`.
        timeout: seconds that a decision may take, None for any time.
        on_timeout: what it means if that time is over: `wait` on, `deny` (it expires), or `stop` waiting with an error,
            while it stays in the inbox.
    """

    _public_actions: ClassVar[frozenset[str]]
    labels: ClassVar[Mapping[str, str]] = {"approve": "Approve", "reject": "Reject"}
    """What the buttons of the built-in decisions say."""
    in_view: ClassVar[frozenset[str] | None] = None
    """The fields that `code_blocks` and `tables` show in full; None for all. The others are shown in a table behind."""
    machinery: ClassVar[frozenset[str]] = frozenset()
    """The fields that only doing it needs, and that nobody decides about: shown, but folded."""

    is_renewed: bool = False
    """Whether, asked again, the newer one takes the place of the open one: it holds more than the question."""

    operation: str
    tract: Any
    pending_id: str
    created_at: datetime
    is_unshown: bool
    """Whether it is in the inbox only since code made it, and nobody was asked about it."""
    branch: str | None
    """The branch that was current when it was asked; None if there was none."""
    status: PendingStatus
    fields: dict[str, Any]
    triggered_by: str | None
    actor: str
    timeout: float | None
    on_timeout: str
    rejection_reason: str
    error: str | None
    executed_at: datetime | None
    result: Any
    rounds: int
    """How many decisions on it this process knows of."""
    deciding_thread: int | None
    """The thread that carries a decision out at the moment."""
    decision: Decision | None
    """The last decision on it."""
    unfinished: StoredDecision | None
    """An approval that was not carried out to its end, as the process that had it ended; asked about again."""
    note: str
    """What the person who decided should know."""
    doubt: str
    """What is wrong with the way it lies in the store, where it was made again from there."""
    unguarded: str
    """That a handler which would decide first is not approved here, where a person is asked for that reason."""
    origin: str | None
    """Who asked, where that was not this process: another one, or whoever wrote it into the store."""
    not_granted: str
    """That a standing approval would cover it, but for somebody else."""
    origins: tuple[ValueRow, ...]
    """Where the values come from that a script gives, as far as that is known."""

    def __init__(
        self,
        operation: str,
        *,
        tract: Any,
        fields: dict[str, Any],
        execute_fn: Callable[[Any], Any] | None = None,
        triggered_by: str | None = None,
        actor: str = "user",
        timeout: float | None = None,
        on_timeout: OnTimeout = "wait",
    ) -> None:
        self.operation = operation
        self.tract = tract
        self.fields = fields
        self.triggered_by = triggered_by
        self.actor = actor
        self.timeout = timeout
        self.on_timeout = on_timeout
        self.pending_id = secrets.token_hex(8)
        self.created_at = datetime.now(UTC)
        self.branch = tract.current_branch
        self.is_unshown = False
        self.status = PendingStatus.PENDING
        self.rejection_reason = ""
        self.error = None
        self.executed_at = None
        self.result = None
        self.rounds = 0
        self.deciding_thread = None
        self.decision = None
        self.unfinished = None
        self.note = ""
        self.doubt = ""
        self.unguarded = ""
        self.origin = None
        self._named = ""
        self.not_granted = ""
        self.origins = ()
        self._execute_fn = execute_fn
        self._place = calling_site()
        self._asking: CodeBlock | None = None

    def __init_subclass__(cls) -> None:
        cls._public_actions = offered(cls)

    def adopt(self, stored: StoredPending, decision: Decision | None) -> None:
        """Take over what another process made of it."""
        self.status = PendingStatus(stored.status)
        self.fields, self.error, self.executed_at = stored.fields, stored.error, stored.executed_at
        self.decision = decision or self.decision
        if self.status is PendingStatus.REJECTED and decision is not None:
            self.rejection_reason = decision.reason

    # --- what a decision binds to

    @property
    def fingerprint(self) -> str:
        """What an approval of this, as it is now, binds to: 64 hex digits."""
        return fingerprint("pending", self.operation, "", self.fields)

    @property
    def identity(self) -> str:
        """The fingerprint without what the author calls volatile: what a recorded decision is found by."""
        return self.fingerprint

    @property
    def subject(self) -> Subject | None:
        """What a standing approval could be about; None if it is asked about each time."""
        return None

    def repeats(self, other: Asked) -> bool:
        """Whether it asks the very same as another question of the same identity, which may lie in the store."""
        return self.fingerprint == other.fingerprint

    @property
    def resumable(self) -> bool:
        """Whether another process could carry it out; not if what it runs lives in this one."""
        return False

    @property
    def is_named(self) -> bool:
        """Whether the code that decides has said that it decides about this fingerprint, as it is now."""
        return self._named == self.fingerprint

    @property
    def is_definition(self) -> bool:
        """Whether an approval makes code active that then runs by itself."""
        return False

    @property
    def expires_at(self) -> datetime | None:
        """After that it cannot be approved any more; None for never."""
        if self.timeout is None or self.on_timeout != "deny":
            return None
        return self.created_at + timedelta(seconds=self.timeout)

    def runs_nothing(self, action: str) -> bool:  # noqa: ARG002
        """Whether the decision leaves undone what an action of its own would do."""
        return False

    def edited(
        self,
        action: str,  # noqa: ARG002
        arguments: Mapping[str, Any],  # noqa: ARG002
        *,
        keep: bool = True,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Change the fields as an approval says; back again if the block raises, or with `keep=False`."""
        return nullcontext()

    @whole_context
    def _changed(self, fields: dict[str, Any], *, keep: bool) -> Iterator[None]:
        """Put other fields in the place of its own; see `edited`."""
        before, self.fields = self.fields, fields
        try:
            yield
        except BaseException:
            self.fields = before
            raise
        if not keep:
            self.fields = before

    # --- what can be done about it

    @property
    def offered_actions(self) -> frozenset[str]:
        """The names of all that can be done about it, or read of it."""
        return self._public_actions

    def owner_of_action(self, name: str) -> type[Question]:  # noqa: ARG002
        """The class whose method of that name says what it takes, and what it is for."""
        return type(self)

    # --- what a reviewer is shown

    @property
    def title(self) -> str:
        """The heading of its panel."""
        return self.operation

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """The code that would run."""
        return ()

    def tables(self) -> tuple[ValueTable, ...]:
        """The values that it would run on."""
        return introspection.field_tables(self)

    def more_tables(self) -> tuple[ValueTable, ...]:
        """What an approval binds to besides, and the tables do not say."""
        return introspection.rest_tables(self)

    def summary(self) -> str:
        """What it is, in a sentence or two."""
        return (type(self).__doc__ or "").strip()

    def why(self) -> str:
        """Why a person is asked."""
        return f"asked by {self.triggered_by}" if self.triggered_by else ""

    def editable(self) -> Parameters | None:
        """The fields that may be changed before approving, with the present values as defaults."""
        return None

    def asking_block(self) -> CodeBlock | None:
        """The line of code that asked, where that says something."""
        return self._asking if self._place is None else self._place.block()

    def asked_earlier(self, block: CodeBlock | None) -> None:
        """Take over the line that asked: made again from the store, this object has another maker."""
        self._place, self._asking = None, block

    def review_request(self, note: str = "") -> ReviewRequest:
        """Everything that is shown, as data."""
        asking = self.asking_block()
        asked_by = () if asking is None else (replace(asking, binds="nothing"),)
        request = ReviewRequest(
            pending_id=self.pending_id,
            title=self.title,
            summary=self.summary(),
            why=" ".join(
                filter(
                    None,
                    [
                        self.doubt,
                        introspection.unfinished_text(self.unfinished),
                        self.unguarded,
                        self.not_granted,
                        self.why(),
                    ],
                )
            ),
            fingerprint=self.fingerprint,
            actions=introspection.review_actions(self),
            code=(*self.code_blocks(), *asked_by),
            tables=(*self.tables(), *self.more_tables(), *self._origin_table()),
            fields=self.editable(),
            subject=self.subject,
            note=note,
        )
        return showable(request)

    def _origin_table(self) -> tuple[ValueTable, ...]:
        rows = self.origins
        return (ValueTable("Where the values come from", rows, "nothing"),) if rows else ()

    # --- introspection

    def to_dict(self) -> dict[str, Any]:
        """What a model needs to decide, long values cut."""
        return introspection.to_dict(self)

    def to_tools(self) -> list[dict[str, Any]]:
        """Its actions as tools in OpenAI's shape."""
        return introspection.to_tools(self)

    def describe_api(self) -> str:
        """Its fields and actions in Markdown."""
        return introspection.describe_api(self)

    def pprint(self) -> None:
        """Print it."""
        print(introspection.to_text(self))  # noqa: T201 # that is what it is for

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.pending_id[:8]}: {self.status}{_detail(self)}>"


def _detail(question: Any) -> str:
    if question.status is PendingStatus.REJECTED and question.rejection_reason:
        return f", {question.rejection_reason!r}"
    if question.status is PendingStatus.APPROVED and outcome_text(question):
        return f", {outcome_text(question)}"
    return f", {printable(question.error)}" if question.error else ""
