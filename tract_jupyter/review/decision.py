"""The parts of a decision: the question, the answer, and the decision, with who made it and over which channel.

A fingerprint is the sha256 over the canonical form of what would run: the kind of thing, its name, the hash of its
definition and the validated values with defaults filled in. One changed character gives another one.
"""

from __future__ import annotations

import getpass
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.models import canonical_json, digest
from tract_jupyter.storage import interrupts, to_text, whole_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from tract_jupyter.storage import StoredDecision


class Subject(NamedTuple):
    """The subject of a standing approval.

    Attributes:
        kind: `operation` or `tool`.
        name: its name.
        definition_hash: 64 hex digits over its code and schema.
        values: the validated values, without those that the author calls volatile.
        actor: who asks for it.
        ignored: the values that are volatile, as they are now: a standing approval does not look at them.
        rule: in words, what a standing approval covers that is about a kind of code and not about values. It is for
            this session and this actor. Empty for all others.
    """

    kind: str
    name: str
    definition_hash: str
    values: Mapping[str, Any]
    actor: str = ""
    ignored: Mapping[str, Any] = MappingProxyType({})
    rule: str = ""


class Question(NamedTuple):
    """A question, frozen: what a decision binds to, and what the store keeps of it.

    Attributes:
        fields_json: the fields as canonical JSON; while a pending has these, its question is this one.
        fingerprint: 64 hex digits over what would run.
        identity: the same without what the author calls volatile: what a recorded decision is found by.
    """

    fields_json: str
    fingerprint: str
    identity: str


def fingerprint(kind: str, name: str, definition_hash: str, values: Mapping[str, Any]) -> str:
    """Return 64 hex digits.

    Raises:
        ContentError: a value has no JSON form, so what is approved could not be pinned down.
    """
    return digest({"kind": kind, "name": name, "definition": definition_hash, "values": dict(values)})


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that a channel returns. It is checked before it is carried out.

    Attributes:
        action: the name of the chosen action.
        arguments: its arguments.
        round_id: the showing of the request that it answers. An answer to an older one does not count.
        seen: the keys of what was on display, as a front end reports them; None from a channel that shows everything
            before it asks.
        decided_by: who chose it; None for the person at this kernel.
    """

    action: str
    arguments: dict[str, Any] = field(default_factory=dict)
    round_id: str = ""
    seen: frozenset[str] | None = None
    decided_by: str | None = None


def declare_personal(name: str) -> None:
    """Declare that a person decides over the channel of this name.

    Then its approvals can become standing ones, its decisions are recorded, and it counts as a person's.

    Raises:
        ValueError: the name belongs to a rule, a model or code.
    """
    if name in _IMPERSONAL | _ANSWERABLE:
        raise ValueError(
            f"{name!r} is not a name for a person's channel: decisions of that kind are nobody's, a rule's or a model's"
        )
    _PERSONAL.add(name)


def personal_channels() -> frozenset[str]:
    """Return the names of the channels over which a person decides. A dict or a tool call may be a model's."""
    return frozenset(_PERSONAL)


class DecisionContext(NamedTuple):
    """The circumstances of a decision: the channel, the decider, what they were shown.

    Attributes:
        channel: `code`, `dict`, `tool`, `panel`, `prompt`, `command`, `inbox`, `model`, `model-reviewer`, `handler`,
            `grant`, `recorded`, `timeout`, `automatic`, or `call`: as a part of the decision about the call that fired
            it; or the name of a `personal_channel`.
        decided_by: a login name, or `handler:<name>`, `model:<name>`, `grant:<id>`, `nobody`.
        shown: the fingerprint of what they were shown; None for code, which looks at the pending itself.
        reason: why, where whoever decides says so of an approval, too: it is kept and signed with the decision.
        terms: what comes with an action of the operation's own, as in `approval_terms`.
    """

    channel: str
    decided_by: str
    shown: str | None = None
    reason: str = ""
    terms: Mapping[str, Any] = MappingProxyType({})

    @property
    def is_personal(self) -> bool:
        """True if a person decided, rather than a rule, a model or nobody."""
        return self.channel not in _IMPERSONAL

    @property
    def needs_leave(self) -> bool:
        """True if the channel to the person has a say in it: always, but where something settled decides.

        Code can say of itself that it decides in a panel, and a handler decides about more than what it is called with.
        """
        return self.channel not in _SETTLED

    @property
    def was_shown(self) -> bool:
        """True if a person was shown what is decided; what a model was shown does not count."""
        return self.shown is not None and self.is_personal


_PERSONAL = {"code", "panel", "prompt", "command", "inbox"}
RECORDED = "recorded"
"""The channel of a decision that was recorded, and settles the same question where nobody can be asked."""
_SETTLED = frozenset({"grant", RECORDED, "timeout", "automatic", "call"})
_IMPERSONAL = _SETTLED | {"model", "handler"}
_GRANTING = frozenset({"scope", "uses", "pattern", "whom"})
_ANSWERABLE = frozenset({"handler", "model", "dict", "tool"})
deciding_now: ContextVar[DecisionContext | None] = ContextVar("tract_deciding", default=None)
"""The circumstances under which the present code decides; `deciding` sets them for a block."""


class DecidingAs:
    """A block within which what is decided is recorded as decided in a given way. Each use of it has its own."""

    __slots__ = ("__weakref__", "_context", "_token")

    def __init__(self, context: DecisionContext) -> None:
        self._context = context

    @interrupts.whole
    def __enter__(self) -> None:
        interrupts.begin(None, self)  # the code of the block may be stopped
        self._token = deciding_now.set(self._context)

    @interrupts.whole
    def __exit__(self, *_: object) -> None:
        deciding_now.reset(self._token)
        interrupts.end(self)


def deciding(
    channel: str, by: str | None = None, *, shown: str | None = None, reason: str = ""
) -> DecidingAs:
    """Have what is decided within a `with` block recorded as decided so; by the person at this kernel if left out."""
    return DecidingAs(DecisionContext(channel, by or current_person(), shown, reason))


def deciding_by_default(channel: str) -> AbstractContextManager[None]:
    """Do what `deciding` does, unless an outer block says how already."""
    return deciding(channel) if deciding_now.get() is None else nullcontext()


@whole_context
def in_code() -> Iterator[None]:
    """Have code that was approved decide about other things by itself, while it runs.

    Only a handler or a model is answerable for everything that it sets off.
    """
    now = deciding_now.get()
    is_kept = now is not None and now.channel in _ANSWERABLE
    token = deciding_now.set(now._replace(terms={}) if now is not None and is_kept else None)
    try:
        yield
    finally:
        deciding_now.reset(token)


def current_person() -> str:
    """Return the login name of the person at this kernel."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no such user in this container
        return "unknown"


def decision_context() -> DecisionContext:
    """Return how the code that runs now decides: by itself, if no block says otherwise."""
    return deciding_now.get() or DecisionContext("code", current_person())


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer that was accepted: the first one of its round.

    `identity` is that of the pending as it was asked about; `fingerprint` is that of what was decided, with edits.
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
        """Return a stored decision as a value."""
        return cls(
            stored.action, stored.arguments, stored.channel, stored.fingerprint, stored.decided_by,
            stored.decided_at, stored.identity,
        )  # fmt: skip

    @property
    def is_personal(self) -> bool:
        """True if a person decided, rather than a rule, a model or nobody."""
        return self.channel not in _IMPERSONAL

    @property
    def reason(self) -> str:
        """The reason, where one was given."""
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
    """Return the arguments of a decision without those that make an approval a standing one."""
    terms = approval_terms(action, arguments)
    kept = {name: value for name, value in terms.items() if name not in _GRANTING}
    if action == "approve":
        return kept
    return with_terms(action, own_arguments(arguments), kept)


TERMS = "approval:"
"""The key of an approval's terms among the arguments of an operation's own action. No parameter can have this name."""


def approval_terms(action: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the terms of a decision: the changed values (`edits`), and how long it holds (`scope` and the others)."""
    terms: Any = arguments if action == "approve" else arguments.get(TERMS)
    return terms if isinstance(terms, dict) else {}


def own_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an action without the terms of the approval."""
    return {name: value for name, value in arguments.items() if name != TERMS}


def with_terms(action: str, arguments: Mapping[str, Any], terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an action together with the terms of the approval."""
    if action == "approve":
        return {**arguments, **terms}
    return {**arguments, **({TERMS: dict(terms)} if terms else {})}


@whole_context
def on_terms(terms: Mapping[str, Any]) -> Iterator[None]:
    """Decide everything within the block on these terms."""
    token = deciding_now.set(decision_context()._replace(terms=terms))
    try:
        yield
    finally:
        deciding_now.reset(token)
