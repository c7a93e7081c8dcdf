"""The prompt of one main call, with the operation that wrote each part.

Prompts are immutable. Messages have keys, so the current user message stays the anchor of insertions (G17).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import RunError
from tract_jupyter.models import paired, sent_message
from tract_jupyter.runs.effect_types import AppendAfterLastUser, InsertAtDepth, SystemUpdate
from tract_jupyter.runs.model import MessagePiece, RunMessage
from tract_jupyter.runs.terms import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.models import CompiledContext
    from tract_jupyter.runs.effect_types import PromptEffect, UserReplaceText


class PromptDraft:
    """Messages that effects change. The draft keeps track of its two anchors.

    Args:
        messages: the messages before; they are not changed.
        user_key: the key of the current user's message.
    """

    def __init__(self, messages: Sequence[RunMessage], user_key: str | None) -> None:
        self._messages = list(messages)
        keys, roles = [one.key for one in messages], [one.role for one in messages]
        self._keys = set(keys)
        self._inserted: Counter[str] = Counter()
        self._user = keys.index(user_key) if user_key is not None and user_key in self._keys else None
        self._system = roles.index(Role.SYSTEM) if Role.SYSTEM in roles else None
        # the text of the first system message in pieces, joined once at the end
        self._pieces: deque[MessagePiece] | None = None
        self._changed_by: str | None = None

    def apply(self, effect: PromptEffect | UserReplaceText, label: str) -> None:
        """Apply an effect of the operation `label`."""
        if isinstance(effect, SystemUpdate):
            self._update_system(effect, label)
        elif isinstance(effect, AppendAfterLastUser):
            # directly after the user's message, so later ones are closer to it (G13); without one: the end (G18)
            place = len(self._messages) if self._user is None else self._user + 1
            self._insert(place, effect.role, effect.content, label)
        elif isinstance(effect, InsertAtDepth):
            self._insert(self._at_depth(effect.depth_from_end), effect.role, effect.content, label)
        elif self._user is not None:
            self._rewrite_user(self._user, effect.text, label)

    def messages(self) -> tuple[RunMessage, ...]:
        """Return the current messages."""
        self._join_pieces()
        return tuple(self._messages)

    def _at_depth(self, depth: int) -> int:
        """Return the place counted from the end (G14), after the first system message (G15)."""
        first = 0 if self._system is None else self._system + 1
        return max(len(self._messages) - abs(depth), first)

    def _insert(self, place: int, role: str, content: str, label: str) -> None:
        becomes_first = role == Role.SYSTEM and (self._system is None or place <= self._system)
        if becomes_first:
            self._join_pieces()
        self._messages.insert(
            place, RunMessage(role=role, content=content, key=self._new_key(label), label=label)
        )
        if self._user is not None and place <= self._user:
            self._user += 1
        if becomes_first:
            self._system = place
        elif self._system is not None and place <= self._system:
            self._system += 1

    def _new_key(self, label: str) -> str:
        while True:
            self._inserted[label] += 1
            key = f"{label}#{self._inserted[label]}"
            if key not in self._keys:
                self._keys.add(key)
                return key

    def _update_system(self, effect: SystemUpdate, label: str) -> None:
        if self._system is None:  # G16
            self._insert(0, Role.SYSTEM, effect.payload, label)
            return
        if self._pieces is None:
            before = self._messages[self._system]
            self._pieces = deque(before.pieces or (MessagePiece(text=before.content, label=before.label),))
        piece = MessagePiece(text=effect.payload, label=label)
        if effect.mode == "prepend":
            self._pieces.appendleft(piece)
        else:
            if effect.mode == "replace":
                self._pieces.clear()
            self._pieces.append(piece)
        self._changed_by = label

    def _join_pieces(self) -> None:
        if self._pieces is None or self._system is None:
            return
        pieces = tuple(_merged(self._pieces))
        changed = {
            "content": "".join(piece.text for piece in pieces),
            "label": self._changed_by,
            "pieces": pieces if any(piece.label != self._changed_by for piece in pieces) else (),
        }
        self._messages[self._system] = self._messages[self._system].model_copy(update=changed)
        self._pieces = None

    def _rewrite_user(self, place: int, text: str, label: str) -> None:
        changed = {"content": text, "label": label, "pieces": ()}
        self._messages[place] = self._messages[place].model_copy(update=changed)


def _merged(pieces: Iterable[MessagePiece]) -> Iterator[MessagePiece]:
    for label, group in groupby((one for one in pieces if one.text), key=lambda one: one.label):
        yield MessagePiece(text="".join(one.text for one in group), label=label)


@dataclass(frozen=True)
class Prompt:
    """Messages with distinct keys, and the key of the current user's message (None if there is none)."""

    messages: tuple[RunMessage, ...] = ()
    user_key: str | None = None

    @classmethod
    def of(cls, messages: Iterable[RunMessage | Mapping[str, Any]], user_key: str | None = None) -> Prompt:
        """Make the prompt. The last user message is the current one, unless `user_key` names another.

        Args:
            messages: messages of a run, or in a provider's format: `role`, `content` and other fields.
            user_key: the key of the current user's message.

        Raises:
            RunError: two messages have the same key, or no message has `user_key`.
        """
        keyed = tuple([
            one if isinstance(one, RunMessage) and one.key is not None else _keyed(one, place)
            for place, one in enumerate(messages)
        ])  # fmt: skip
        keys = {one.key for one in keyed}
        if len(keys) < len(keyed):
            raise RunError("Two messages of the prompt have the same key. Each message needs its own key.")
        if user_key is not None and user_key not in keys:
            raise RunError(f"No message of the prompt has the user message's key {user_key!r}.")
        users = [one.key for one in keyed if one.role == Role.USER]
        return cls(keyed, user_key if user_key is not None else users[-1] if users else None)

    @classmethod
    def of_context(cls, context: CompiledContext) -> Prompt:
        """Make the prompt of a tract's context; the key of each message is its commit."""
        return cls.of([_message(sent_message(one), one.commit_hash) for one in paired(context.messages)])

    def apply(self, effect: PromptEffect | UserReplaceText, label: str) -> Prompt:
        """Return the prompt after one effect of the operation `label`."""
        return self.apply_all(((label, effect),))

    def apply_all(self, effects: Iterable[tuple[str, PromptEffect | UserReplaceText]]) -> Prompt:
        """Return the prompt after these effects, in order, each with the id of its operation."""
        labeled = list(effects)
        if not labeled:
            return self
        draft = PromptDraft(self.messages, self.user_key)
        for label, effect in labeled:
            draft.apply(effect, label)
        return replace(self, messages=draft.messages())

    def with_user(self, text: str) -> Prompt:
        """Return the prompt with another text of the current user's message."""
        return replace(self, messages=tuple(
            one.model_copy(update={"content": text}) if one.key == self.user_key else one for one in self.messages
        ))  # fmt: skip

    @cached_property
    def sent(self) -> tuple[RunMessage, ...]:
        """The messages that a provider receives: all messages with text, tool calls or attachments."""
        messages = [
            one
            for one in self.messages
            if one.content.strip() or any(map(one.extra.get, ("tool_calls", "tool_call_id", "attachments")))
        ]
        return tuple(messages)

    @property
    def user(self) -> RunMessage | None:
        """The current user's message."""
        return next((one for one in self.messages if one.key == self.user_key), None)

    @property
    def system_text(self) -> str:
        """Return all system messages, joined by a blank line (X09)."""
        return system_text(self.messages)

    @cached_property
    def _for_provider(self) -> list[dict[str, Any]]:
        return [
            # few providers have the role `developer`
            {"role": "system" if one.role == Role.DEVELOPER else one.role, "content": one.content.strip(), **one.extra}
            for one in self.sent
        ]  # fmt: skip

    def provider_messages(self) -> list[dict[str, Any]]:
        """Return the messages for a provider: trimmed, without empty ones, and with known roles (G19)."""
        return [dict(one) for one in self._for_provider]

    @cached_property
    def digest(self) -> str:
        """The sha256 of the provider's messages, as 64 hex digits."""
        sent = json.dumps(self._for_provider, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(sent.encode("utf-8", "surrogatepass")).hexdigest()


def system_text(messages: Iterable[RunMessage]) -> str:
    """Return all system messages that are not blank, joined by a blank line (X09)."""
    return "\n\n".join(one.content for one in messages if one.role == Role.SYSTEM and one.content.strip())


def _keyed(message: RunMessage | Mapping[str, Any], place: int) -> RunMessage:
    if isinstance(message, RunMessage):
        return message.model_copy(update={"key": f"#{place}"})
    return _message(message, f"#{place}")


def _message(fields: Mapping[str, Any], key: str) -> RunMessage:
    extra = dict(fields)
    role, content = extra.pop("role"), extra.pop("content", None)
    return RunMessage(role=role, content=content or "", extra=extra, key=key)
