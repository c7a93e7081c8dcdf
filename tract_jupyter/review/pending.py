"""`Pending`: a request that awaits a decision, with its fields, its actions and the subject of an approval.

There are four ways to decide a pending, with the same effect and the same row in the store: Python (`p.approve()`), a
dict (`p.apply_decision({"action": "approve"})`), a model with the tools `p.to_tools()`, and a click in a panel.

An action decides the pending or changes its fields. The outermost call of an action goes through the gate, which
stores it.
"""

from __future__ import annotations

import functools
import secrets
import traceback
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from tract_jupyter.exceptions import (
    ContentError,
    FingerprintError,
    PendingError,
    PendingStateError,
    SpecError,
    nearest,
)
from tract_jupyter.models import (
    PendingStatus,
    brief_repr,
    canonical_json,
    check_text,
    printable,
    repr_of_whole,
)
from tract_jupyter.review import introspection
from tract_jupyter.review.decision import (
    Question,
    Subject,
    approval_terms,
    deciding_by_default,
    decision_context,
    fingerprint,
    on_terms,
    own_arguments,
)
from tract_jupyter.review.display import showable
from tract_jupyter.review.introspection import gated, offered, reading
from tract_jupyter.review.request import ReviewRequest, TextChoice, ValueTable
from tract_jupyter.review.source import calling_site
from tract_jupyter.storage import interruptible, protected_context

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Self

    from tract_jupyter.models import LLMClient
    from tract_jupyter.models.schema import Parameters
    from tract_jupyter.rehearsal import Effects
    from tract_jupyter.review.consulting import Consultation
    from tract_jupyter.review.decision import Decision
    from tract_jupyter.review.request import CodeBlock, ValueRow
    from tract_jupyter.storage import StoredDecision, StoredPending

OnTimeout = Literal["wait", "deny", "stop"]
RunsIn: TypeAlias = Literal["", "kernel", "sandbox"]
"""The place where the code of a request runs; empty if it has none."""

F = TypeVar("F", bound="Callable[..., Any]")


def action(method: F) -> F:
    """Make a method of a pending one of its actions. Arguments are validated against its type hints."""
    name = method.__name__

    @functools.wraps(method)
    def act(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        parameters = introspection.action_parameters(type(self), name)
        arguments = parameters.validate(parameters.bind(args, kwargs))
        call = functools.partial(method, self, **arguments)
        if not self.is_instant(name):  # it may take long, and every end is recorded
            call = functools.partial(interruptible, call)
        return self.through_gate(name, arguments, call)

    return gated(act)  # type: ignore[return-value]


_FEWEST_DIGITS = 8  # digits that identify a fingerprint


CLIENT: Final = "mcp:"
"""The prefix of the actors of MCP clients."""


def client_left_note(actor: str) -> str:
    """Return the note about a request whose client has left."""
    return (
        f"The client no longer waits for this call ({actor}). If you approve it, nothing runs now. The approval waits "
        "for the identical call of this client."
    )


def not_run_note(actor: str) -> str:
    """Return the note about an approval that runs nothing now, because the client that asked has left."""
    return (
        f"The client no longer waits ({actor}), so nothing ran. The decision waits: if the client makes the identical "
        "call again, that call uses it and you are not asked again."
    )


class Pending:
    """A request that awaits a decision.

    Args:
        operation: the operation's name.
        tract: the owner.
        fields: the values of the request, validated by the caller.
        execute_fn: `approve` calls it with the pending and stores its result in `result`.
        triggered_by: the cause, for the log.
        actor: `user` or `agent:<id>`.
        timeout: seconds to wait for a decision; None for no limit.
        on_timeout: the effect of the limit: `wait` (none), `deny` (the request expires), or `stop` (waiting raises an
            error, and the request stays in the inbox).
    """

    _public_actions: ClassVar[frozenset[str]]
    labels: Mapping[str, str] = MappingProxyType({"approve": "Approve", "reject": "Reject"})
    """The labels of the buttons of built-in decisions."""
    good_notes: ClassVar[frozenset[str]] = frozenset()
    """The notes that report the effect of the user's own click, and no problem."""
    leading: str = ""
    """The action that is offered first, instead of `approve`. Empty for none."""
    in_view: ClassVar[frozenset[str] | None] = None
    """The fields that `code_blocks` and `tables` show in full; None for all. Another table shows the rest."""
    machinery: ClassVar[frozenset[str]] = frozenset()
    """The technical fields, which a page folds."""

    without_button: ClassVar[frozenset[str]] = frozenset()
    """The actions without a button, because the user can change values before approving instead."""

    preparing: ClassVar[frozenset[str]] = frozenset()
    """The actions that change the fields and decide nothing."""

    runs_elsewhere: bool = False
    """True if this process only stores the decision. The process that asked, or the identical call, carries it out."""
    is_renewed: bool = False
    """True if a newer identical request replaces the open one, because it holds newer state."""

    operation: str
    tract: Any
    pending_id: str
    created_at: datetime
    is_unshown: bool
    """True if code put it into the inbox, and no user was asked yet."""
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
    """The number of decisions on it that this process knows of."""
    deciding_thread: int | None
    """The thread that is carrying out a decision."""
    decision: Decision | None
    """The last decision on it."""
    unfinished: StoredDecision | None
    """An approval whose process ended before the action did. The user decides again."""
    note: str
    """A note for the user who decided."""
    doubt: str
    """The reason to distrust the stored form of a rebuilt pending."""
    unguarded: str
    """The reason to ask the user instead of a handler that is not approved here."""
    origin: str | None
    """The process that asked; None for this one."""
    caution: str
    """The reason to look twice: the call that asks this may have run before, or its reply is not signed."""
    not_granted: str
    """A note about a standing approval of another actor that would cover the request."""
    advice: str
    """The words of a model that reviewed it first and left it to the user, quoted and marked."""
    origins: tuple[ValueRow, ...]
    """The origins of the values that a script gives, as far as they are known."""

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
        if triggered_by is not None:
            check_text(triggered_by, "triggered_by", error=PendingError)
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
        self._question: Question | None = None
        self.caution = ""
        self.not_granted = ""
        self.origins = ()
        self._execute_fn = execute_fn
        self._place = calling_site()
        self._asking: CodeBlock | None = None

    def __init_subclass__(cls) -> None:
        cls._public_actions = offered(cls)

    def adopt(self, stored: StoredPending, decision: Decision | None) -> None:
        """Take over the state that another process stored."""
        self.status = PendingStatus(stored.status)
        self.fields, self.error, self.executed_at = stored.fields, stored.error, stored.executed_at
        self.decision = decision or self.decision
        if self.status is PendingStatus.REJECTED and decision is not None:
            self.rejection_reason = decision.reason

    # --- decisions

    @action
    def approve(self) -> Any:
        """Approve, run the code if there is any, and return its result."""
        return self.run_approved()

    @action
    def reject(self, reason: Annotated[str, "Reason (shown to the caller)"] = "") -> None:
        """Reject, with a reason."""
        self._require_open("reject")
        self.status = PendingStatus.REJECTED
        self.rejection_reason = reason

    @gated  # not an @action: a handler that passes it on decides nothing
    def pass_through(self) -> None:
        """Leave the decision to the next handler."""
        self._require_open("pass_through")
        if decision_context().channel == "handler":
            self.status = PendingStatus.PASSED_THROUGH
        else:
            self.through_gate("pass_through", {}, self._passed)

    def named(self, fingerprint: str) -> Self:
        """Confirm the version that you have read, and return the pending for its approval.

        In a notebook, code must do this before it approves a definition that was not shown there.

        Args:
            fingerprint: the fingerprint, or at least its first 8 digits.

        Raises:
            FingerprintError: the pending has another fingerprint.
        """
        if len(fingerprint) < _FEWEST_DIGITS or not self.fingerprint.startswith(fingerprint):
            raise FingerprintError(
                f"{self.title!r} does not have the fingerprint {fingerprint[:64]!r}; read the current version. "
                f"Pass at least {_FEWEST_DIGITS} digits."
            )
        self._named = self.fingerprint
        return self

    @reading
    def get_state(self) -> dict[str, Any]:
        """Return the whole state, without cuts."""
        return introspection.state(self)

    def apply_decision(self, decision: Mapping[str, Any]) -> Any:
        """Carry out `{"action": name, "args": {...}}`.

        Raises:
            SpecError: the action is missing, or not offered.
            ParameterError: the arguments do not fit.
            PendingStateError: it is already decided.
        """
        if "action" not in decision:
            raise SpecError(
                'a decision is a dict such as {"action": "approve", "args": {}}; "action" is missing'
            )
        with deciding_by_default("dict"):
            return self.execute_tool(decision["action"], decision.get("args") or {})

    def execute_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out an offered action by name, as in a model's tool call."""
        if not isinstance(name, str) or name not in self.offered_actions:
            offered = ", ".join(sorted(self.offered_actions))
            raise SpecError(f"{self.operation!r} offers no action {name!r}.{nearest(str(name), self.offered_actions)} "
                            f"Actions: {offered}")  # fmt: skip
        has_terms = name != "approve" and isinstance(arguments, dict)
        terms = approval_terms(name, arguments) if has_terms else {}
        action_arguments = own_arguments(arguments) if terms else arguments
        values = introspection.action_parameters(self.owner_of_action(name), name).validate(action_arguments)
        with deciding_by_default("tool"), self.on_terms(terms):
            return self.carry_out_action(name, values)

    def on_terms(self, terms: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Decide an operation's action on the terms of `approve`: `edits`, `scope` and the others."""
        if not terms:
            return nullcontext()
        introspection.action_parameters(type(self), "approve").validate(terms)
        return on_terms(terms)

    def carry_out_action(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out an offered action with validated arguments."""
        return getattr(self, name)(**arguments)

    def through_gate(self, name: str, arguments: dict[str, Any], run: Callable[[], Any]) -> Any:
        """Run an action through the gate."""
        __tracebackhide__ = True
        return self.tract.review.gate.carry_out(self, name, arguments, run)

    def __await__(self) -> Generator[Any, None, Pending]:
        """Ask the user and wait. `await pending` returns the decided pending."""
        return self._decided().__await__()

    def consult(
        self,
        instruction: str,
        *,
        client: LLMClient | None = None,
        system_prompt: str | None = None,
        max_turns: int = 3,
    ) -> Consultation:
        """Let a model decide. It gets the fields and the actions, and its tool calls are carried out.

        A mistake (no call, an unknown action, wrong arguments, an action that raises) is reported to the model and
        counts as a turn. After the last turn the pending stays open. A model cannot give a standing approval.

        Args:
            instruction: the criteria for the decision.
            client: the model; the default is the tract's.
            system_prompt: replaces the default prompt.
            max_turns: the maximum number of replies.

        Raises:
            LLMError: there is no client, or it returned no reply.
            PendingStateError: it is already decided.
        """
        from tract_jupyter.review.consulting import consult

        return consult(
            self,
            instruction,
            client=self.tract.models.client_for("consult", client),
            system_prompt=system_prompt,
            max_turns=max_turns,
        )

    def review(self, prompt_fn: Callable[[str], str] | None = None) -> PendingStatus:
        """Ask at the terminal until the user decides. An empty answer leaves the request in the inbox.

        The prompt is the same as in a notebook: the user can change values first (`edit`), and give a standing approval
        (`session`, `always`) if a panel would offer it.

        Args:
            prompt_fn: prints a question and returns the typed text; the default is `input`.
        """
        from tract_jupyter.review.prompt import ask_until_decided

        status = ask_until_decided(self, prompt_fn or input)  # looked up now, because a kernel replaces it
        if status.is_open:
            self.tract.reviewer.keep(self)
        return status

    async def _decided(self) -> Pending:
        __tracebackhide__ = True
        if self.status.is_open:
            await self.tract.reviewer.decide(self)
        return self

    # --- the subject of a decision

    @property
    def question(self) -> Question:
        """A snapshot of the request. It is computed again if the fields change.

        Raises:
            ContentError: a field has no JSON form, so an approval cannot bind to it.
        """
        fields_json = canonical_json(self.fields)
        if self._question is None or self._question.fields_json != fields_json:
            self._question = self._frozen(fields_json)
        return self._question

    def freeze(self) -> Question:
        """Compute the question without the cache."""
        self._question = self._frozen(canonical_json(self.fields))
        return self._question

    def _frozen(self, fields_json: str) -> Question:
        pinned = fingerprint(*self.binding()[:4])
        subject = self.subject
        is_values = subject is not None and not subject.rule  # a rule covers different texts
        return Question(fields_json, pinned, fingerprint(*subject[:4]) if subject and is_values else pinned)

    @property
    def fingerprint(self) -> str:
        """The fingerprint that an approval binds to now: 64 hex digits."""
        return self.question.fingerprint

    @property
    def identity(self) -> str:
        """The fingerprint without volatile fields. Recorded decisions are found by it."""
        return self.question.identity

    def binding(self) -> Subject:
        """Return the subject of an approval: all fields, or the definition in them."""
        return Subject("pending", self.operation, "", self.fields)

    @property
    def subject(self) -> Subject | None:
        """The subject of a standing approval; None if each request needs a decision."""
        return None

    def repeats(self, other: Pending | StoredPending) -> bool:
        """Return True if it is the same request as another pending or stored row with the same identity."""
        try:
            return self.fingerprint == other.fingerprint
        except ContentError:  # a field has a value without JSON form
            return False

    @property
    def resumable(self) -> bool:
        """True if another process can carry it out, because the code does not live in this one."""
        return False

    @property
    def is_named(self) -> bool:
        """True if `named` confirmed the current fingerprint."""
        return self._named == self.fingerprint

    @property
    def is_definition(self) -> bool:
        """True if an approval makes code active that then runs by itself."""
        return False

    @property
    def expires_at(self) -> datetime | None:
        """The time at which the request expires; None for never."""
        if self.timeout is None or self.on_timeout != "deny":
            return None
        return self.created_at + timedelta(seconds=self.timeout)

    def runs_nothing(self, action: str) -> bool:  # noqa: ARG002
        """Return True if an action approves but runs nothing, while another action would run code."""
        return False

    def edited(
        self,
        action: str,  # noqa: ARG002
        arguments: Mapping[str, Any],  # noqa: ARG002
        *,
        keep: bool = True,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Apply the `edits` of an approval. Restore the fields if the block raises, or with `keep=False`."""
        return nullcontext()

    @protected_context
    def _changed(self, fields: dict[str, Any], *, keep: bool) -> Iterator[None]:
        """Replace the fields; see `edited`."""
        before, self.fields = self.fields, fields
        try:
            yield
        except BaseException:
            self.fields = before
            raise
        if not keep:
            self.fields = before

    def is_instant(self, action: str) -> bool:
        """Return True if an action only decides and runs nothing."""
        if action in {"reject", "pass_through"}:
            return True
        return action == "approve" and self._execute_fn is None and not self.runs_elsewhere

    def check_fields(self) -> None:
        """Check the types of the fields.

        Raises:
            TractError: a field has a wrong type. Nothing is displayed or decided then.
        """
        if not isinstance(self.fields, dict):
            raise PendingError(
                f"the fields of {self!r} must be a dict, not {brief_repr(self.fields)}. Nothing was decided; "
                "correct them, and decide again"
            )

    def check_current(self) -> None:
        """Check that the code it would run is still active.

        Raises:
            FingerprintError: it was replaced or removed since.
        """

    # --- actions

    @property
    def offered_actions(self) -> frozenset[str]:
        """The names of the available actions and readings."""
        return self._public_actions

    def owner_of_action(self, name: str) -> type[Pending]:  # noqa: ARG002
        """Return the class that declares the action."""
        return type(self)

    # --- display

    @property
    def runs_in(self) -> RunsIn:
        """The place where its code runs; empty if it has none."""
        return ""

    @property
    def is_destructive(self) -> bool:
        """True if it may delete something permanently."""
        return False

    @property
    def title(self) -> str:
        """The heading of its panel."""
        return self.operation

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """Return the code that would run."""
        return ()

    def tables(self) -> tuple[ValueTable, ...]:
        """Return the input values."""
        return introspection.field_tables(self)

    def choices(self) -> tuple[TextChoice, ...]:
        """Return the choices between two texts, by name."""
        return ()

    def shown_effects(self) -> Effects | None:
        """Return the effects of its code on a contained copy of the kernel. None if it was not rehearsed."""
        return None

    def more_tables(self) -> tuple[ValueTable, ...]:
        """Return the fields that an approval binds to and `tables` does not show."""
        return introspection.rest_tables(self)

    def summary(self) -> str:
        """Describe it in a sentence or two."""
        return (type(self).__doc__ or "").strip()

    def why(self) -> str:
        """Return the reason for asking the user."""
        return f"asked by {self.triggered_by}" if self.triggered_by else ""

    def editable(self) -> Parameters | None:
        """Return the fields that the user may change, with the current values as defaults."""
        return None

    def asking_block(self) -> CodeBlock | None:
        """Return the line of code that asked, if it is known."""
        return self._asking if self._place is None else self._place.block()

    def asked_earlier(self, block: CodeBlock | None) -> None:
        """Set the line of code that asked. A rebuilt pending does not know it."""
        self._place, self._asking = None, block

    def review_request(self, note: str = "") -> ReviewRequest:
        """Return the request as data for display.

        Raises:
            TractError: a field has a wrong type, so it cannot be displayed.
        """
        self.check_fields()
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
                        self.caution and f"{self.caution}.",
                        self.not_granted,
                        self.why(),
                    ],
                )
            ),
            fingerprint=self.fingerprint,
            actions=introspection.review_actions(self),
            code=(*self.code_blocks(), *asked_by),
            tables=(*self.tables(), *self.more_tables(), *self._origin_table()),
            choices=self.choices(),
            fields=self.editable(),
            subject=self.subject,
            note=note or self.note,
            effects=self.shown_effects(),
        )
        return showable(request)

    def _origin_table(self) -> tuple[ValueTable, ...]:
        rows = self.origins
        return (ValueTable("Sources of the values", rows, "nothing"),) if rows else ()

    # --- introspection

    def to_dict(self) -> dict[str, Any]:
        """Return the request for a model, with long values cut."""
        return introspection.to_dict(self)

    def to_tools(self) -> list[dict[str, Any]]:
        """Return its actions as tools in OpenAI's shape."""
        return introspection.to_tools(self)

    def describe_api(self) -> str:
        """Describe its fields and actions in Markdown."""
        return introspection.describe_api(self)

    def pprint(self) -> None:
        """Print it for users."""
        print(introspection.to_text(self))  # noqa: T201 # it prints

    @repr_of_whole
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.pending_id[:8]}: {self.status}{_detail(self)}>"

    # --- for subclasses

    def run_approved(self) -> Any:
        """Mark as approved and run the code."""
        self._require_open("approve")
        self.status = PendingStatus.APPROVED
        if self.runs_elsewhere:
            self.note = not_run_note(self.actor)
            return None
        if self._execute_fn is not None:
            try:
                self.result = interruptible(self._execute_fn, self)
            except BaseException as error:  # an interrupted action has failed, and can run again
                self.fail(error)
                raise
        self.executed_at = datetime.now(UTC)
        self.error = None
        return self.result

    def fail(self, error: BaseException) -> None:
        """Store the error. Earlier decisions and effects stay."""
        if self.error is None or self.status.is_open:
            text = "".join(traceback.format_exception_only(error)).strip()
            self.error = text.encode("utf-8", "backslashreplace").decode()  # a surrogate cannot be stored
        if self.executed_at is None and self.status is not PendingStatus.REJECTED:
            self.status = PendingStatus.FAILED

    def _passed(self) -> None:
        self.status = PendingStatus.PASSED_THROUGH

    def _require_open(self, action: str) -> None:
        if not self.status.is_open:
            raise PendingStateError(
                f"{action!r} came too late for {self!r}: it is already decided; the first decision counts"
            )


Pending._public_actions = offered(Pending)  # noqa: SLF001 # `__init_subclass__` does it for the others


def _detail(pending: Pending) -> str:
    if pending.status is PendingStatus.REJECTED and pending.rejection_reason:
        return f", {pending.rejection_reason!r}"
    if pending.status is PendingStatus.APPROVED and introspection.outcome_text(pending):
        return f", {introspection.outcome_text(pending)}"
    return f", {printable(pending.error)}" if pending.error else ""
