"""A commit before it has a place in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import canonical_json, sha256
from tract_jupyter.models.checks import check_dict, check_text, several
from tract_jupyter.models.priority import Priority
from tract_jupyter.models.rendering import text_of
from tract_jupyter.models.toolcall import ToolCall
from tract_jupyter.storage.entry import ANNOTATE, APPEND, EMPTY, MERGE, NO_TAGS, Draft

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.protocols import TokenCounter

_MESSAGE_LENGTH = 100


def draft(
    content: dict[str, Any],
    counter: TokenCounter,
    *,
    operation: str = APPEND,
    edit_target: str | None = None,
    message: str | None = None,
    priority: Priority | str | None = None,
    retention: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    generation_config: dict[str, Any] | None = None,
    tags: Iterable[str] = (),
    tools_hash: str | None = None,
) -> Draft:
    """Make a draft of a checked content.

    Raises:
        ContentError: something of it has no JSON form, or is of the wrong type.
    """
    if metadata is not None:
        check_dict(metadata, "metadata")
    if generation_config is not None:
        check_dict(generation_config, "generation_config")
    payload = canonical_json(content).encode()
    text = text_of(content)
    tokens = counter.count_text(text)
    if metadata and metadata.get("tool_calls"):
        metadata = {**metadata, "tool_calls": _calls(metadata["tool_calls"])}
        tokens += counter.count_text(canonical_json(metadata["tool_calls"]))  # they are sent, so they count
    return Draft(
        content["content_type"],
        payload,
        sha256(payload),
        first_line(text) if message is None else _checked_message(message),
        tokens,
        counter.name,
        operation,
        edit_target,
        None if priority is None else Priority(priority).value,
        canonical_json(retention) if retention else None,
        canonical_json(metadata) if metadata else EMPTY,
        canonical_json(generation_config) if generation_config else EMPTY,
        _tags_json(tags) if tags else NO_TAGS,
        tools_hash,
    )


def _calls(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list | tuple):
        raise ContentError(f"tool_calls is a list of calls, not {type(given).__name__}")
    return [
        call.to_dict() if isinstance(call, ToolCall) else ToolCall.from_dict(call).to_dict() for call in given
    ]


def annotation(target: str, priority: Priority, reason: str, retention: dict[str, Any] | None) -> Draft:
    """Make a draft that gives `target` another priority.

    Raises:
        ContentError: the reason is no text.
    """
    check_text(reason, "reason")
    content = {"content_type": "annotation", "priority": priority.value, "reason": reason}
    payload = canonical_json(content).encode()
    return Draft(
        content_type="annotation",
        payload=payload,
        content_hash=sha256(payload),
        message=first_line(reason),
        token_count=0,
        token_counter="",
        operation=ANNOTATE,
        edit_target=target,
        priority=priority.value,
        retention_json=canonical_json(retention) if retention else None,
    )


def merge_draft(message: str, parents: tuple[str, ...], details: dict[str, Any]) -> Draft:
    """Make a draft that joins other histories. Nothing of it is compiled."""
    payload = canonical_json({"content_type": "merge", **details}).encode()
    return Draft(
        content_type="merge",
        payload=payload,
        content_hash=sha256(payload),
        message=message,
        token_count=0,
        token_counter="",
        operation=MERGE,
        merge_parents=parents,
    )


def first_line(text: str) -> str:
    """A line for the log."""
    line = " ".join(text[:500].replace("\0", " ").split())  # PostgreSQL's text has no NUL
    return line if len(line) <= _MESSAGE_LENGTH else line[: _MESSAGE_LENGTH - 1] + "…"


def _checked_message(message: str) -> str:
    check_words(check_text(message, "message"))
    return message


def check_words(text: str) -> None:
    """Check that every database can keep a text.

    Raises:
        ContentError: it is no Unicode, or has a NUL.
    """
    canonical_json(text)
    if "\0" in text:
        raise ContentError(f"{text[:60]!r} has a NUL, which not every database can keep; leave it out")


def _tags_json(tags: Iterable[str]) -> str:
    given = several(tags, "tags")
    for tag in given:
        check_tag(tag)
    return canonical_json(sorted(set(given)))


def check_tag(tag: object) -> None:
    """Check that something can be a tag.

    Raises:
        ContentError: it is no text, empty, or longer than 255 characters.
    """
    if not isinstance(tag, str) or not tag.strip() or len(tag) > 255:  # noqa: PLR2004 # the column's width
        raise ContentError(f"{tag!r} is no tag; use a text of 1 to 255 characters")
    check_words(tag)
