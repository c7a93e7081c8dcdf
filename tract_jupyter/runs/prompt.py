"""The prompt of one main call: what stands in it, and which operation each part of it comes from.

Immutable. A message is known by its key, so the current user message stays the anchor whatever operations insert (G17).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import RunError
from tract_jupyter.models.pairing import paired
from tract_jupyter.runs.model import RunMessage
from tract_jupyter.runs.prompt_draft import PromptDraft
from tract_jupyter.runs.terms import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tract_jupyter.models.context import CompiledContext
    from tract_jupyter.runs.effect_types import PromptEffect, UserReplaceText

_OWN = frozenset({"role", "content"})


@dataclass(frozen=True)
class Prompt:
    """Messages with distinct keys, and the key of the current user's message (None if there is none)."""

    messages: tuple[RunMessage, ...] = ()
    user_key: str | None = None

    @classmethod
    def of(cls, messages: Iterable[RunMessage | Mapping[str, Any]], user_key: str | None = None) -> Prompt:
        """The base draft. Without a `user_key` the last message of the user is the current one.

        Args:
            messages: those of a run, or a provider's: `role`, `content`, and whatever else it takes.
            user_key: the key of the current user's message.

        Raises:
            RunError: two messages have one key, or none has `user_key`.
        """
        found = tuple(_keyed(one, place) for place, one in enumerate(messages))
        keys = {one.key for one in found}
        if len(keys) < len(found):
            raise RunError("two messages of the prompt have the same key; a key is a message's identity")
        if user_key is not None and user_key not in keys:
            raise RunError(f"no message of the prompt has the key {user_key!r} of the user's message")
        users = [one.key for one in found if one.role == Role.USER]
        return cls(found, user_key if user_key is not None else users[-1] if users else None)

    @classmethod
    def of_context(cls, context: CompiledContext, user_commit: str | None = None) -> Prompt:
        """The base draft of a tract's context: each message's key is its commit.

        Raises:
            RunError: the context has no message of `user_commit`.
        """
        messages = (
            _keyed(one.to_dict(), place).model_copy(update={"key": one.commit_hash})
            for place, one in enumerate(paired(context.messages))
        )
        return cls.of(messages, user_commit)

    def apply(self, effect: PromptEffect | UserReplaceText, label: str) -> Prompt:
        """The prompt after one effect of the operation `label`."""
        return self.apply_all(((label, effect),))

    def apply_all(self, effects: Iterable[tuple[str, PromptEffect | UserReplaceText]]) -> Prompt:
        """The prompt after effects in this order, each with the id of its operation."""
        draft = PromptDraft(self.messages, self.user_key)
        for label, effect in effects:
            draft.apply(effect, label)
        return replace(self, messages=draft.messages())

    def with_user(self, text: str) -> Prompt:
        """The prompt with another text of the current user's message."""
        return replace(self, messages=tuple(
            one.model_copy(update={"content": text}) if one.key == self.user_key else one for one in self.messages
        ))  # fmt: skip

    @property
    def sent(self) -> tuple[RunMessage, ...]:
        """The messages that a provider is sent: those that have something to say."""
        return tuple(filter(_is_sent, self.messages))

    @property
    def user(self) -> RunMessage | None:
        """The current user's message."""
        return next((one for one in self.messages if one.key == self.user_key), None)

    @property
    def system_text(self) -> str:
        """All system messages, joined by a blank line (X09)."""
        return system_text(self.messages)

    def provider_messages(self, *, has_developer: bool = False) -> list[dict[str, Any]]:
        """What a provider is sent: texts trimmed, empty messages left out, roles as it knows them (G19)."""
        return provider_messages(self.messages, has_developer=has_developer)

    @cached_property
    def digest(self) -> str:
        """The sha256 of what a provider is sent, as 64 hex digits."""
        sent = json.dumps(self.provider_messages(), ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(sent.encode("utf-8", "surrogatepass")).hexdigest()


def provider_role(role: str, *, has_developer: bool = False) -> str:
    """`developer` is `system` for a provider that has no such role (G19); others stay."""
    return Role.SYSTEM if role == Role.DEVELOPER and not has_developer else role


def provider_messages(messages: Sequence[RunMessage], *, has_developer: bool = False) -> list[dict[str, Any]]:
    """What a provider is sent of messages. One without text stays if it has something else, such as tool calls."""
    return [
        {
            "role": str(provider_role(one.role, has_developer=has_developer)),
            "content": one.content.strip(),
            **one.extra,
        }
        for one in filter(_is_sent, messages)
    ]


def _is_sent(message: RunMessage) -> bool:
    extra = message.extra
    return bool(message.content.strip() or extra.get("tool_calls") or extra.get("tool_call_id"))


def system_text(messages: Iterable[RunMessage]) -> str:
    """All system messages, joined by a blank line (X09)."""
    return "\n\n".join(one.content for one in messages if one.role == Role.SYSTEM)


def _keyed(message: RunMessage | Mapping[str, Any], place: int) -> RunMessage:
    if not isinstance(message, RunMessage):
        extra = {name: value for name, value in message.items() if name not in _OWN}
        message = RunMessage(role=message["role"], content=message.get("content") or "", extra=extra)
    return message if message.key is not None else message.model_copy(update={"key": f"#{place}"})
