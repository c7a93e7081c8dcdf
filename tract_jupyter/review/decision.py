"""A decision and its parts: the question, the answer, the decider and the channel.

A fingerprint is the sha256 of the canonical form of an operation: its kind, its name, the hash of its definition, and
the validated values with defaults filled in. A single changed character changes the fingerprint.
"""

from __future__ import annotations

import getpass
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import canonical_json, digest
from tract_jupyter.storage import interrupts, protected_context, to_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from tract_jupyter.storage import StoredDecision


CHAT: Final = "agent:chat"
"""The actor of a chat model's calls in a root tract."""


class Subject(NamedTuple):
    """The subject of a standing approval.

    Attributes:
        kind: `operation` or `tool`.
        definition_hash: 64 hex digits over the code and the schema.
        values: the validated values, without the values that the author declared volatile.
        ignored: the current volatile values. A standing approval ignores them.
        rule: a description of a standing approval that covers a kind of code instead of values. It holds for this
            session and this actor. Empty for all other subjects.
    """

    kind: str
    name: str
    definition_hash: str
    values: Mapping[str, Any]
    actor: str = ""
    ignored: Mapping[str, Any] = MappingProxyType({})
    rule: str = ""


class Question(NamedTuple):
    """A frozen question. A decision binds to it, and the store saves it.

    Attributes:
        fields_json: the fields as canonical JSON. A pending with these fields asks this question.
        fingerprint: 64 hex digits over the operation that would run.
        identity: the same hash without volatile values. It is the lookup key of recorded decisions.
    """

    fields_json: str
    fingerprint: str
    identity: str


def fingerprint(kind: str, name: str, definition_hash: str, values: Mapping[str, Any]) -> str:
    """Return the fingerprint: 64 hex digits.

    Raises:
        ContentError: a value has no JSON form, so an approval cannot bind to it.
    """
    return digest({"kind": kind, "name": name, "definition": definition_hash, "values": dict(values)})


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that a channel returns. The package checks it before carrying it out.

    Attributes:
        round_id: the id of the answered round. Answers to older rounds are ignored.
        seen: the keys of the displayed pieces, as a front end reports them. None if the channel shows everything before
            it asks.
        decided_by: the decider. None for the user at this kernel.
    """

    action: str
    arguments: dict[str, Any] = field(default_factory=dict)
    round_id: str = ""
    seen: frozenset[str] | None = None
    decided_by: str | None = None


def declare_personal(name: str) -> None:
    """Declare that a user decides over the channel with this name.

    Approvals over the channel can become standing approvals. Its decisions are recorded and count as the user's.
    """
    if name in _IMPERSONAL | _ANSWERABLE:
        raise ValueError(
            f"{name!r} is reserved for decisions of rules, models or code; use another name for a user's channel"
        )
    _PERSONAL.add(name)


def personal_channels() -> frozenset[str]:
    """Return the names of the channels over which a user decides. A dict or a tool call may come from a model."""
    return frozenset(_PERSONAL)


class DecisionContext(NamedTuple):
    """The circumstances of a decision: the channel, the decider, and the request that the decider saw.

    Attributes:
        channel: `code`, `dict`, `tool`, `panel`, `prompt`, `command`, `inbox`, `model`, `model-reviewer`, `handler`,
            `grant`, `recorded`, `timeout`, `automatic`, `call` or the name of a `personal_channel`. `call` means that
            the decision is part of the decision about the tool call that fired the operation.
        decided_by: a login name, `handler:<name>`, `model:<name>`, `grant:<id>`, or `nobody`.
        shown: the fingerprint of the request that the decider saw. None for code, which reads the pending itself.
        reason: the decider's reason. It is stored and signed with the decision, including reasons for approvals.
        terms: the approval terms that accompany one of the operation's actions; see `approval_terms`.
    """

    channel: str
    decided_by: str
    shown: str | None = None
    reason: str = ""
    terms: Mapping[str, Any] = MappingProxyType({})

    @property
    def is_personal(self) -> bool:
        """True if a user decided. False for a rule, a model or a timeout."""
        return self.channel not in _IMPERSONAL

    @property
    def needs_leave(self) -> bool:
        """True if the review channel may object to the decision. False for stored and automatic decisions.

        Code can claim to decide in a panel, and a handler can decide about pendings other than its argument.
        """
        return self.channel not in _SETTLED

    @property
    def was_shown(self) -> bool:
        """True if a user saw the request. A request that a model saw does not count."""
        return self.shown is not None and self.is_personal


_PERSONAL = {"code", "panel", "cell", "prompt", "command", "inbox"}
RECORDED = "recorded"
"""The channel of a recorded decision. It settles the same question if no user is available."""
_SETTLED = frozenset({"grant", RECORDED, "timeout", "automatic", "call"})
_IMPERSONAL = _SETTLED | {"model", "handler"}
_GRANTING = frozenset({"scope", "uses", "pattern", "whom"})
_ANSWERABLE = frozenset({"handler", "model", "dict", "tool"})
deciding_now: ContextVar[DecisionContext | None] = ContextVar("tract_deciding", default=None)
"""The circumstances of decisions by the current code. `deciding` sets them for a block."""


class DecidingAs:
    """A block that sets the context of all decisions inside it. Use each instance once."""

    __slots__ = ("__weakref__", "_context", "_token")

    def __init__(self, context: DecisionContext) -> None:
        self._context = context

    @interrupts.protected
    def __enter__(self) -> None:
        interrupts.begin(self, depth=0)  # the code of the block may be stopped
        self._token = deciding_now.set(self._context)

    @interrupts.protected
    def __exit__(self, *_: object) -> None:
        deciding_now.reset(self._token)
        interrupts.end(self, depth=2)


def deciding(
    channel: str, by: str | None = None, *, shown: str | None = None, reason: str = ""
) -> DecidingAs:
    """Record all decisions in a `with` block with this context. By default, the decider is this kernel's user."""
    return DecidingAs(DecisionContext(channel, by or current_person(), shown, reason))


def deciding_by_default(channel: str) -> AbstractContextManager[None]:
    """Act like `deciding`, unless an outer block has already set a context."""
    return deciding(channel) if deciding_now.get() is None else nullcontext()


@protected_context
def in_code() -> Iterator[None]:
    """Attribute decisions to the running code during a block.

    Decisions that a handler or a model causes stay attributed to that handler or model.
    """
    now = deciding_now.get()
    is_kept = now is not None and now.channel in _ANSWERABLE
    token = deciding_now.set(now._replace(terms={}) if now is not None and is_kept else None)
    try:
        yield
    finally:
        deciding_now.reset(token)


def current_person() -> str:
    """Return the login name of the user at this kernel."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no such user in this container
        return "unknown"


def decision_context() -> DecisionContext:
    """Return the context of decisions by the current code. The default is the `code` channel and the current user."""
    return deciding_now.get() or DecisionContext("code", current_person())


@dataclass(frozen=True, slots=True)
class Decision:
    """An accepted answer: the first answer of its round.

    `identity` belongs to the pending as the request showed it. `fingerprint` covers the decided values, including
    edits.
    """

    action: str
    arguments: dict[str, Any]
    channel: str
    fingerprint: str
    decided_by: str = field(default_factory=current_person)
    decided_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    identity: str = ""

    @classmethod
    def of(cls, stored: StoredDecision) -> Decision:
        """Convert a stored decision."""
        return cls(
            stored.action, stored.arguments, stored.channel, stored.fingerprint, stored.decided_by,
            stored.decided_at, stored.identity,
        )  # fmt: skip

    @property
    def is_personal(self) -> bool:
        """True if a user decided. False for a rule, a model or a timeout."""
        return self.channel not in _IMPERSONAL

    @property
    def reason(self) -> str:
        """The reason, or an empty string."""
        return str(self.arguments.get("reason", ""))

    def signed_text(self, pending_id: str, round_: int) -> str:
        """Return the text that the signature of a stored decision covers."""
        return canonical_json(
            [
                pending_id, round_, self.action, self.arguments, self.channel, self.fingerprint, self.decided_by,
                to_text(self.decided_at), self.identity,
            ]
        )  # fmt: skip


NO_ACTION = "no action ran"


def without_grant(action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a decision without the arguments that create a standing approval."""
    terms = approval_terms(action, arguments)
    lasting = {name: value for name, value in terms.items() if name not in _GRANTING}
    if action == "approve":
        return lasting
    return with_terms(action, own_arguments(arguments), lasting)


TERMS = "approval:"
"""The key for approval terms among the arguments of an operation's custom action. No parameter can have this name."""


def approval_terms(action: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the terms of a decision: the changed values (`edits`) and its duration (`scope` and related terms)."""
    terms: Any = arguments if action == "approve" else arguments.get(TERMS)
    return terms if isinstance(terms, dict) else {}


def own_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an action without the approval terms."""
    return {name: value for name, value in arguments.items() if name != TERMS}


def with_terms(action: str, arguments: Mapping[str, Any], terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an action combined with the approval terms."""
    if action == "approve":
        return {**arguments, **terms}
    return {**arguments, **({TERMS: dict(terms)} if terms else {})}


@protected_context
def on_terms(terms: Mapping[str, Any]) -> Iterator[None]:
    """Apply these terms to all decisions inside the block."""
    token = deciding_now.set(decision_context()._replace(terms=terms))
    try:
        yield
    finally:
        deciding_now.reset(token)
