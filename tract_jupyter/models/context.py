"""The compiled context: the messages for a model. `provider_messages` converts them for providers."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import indent, shorten
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.attachment import named_text, no_reader
from tract_jupyter.models.commit import show_tokens
from tract_jupyter.models.content import Priority
from tract_jupyter.models.provider_messages import anthropic_messages, openai_message, openai_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tract_jupyter.models.attachment import Reader
    from tract_jupyter.models.commit import CommitInfo, Correction
    from tract_jupyter.models.content_types import Attachment
    from tract_jupyter.models.turn import ToolCall

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
PROVIDER_FIELDS: Final = "provider_fields"
"""Metadata key of a reply: the provider's data except text and calls; see docs/models.md."""


class Message(NamedTuple):
    """One message and its commit.

    An assistant's message may have `tool_calls`. `tool_call_id` is the call that a message of role `tool` answers.
    """

    role: str
    content: str
    name: str | None = None
    commit_hash: str = ""
    priority: Priority = Priority.NORMAL
    token_count: int = 0
    """The tokens, including the overhead of a chat format."""
    content_type: str = "dialogue"
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    generation_config: Mapping[str, Any] = _NOTHING
    direction: str | None = None
    """`call` or `result`, for a `tool_io` content."""
    provider_fields: Mapping[str, Any] = _NOTHING
    """The provider's data of a reply: `reasoning`, `reasoning_field`, `provider_blocks`."""
    attachments: tuple[Attachment, ...] = ()
    """The files of a user message."""

    @property
    def told(self) -> str:
        """The text for display. Each attachment is a line with its name before the text."""
        return named_text(self.attachments, self.content) if self.attachments else self.content

    def to_dict(self) -> dict[str, Any]:
        """Return the message in the shape of OpenAI's chat completions. Attachments are only names."""
        return openai_message(self)


@dataclass(frozen=True, slots=True)
class CompiledContext:
    """Messages in order, ready for a provider.

    `token_count` includes the overhead of a chat format, and `token_source` names the counter. If the counts are
    estimates, a provider's count of a prompt corrects them. `tools` are the tools that the history set last, in
    OpenAI's shape.
    """

    messages: Sequence[Message]
    token_count: int
    token_source: str
    head: str | None
    tools: tuple[dict[str, Any], ...] = ()
    max_tokens: int | None = None
    """The budget; None for no limit."""
    corrected_by: Correction | None = None
    read: Reader = field(default=no_reader, repr=False, compare=False)
    """Returns the bytes of an attachment, by their hash."""

    @classmethod
    def empty(cls, token_source: str) -> Self:
        """Return the context before the first commit."""
        return cls((), 0, token_source, None)

    @property
    def commit_count(self) -> int:
        """The number of visible commits: one for each message."""
        return len(self.messages)

    @property
    def commit_hashes(self) -> tuple[str, ...]:
        """The commit of each message."""
        return tuple(message.commit_hash for message in self.messages)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the messages in the shape of OpenAI's chat completions. Each tool answer directly follows its call."""
        return openai_messages(self.messages, self.read)

    def to_openai(self) -> list[dict[str, Any]]:
        """Return the same as `to_dicts`."""
        return self.to_dicts()

    def to_anthropic(self) -> dict[str, Any]:
        """Return `system` and `messages` for Anthropic's API, with tool_use and tool_result blocks."""
        return anthropic_messages(self.messages, self.read)

    def pprint(self, style: Style = "table") -> None:
        """Print the context: as a `table` with a line for each message, shorter as `compact`, or in full as `chat`."""
        print(context_text(self, style))  # noqa: T201 # this method prints

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        tokens = show_tokens(self.token_count, self.token_source)
        budget = "" if self.max_tokens is None else f" of {self.max_tokens:,}"
        return f"<CompiledContext: {len(self)} messages, {tokens}{budget} tokens>"


Style = Literal["table", "chat", "compact"]
_WIDTH = 72


def commit_text(info: CommitInfo, text: str, tags: Iterable[str]) -> str:
    """Return one commit as `git show` prints it: its header, its log line and its content."""
    lines = {
        "Date": info.created_at.isoformat(sep=" ", timespec="seconds"),
        "Kind": f"{info.operation} of {info.content_type}"
        if info.operation == "append"
        else str(info.operation),
        "Changes": (info.edit_target or "")[:12],
        "Merges": ", ".join(parent[:12] for parent in info.merge_parents),
        "Priority": str(info.priority),
        "Tags": ", ".join(tags),
        "Tokens": f"{show_tokens(info.token_count, info.token_counter)}, {info.context_tokens:,} in the context",
    }
    head = "\n".join(f"{name + ':':<10}{value}" for name, value in lines.items() if value)
    return f"commit {info.commit_hash}\n{head}\n\n{indent(info.message, '    ')}\n\n{text}"


def context_text(context: CompiledContext, style: Style = "table") -> str:
    """Return a context as text: `table` has one line per message, `compact` is shorter, `chat` has the full texts."""
    if style not in _STYLES:
        raise ContentError(f"{style!r} is not a style; use {', '.join(_STYLES)}")
    return "\n".join([*(_STYLES[style](message) for message in context.messages), repr(context)])


def _chat(message: Message) -> str:
    calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
    name = f" {message.name}" if message.name else ""
    return f"── {message.role}{name} ({message.commit_hash[:8]})\n{message.told}{calls}\n"


def _table(message: Message) -> str:
    mark = "" if message.priority == "normal" else f"[{message.priority}] "
    return f"{message.commit_hash[:8]}  {message.role:<9} {message.token_count:>7,}  {mark}{_short(message)}"


def _compact(message: Message) -> str:
    return f"{message.role}: {_short(message)}"


def _short(message: Message) -> str:
    called = " ".join(f"→ {call.name}" for call in message.tool_calls)
    return shorten(f"{message.told} {called}", _WIDTH, placeholder=" …")


_STYLES = {"table": _table, "chat": _chat, "compact": _compact}
