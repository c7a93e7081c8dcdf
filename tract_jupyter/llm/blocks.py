"""Provider blocks: the raw form of a reply, stored with its commit, and sent back as long as the provider accepts it.

Providers bind a model's reasoning to everything that was sent before it: instructions, tools, messages. After a change,
reasoning that depends on the old prefix is refused (Anthropic) or ignored (OpenAI) forever. So each reply's blocks have
the hash of their prefix as it was sent, and a request has blocks only if the prefix is the same again.
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from tract_jupyter.llm.property_names import PropertyNames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

Dialect = Literal["chat", "responses", "anthropic"]
"""OpenAI's chat completions, which most providers speak; OpenAI's Responses; Anthropic's Messages."""
DIALECTS: Final = get_args(Dialect)
_encode: Final = json.JSONEncoder(sort_keys=True, default=repr).encode
MOST_KEPT: Final = 1_000_000
"""Maximum number of characters of the blocks, and of the reasoning, in a commit. A longer text is not stored at all."""
_REFUSED: Final = re.compile(
    r"bound to a different conversation|[Ii]nvalid `?signature|blocks in the latest assistant message cannot be modif"
    r"|[Ee]ncrypted[ _]content\b.{0,80}(?:verified|decrypted|invalid)|invalid_encrypted_content"
)


@dataclass(frozen=True, slots=True)
class ProviderBlocks:
    """The raw blocks of a provider's message, complete and in order.

    Attributes:
        dialect: the dialect of the blocks.
        model: the requested name of the model. Only this model may read them.
        blocks: content blocks of Anthropic, output items of Responses, or the one message of chat completions.
        prefix: the hash of the request before them; empty if they are not bound to it.
        is_first: True if the provider has refused all earlier blocks, so these are no longer sent.
    """

    dialect: Dialect
    model: str
    blocks: tuple[dict[str, Any], ...]
    prefix: str = ""
    is_first: bool = False

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> ProviderBlocks | None:
        """Return the blocks of a message, as a client gives them or a commit keeps them; None if none can be read."""
        fields = message.get("provider_blocks")
        if not isinstance(fields, dict) or fields.get("dialect") not in DIALECTS:
            return None
        model, blocks, prefix = fields.get("model"), _read(fields.get("blocks")), fields.get("prefix", "")
        if not isinstance(model, str) or not isinstance(prefix, str) or not blocks:
            return None
        if not all(isinstance(block, dict) for block in blocks):
            return None
        return cls(fields["dialect"], model, tuple(blocks), prefix, fields.get("is_first") is True)

    def to_dict(self) -> dict[str, Any]:
        """Return the value of a message's `provider_blocks`."""
        more = {
            **({"prefix": self.prefix} if self.prefix else {}),
            **({"is_first": True} if self.is_first else {}),
        }
        return {"dialect": self.dialect, "model": self.model, "blocks": list(self.blocks), **more}


def _read(blocks: object) -> Sequence[Any]:
    if isinstance(blocks, str):
        try:
            blocks = json.loads(blocks)
        except (ValueError, RecursionError):
            return ()
    return blocks if isinstance(blocks, list | tuple) else ()


def provider_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored fields of a reply except text and calls: `reasoning`, `reasoning_field`, `provider_blocks`.

    The blocks are one JSON text, which preserves the order of keys and the form of numbers.
    """
    names = ("reasoning", "reasoning_field")
    thought = {
        name: _storable(message[name])
        for name in names
        if isinstance(message.get(name), str) and message[name]
    }
    fields: dict[str, Any] = thought if len(thought.get("reasoning", "")) <= MOST_KEPT else {}
    provider_blocks = ProviderBlocks.of(message)
    if provider_blocks is None:
        return fields
    try:
        blocks = json.dumps(
            provider_blocks.blocks, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        if _storable(blocks) != blocks:
            blocks = json.dumps(provider_blocks.blocks, separators=(",", ":"))  # half a character, unchanged
    except (TypeError, ValueError, RecursionError):  # the blocks of a user's client
        return fields
    return (
        {**fields, "provider_blocks": {**provider_blocks.to_dict(), "blocks": blocks}}
        if len(blocks) <= MOST_KEPT
        else fields
    )


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


class SentBlocks:
    """Selects the blocks of one model that a request sends back, while it is built: their prefix must be the same."""

    def __init__(
        self, messages: Sequence[Mapping[str, Any]], dialect: Dialect, model: str, *, leaves_out: bool = False
    ) -> None:
        self._dialect = dialect
        self._model = model
        self._leaves_out = leaves_out
        self._noted: list[Any] = []
        self._hash = hashlib.sha256()  # hash of the prefix so far
        self._number = -1  # number of the current reply
        replies = [message for message in messages if message.get("role") == "assistant"]
        firsts = [number for number, message in enumerate(replies) if _is_first(message, dialect, model)]
        self._first = firsts[-1] if firsts else 0
        self.sent: list[int] = []
        """The numbers of the replies whose blocks are sent."""
        self.property_names = PropertyNames()
        """The property names that this request replaces, because the provider refuses them."""

    def add(self, *parts: Any) -> None:
        """Add a sent part to the prefix, in order. Chat completions have no prefix, so they skip this."""
        self._noted += parts

    def of(
        self, message: Mapping[str, Any], is_unchanged: Callable[[tuple[dict[str, Any], ...]], bool]
    ) -> tuple[dict[str, Any], ...]:
        """Return the blocks to send for the next reply; empty if there are none. Call it once for each, in order."""
        self._number += 1
        blocks = None if self._leaves_out or self._number < self._first else ProviderBlocks.of(message)
        if blocks is None or (blocks.dialect, blocks.model) != (self._dialect, self._model):
            return ()
        if blocks.prefix not in {"", self.prefix} or not is_unchanged(blocks.blocks):
            return ()
        self.sent.append(self._number)
        return blocks.blocks

    @property
    def prefix(self) -> str:
        """The hash of the prefix so far; empty if there is none. Most requests do not need it."""
        if self._dialect == "chat":
            return ""
        for part in self._noted:
            try:
                text = _encode(part)
            except (ValueError, RecursionError):  # the request has no JSON form; sending it raises the error
                text = ""
            self._hash.update(text.encode() + b"\n")
        self._noted.clear()
        return self._hash.hexdigest()

    def bind(self, reply: dict[str, Any]) -> dict[str, Any]:
        """Bind the blocks of the reply to the request, give arguments the names of the tools, and return the reply."""
        for choice in reply.get("choices") or ():
            for call in choice["message"].get("tool_calls", ()):
                function = call["function"]
                function["arguments"] = self.property_names.restored(function["name"], function["arguments"])
            blocks = ProviderBlocks.of(choice["message"])
            if blocks is not None:
                bound = replace(blocks, prefix=self.prefix, is_first=self._leaves_out)
                choice["message"]["provider_blocks"] = bound.to_dict()
        return reply


def _is_first(message: Mapping[str, Any], dialect: Dialect, model: str) -> bool:
    fields = message.get("provider_blocks")
    if not isinstance(fields, dict) or fields.get("is_first") is not True:
        return False
    return (fields.get("dialect"), fields.get("model")) == (dialect, model)


def thought_before(
    original: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]], thoughts: Collection[str]
) -> bool:
    """Return True if all reasoning comes before the first block that is sent with a change, such as another call id.

    Reasoning after that block is bound to its original form, so these blocks cannot be sent.
    """
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(original, sent, strict=False)))
    return not any(block.get("type") in thoughts for block in original[same:])


def are_refused(error: Exception) -> bool:
    """Return True if a provider refuses the blocks of earlier replies. A retry cannot change that."""
    return _REFUSED.search(str(error)) is not None
