"""Standing approvals: for this session or always, for exact values or a pattern, with an optional limit of uses.

A grant names the hash of its definition. Changed code or a changed schema requires a new question. A grant also names
its permitted actors: the asking actor, that actor and its children, or anybody. The user's secret signs it. Other users
or changes of the store cannot create a grant.

Actors are names. The name of a child starts with its parent's name: `agent:a/b` and `agent:a:branch` are children of
`agent:a`. The name of a script includes a hash of its text, so a changed script is another actor. `user` is the user at
the kernel.

A pattern limits some of the values. All other values must equal the values of the approved call.

* a list: one of these values
* `"*"`: anything
* another text, for a text: `*` and `?` match characters except `/`, `**` matches any characters. In an address, `?` is
  itself, and `*` matches no character that can move the host. A value with `..` between slashes never matches, because
  its real target differs from its apparent one.
* any other value: this value
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from tract_jupyter.exceptions import GrantError
from tract_jupyter.models import (
    URL_BORDERS,
    admin_allows_looking,
    admin_limits,
    brief_repr,
    canonical_json,
    digest,
    goes_up,
)
from tract_jupyter.review.decision import (
    CHAT,
    approval_terms,
    decision_context,
    own_arguments,
    personal_channels,
)
from tract_jupyter.review.process import this_process
from tract_jupyter.review.signed_store import SignedStore
from tract_jupyter.storage import StoredGrant, now_text, read_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from tract_jupyter.review.decision import DecisionContext, Subject
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.trust import Signer
    from tract_jupyter.storage import Database, EventRows, GrantRows


NOT_SIGNED = "not signed by you"
_NO_PERSON = "only the user can give a standing approval: in a panel, at a prompt or in their own code"
_ANYTHING = "*"


def covers(pattern: Mapping[str, Any], approved: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Return True if a grant covers a call with these values."""
    return approved.keys() == values.keys() and all(
        _allows(pattern[name], value) if name in pattern else _equal(approved[name], value)
        for name, value in values.items()
    )


def pattern_text(pattern: Mapping[str, Any], approved: Mapping[str, Any]) -> str:
    """Describe a pattern for users: `path: data/*, mode = 'r'`."""
    parts = [
        f"{name}: {_shown(pattern[name])}" if name in pattern else f"{name} = {value!r}"
        for name, value in approved.items()
    ]
    return ", ".join(parts) or "no values"


def _allows(allowed: Any, value: Any) -> bool:
    if allowed == _ANYTHING:
        return True
    if isinstance(allowed, list):
        return any(_equal(choice, value) for choice in allowed)
    if isinstance(allowed, str) and isinstance(value, str):
        return not goes_up(value) and _Glob.of(allowed).matches(value)
    return _equal(allowed, value)


def _equal(first: Any, second: Any) -> bool:
    return canonical_json(first) == canonical_json(second)  # `1`, `1.0` and `True` are different values


@dataclass(frozen=True, slots=True)
class _Glob:
    """A compiled text pattern. Matching takes one pass without backtracking, because the model chooses the value.

    Each attribute is a set of positions, as the bits of a number. Bit n of a state means: the first n characters that
    the pattern requires have matched.

    Attributes:
        literals: positions by the character that they require.
        any_character: positions of `?`.
        borders: the characters that only themselves and `**` match.
        stars: positions with a `*` before them.
        double_stars: positions with a `**` before them.
        end: the bit of a complete match.
    """

    literals: dict[str, int]
    any_character: int
    stars: int
    double_stars: int
    borders: str
    end: int

    @staticmethod
    @lru_cache(maxsize=256)
    def of(pattern: str) -> _Glob:
        """Compile a pattern."""
        literals: dict[str, int] = {}
        any_character, stars, double_stars, bit = 0, 0, 0, 1
        is_address = "://" in pattern
        for part in re.findall(r"\*\*|.", pattern, re.DOTALL):
            if part == "**":
                double_stars |= bit
            elif part == "*":
                stars |= bit
            else:
                if part == "?" and not is_address:
                    any_character |= bit
                else:
                    literals[part] = literals.get(part, 0) | bit
                bit <<= 1
        borders = URL_BORDERS if is_address else "/"
        return _Glob(literals, any_character, stars, double_stars, borders, bit)

    def matches(self, value: str) -> bool:
        """Return True if the pattern matches the whole value."""
        state = 1
        for character in value:
            loops, steps = self.double_stars, self.literals.get(character, 0)
            if character not in self.borders:
                loops |= self.stars
                steps |= self.any_character
            state = (state & loops) | ((state & steps) << 1)
            if not state:
                return False
        return bool(state & self.end)


def _shown(allowed: Any) -> str:
    if allowed == _ANYTHING:
        return "anything"
    return " or ".join(map(repr, allowed)) if isinstance(allowed, list) else str(allowed)


UNREADABLE = "unreadable"
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Exceptions from reading a damaged grant. The store may hold anything."""
Whom = Literal["this", "children", "anybody"]
_SCOPES = ("once", "session", "always")
_MOST_USES = 2**31 - 1  # the largest number in a column of PostgreSQL


@dataclass(frozen=True, slots=True)
class Grant:
    """A standing approval.

    Attributes:
        grant_id: 16 hex digits.
        kind: `operation` or `tool`.
        definition_hash: the hash of the approved version.
        covers: the covered values, in words.
        scope: `session` (this process) or `always`.
        most_uses: the maximum number of uses. None for no limit.
        whom: the permitted actors, in words: `agent:a`, `agent:a and its children`, `anybody`.
        ignores: the names of the ignored values.
        state: `live`, `used up`, `revoked`, `of another session`, `not signed by you`, or `unreadable`: its number of
            uses was changed to something else than a count.
        action: the action that the grant carries out: `approve`, or a custom action of the operation.
    """

    grant_id: str
    kind: str
    name: str
    definition_hash: str
    covers: str
    scope: str
    uses: int
    most_uses: int | None
    granted_by: str
    created_at: datetime
    whom: str
    ignores: tuple[str, ...]
    state: str
    action: str
    arguments: Mapping[str, Any]


class GrantStore(SignedStore[StoredGrant]):
    """The stored grants."""

    kind = "grant"
    signed_as = "grant"

    def content(self, row: StoredGrant) -> list[Any]:
        """Return the signed part: everything except the fields that change with use."""
        return list(row._replace(uses=0, signature="", revoked_at=None))


class Grants:
    """The grants of one tract."""

    def __init__(self, database: Database, rows: GrantRows, events: EventRows, signer: Signer) -> None:
        self._database = database
        self._rows = rows
        self._stored = GrantStore(database, rows, events, signer)

    def asked_for(
        self, pending: Pending, action: str, arguments: Mapping[str, Any], how: DecisionContext
    ) -> Callable[[Connection], None] | None:
        """Return a callback that stores the grant requested by an approval. None if the approval requests no grant.

        Raises:
            GrantError: the grant is not possible, or not in this way.
        """
        terms = approval_terms(action, arguments)
        scope, uses = terms.get("scope"), terms.get("uses")
        pattern, whom = terms.get("pattern"), terms.get("whom")
        _check_terms(scope, uses, pattern, whom)
        if scope is None or scope == "once":
            if uses is not None or pattern is not None or whom is not None:
                raise GrantError(
                    "uses, pattern and whom belong to a grant; also set scope='session' or 'always'"
                )
            return None
        subject = pending.subject
        if subject is None:
            raise GrantError(f"{pending.title!r} needs an approval each time; approve it once")
        if how.channel not in personal_channels():
            raise GrantError(_NO_PERSON)
        if pending.doubt:
            raise GrantError(f"{pending.doubt} Approve it once")
        if subject.rule and (scope != "session" or pattern or whom not in {None, "this"}):
            raise GrantError(f"{subject.rule!r} is only possible for this session and for {subject.actor}")
        chosen = (action, {} if action == "approve" else own_arguments(arguments))
        grant = self._new(subject, scope, uses, pattern or {}, whom or "this", how.decided_by, chosen)
        return lambda connection: self._rows.insert(connection, grant)

    def use(self, pending: Pending) -> Grant | None:
        """Return the grant that covers a pending, and count this use. None if no grant covers it."""
        subject = pending.subject
        if subject is None:
            return None
        with self._database.read() as connection:
            live = self._rows.live(connection, subject.kind, subject.name)
        for stored in live:
            if self._state(stored) != "live" or not _covers(stored, subject):
                continue
            chosen = json.loads(stored.pattern_json)["action"]
            if _is_for(stored, subject.actor) and chosen in pending.offered_actions:
                with self._database.write() as connection:
                    if self._rows.use(connection, stored.grant_id):
                        return self._shown(stored)
        return None

    def of_others(self, pending: Pending) -> str:
        """Describe a standing approval that would cover this pending for another actor. Empty if there is none."""
        subject = pending.subject
        if subject is None:
            return ""
        with self._database.read() as connection:
            live = self._rows.live(connection, subject.kind, subject.name)
        for stored in live:
            if (
                self._state(stored) == "live"
                and _covers(stored, subject)
                and not _is_for(stored, subject.actor)
            ):
                whom = _terms_of(stored)["whom"]
                asker = describe_actors(subject.actor, "this")
                return f"The standing approval {stored.grant_id[:8]} covers it for {whom}, not for {asker}."
        return ""

    def all(self) -> list[Grant]:
        """Return every grant, oldest first."""
        return [self._shown(row) for row in self._stored.all()]

    def begin_rule(self, subject: Subject, action: str) -> None:
        """Carry out an action for a kind of code without questions in this session.

        Raises:
            AdminLimitError: the administrator's limits do not allow it.
            GrantError: the decision does not come from a user.
        """
        admin_limits().check_looking()
        how = decision_context()
        if how.channel not in personal_channels():
            raise GrantError(_NO_PERSON)
        if not self.has_rule():
            grant = self._new(subject, "session", None, {}, "this", how.decided_by, (action, {}))
            with self._database.write() as connection:
                self._rows.insert(connection, grant)

    def end_rules(self) -> int:
        """Revoke this session's grants for a kind of code, such as scripts that only look. Return their number."""
        with self._database.write() as connection:
            ended = [
                row
                for row in self._rows.live(connection, "script", "kernel")
                if self._state(row) == "live" and self._rows.revoke(connection, row.grant_id)
            ]
        return len(ended)

    def has_rule(self) -> bool:
        """Return True if a grant of this session covers a kind of code."""
        with self._database.read() as connection:
            live = self._rows.live(connection, "script", "kernel")
            return admin_allows_looking() and any(self._state(row) == "live" for row in live)

    def revoke(self, grant_id: str) -> Grant:
        """Revoke a grant by its id or the start of its id.

        Raises:
            GrantError: no grant matches, several match, or the grant is already revoked.
        """
        matches = [grant for grant in self.all() if grant_id and grant.grant_id.startswith(grant_id)]
        if len(matches) != 1:
            which = "several grants begin" if matches else "no grant begins"
            raise GrantError(f"{which} with {grant_id!r}; '%tract grants' lists them")
        with self._database.write() as connection:
            if not self._rows.revoke(connection, matches[0].grant_id):
                raise GrantError(
                    f"grant {matches[0].grant_id} is already revoked; '%tract grants' lists the active ones"
                )
        return matches[0]

    def carry_over(self, connection: Connection, kind: str, name: str, old_hash: str, new_hash: str) -> int:
        """Move the live grants of a version to a new version that can do nothing more. Return their number.

        The grants move with their use counts. Copies would multiply them with each change of the version.
        """
        carried = [
            stored
            for stored in self._rows.live(connection, kind, name)
            if stored.definition_hash == old_hash and self._state(stored) == "live"
        ]
        for stored in carried:
            self._rows.move(connection, self._stored.sign(stored._replace(definition_hash=new_hash)))
        return len(carried)

    # ---

    def _new(
        self, subject: Subject, scope: str, uses: int | None, pattern: Mapping[str, Any], whom: Whom, by: str,
        chosen: tuple[str, dict[str, Any]],
    ) -> StoredGrant:  # fmt: skip
        unknown = [name for name in pattern if name not in subject.values]
        if unknown:
            raise GrantError(
                f"{subject.name!r} has no value {unknown[0]!r}; its values are {', '.join(subject.values)}"
            )
        session = _this_session() if scope == "session" else None
        terms = canonical_json(
            {
                "pattern": dict(pattern),
                "approved": dict(subject.values),
                "ignored": sorted(subject.ignored),
                "actor": subject.actor,
                "whom": whom,
                "action": chosen[0],
                "arguments": chosen[1],
                **({"rule": subject.rule} if subject.rule else {}),
            }
        )
        return self._stored.sign(
            StoredGrant(
                secrets.token_hex(8), subject.kind, subject.name, subject.definition_hash, terms, scope, session,
                uses, 0, "", by, "", now_text(), None,
            )
        )  # fmt: skip

    def _state(self, stored: StoredGrant) -> str:
        if stored.revoked_at is not None:
            return "revoked"
        if not self._stored.is_signed(stored):
            return NOT_SIGNED
        if type(stored.uses) is not int or stored.uses < 0:  # no signature covers it
            return UNREADABLE
        if stored.most_uses is not None and stored.uses >= stored.most_uses:
            return "used up"
        if stored.session_id is not None and stored.session_id != _this_session():
            return "of another session"
        return "live"

    def _shown(self, stored: StoredGrant) -> Grant:
        return Grant(
            grant_id=stored.grant_id, kind=stored.kind, name=stored.name, definition_hash=stored.definition_hash,
            scope=stored.scope, uses=_count(stored.uses),
            most_uses=None if stored.most_uses is None else _count(stored.most_uses), granted_by=stored.granted_by,
            created_at=read_moment(stored.created_at), state=self._state(stored), **_terms_of(stored),
        )  # fmt: skip


def _check_terms(scope: object, uses: object, pattern: object, whom: object) -> None:
    """Check the terms of an approval. Code can pass any values.

    Raises:
        GrantError: a term has no valid value. A misspelled scope must not last longer than the one that was meant.
    """
    for name, value, allowed in (("scope", scope, _SCOPES), ("whom", whom, get_args(Whom))):
        if value is not None and value not in allowed:
            *others, last = map(repr, allowed)
            raise GrantError(f"{name} must be {', '.join(others)} or {last}, not {brief_repr(value)}")
    if pattern is not None and not isinstance(pattern, dict):
        raise GrantError(f"pattern must be a dictionary of values by name, not {brief_repr(pattern)}")
    if uses is None:
        return
    if type(uses) is not int:
        raise GrantError(f"uses must be a whole number, not {brief_repr(uses)}")
    if not 1 <= uses <= _MOST_USES:
        limit = "at least 1" if uses < 1 else f"at most {_MOST_USES:,}"
        raise GrantError(f"uses must be {limit}, not {brief_repr(uses)}")


def _count(value: object) -> int:
    """Return a stored count for display; 0 if the row was changed to something else."""
    return value if type(value) is int else 0


def _this_session() -> str:
    """Return an id of this process with 64 characters, regardless of the host name's length."""
    return digest(this_process())


def _covers(stored: StoredGrant, subject: Subject) -> bool:
    """Return True if a signed grant covers these values, regardless of the actor."""
    if stored.definition_hash != subject.definition_hash:
        return False
    terms = json.loads(stored.pattern_json)
    return covers(terms["pattern"], terms["approved"], subject.values)


def _is_for(stored: StoredGrant, actor: str) -> bool:
    terms = json.loads(stored.pattern_json)
    named, whom = terms["actor"], terms["whom"]
    is_child = actor.startswith((f"{named}/", f"{named}:"))
    return whom == "anybody" or actor == named or (whom == "children" and is_child)


def describe_actors(actor: str, whom: object) -> str:
    """Describe the permitted actors of a standing approval. `actor` is the actor of the approved request."""
    actor = "the model of the chat" if actor == CHAT else actor
    return {"anybody": "anybody", "children": f"{actor} and its children"}.get(str(whom), actor)


def _terms_of(stored: StoredGrant) -> dict[str, Any]:
    """Return the terms of a stored grant as the attributes of `Grant`. A damaged grant has unreadable terms."""
    try:
        terms = json.loads(stored.pattern_json)
        return {
            "covers": str(terms.get("rule") or pattern_text(terms["pattern"], terms["approved"])),
            "whom": describe_actors(terms["actor"], terms["whom"]),
            "ignores": tuple(map(str, terms["ignored"])),
            "action": str(terms["action"]),
            "arguments": dict(terms["arguments"]),
        }
    except _DAMAGED:
        return {
            "covers": UNREADABLE, "whom": UNREADABLE, "ignores": (), "action": UNREADABLE, "arguments": {}
        }  # fmt: skip
