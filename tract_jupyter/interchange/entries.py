"""An entry: what `Tract.commit` takes, as a dict with a JSON form. Parts that say nothing are left out."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import default_priority, plain, sha256, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.models import Message, ToolCall


_SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class DataReference:
    """Data that was left out: its media type, its size in bytes, its sha256."""

    media_type: str
    bytes: int
    sha256: str

    @classmethod
    def of(cls, media_type: str, data: str) -> DataReference:
        """Return a reference to data in base64, or to the text itself if it is not base64."""
        try:
            raw = base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):  # a character outside ASCII is a ValueError
            raw = data.encode(errors="replace")
        return cls(media_type, len(raw), sha256(raw))

    @classmethod
    def of_text(cls, media_type: str, text: str) -> DataReference:
        """Return a reference to text, such as SVG."""
        raw = text.encode(errors="replace")
        return cls(media_type, len(raw), sha256(raw))

    def __str__(self) -> str:
        return f"[{self.media_type}, {size_text(self.bytes)}, sha256 {self.sha256[:_SHOWN_DIGITS]}...]"

    def to_dict(self) -> dict[str, Any]:
        """Return the reference as it is kept in metadata."""
        return asdict(self)


_DATA_URL = re.compile(r"data:([^;,]*)(;[^,]*)?,(.*)", re.DOTALL)


def bad(index: int, problem: str) -> ContentError:
    """Return the error about message `index`, counted from 0."""
    return ContentError(f"message {index}: {problem}")


def mapping(value: Any, index: int, what: str) -> Mapping[str, Any]:
    """Return the value, if it is an object."""
    if not isinstance(value, dict):
        raise bad(index, f"{what} is an object, not {type(value).__name__}")
    return value


def text(value: Any, index: int, what: str) -> str:
    """Return the value, if it is text."""
    if not isinstance(value, str):
        raise bad(index, f"{what} is text, not {type(value).__name__}")
    return value


def parts(value: Any, index: int, what: str) -> list[Mapping[str, Any]]:
    """Return the value, if it is a list of objects."""
    if not isinstance(value, list):
        raise bad(index, f"{what} is a list, not {type(value).__name__}")
    return [mapping(part, index, f"each of {what}") for part in value]


def kind_of(part: Mapping[str, Any], index: int) -> str:
    """Return the type of a part or block."""
    return text(part.get("type"), index, "the type of a part")


def attachment(part: Mapping[str, Any], index: int) -> tuple[str, dict[str, Any]]:
    """Return one line for a part that is not text, and its description in the metadata.

    Known are `image_url`, `input_audio` and `file` of OpenAI, `image` and `document` of Anthropic.

    Raises:
        ContentError: it has another shape.
    """
    kind = kind_of(part, index)
    if kind == "image_url":
        image = mapping(part.get("image_url"), index, "image_url")
        return _address(text(image.get("url"), index, "an image's url"))
    if kind == "input_audio":
        audio = mapping(part.get("input_audio"), index, "input_audio")
        return _data(f"audio/{audio.get('format')}", text(audio.get("data"), index, "the audio's data"))
    if kind == "file":
        file = mapping(part.get("file"), index, "file")
        return _address(text(file.get("file_data") or file.get("file_id"), index, "a file's data or id"))
    if kind in {"image", "document"}:
        return _source(mapping(part.get("source"), index, f"the source of an {kind}"), index)
    raise bad(index, f"parts of type {kind!r} are not known; use text, or leave it out")


def _source(source: Mapping[str, Any], index: int) -> tuple[str, dict[str, Any]]:
    if source.get("type") in {"url", "file"}:
        return _address(text(source.get("url") or source.get("file_id"), index, "a source's url or file_id"))
    data = text(source.get("data"), index, "a source's data")
    media_type = text(source.get("media_type"), index, "a source's media_type")
    return _data(media_type, data, is_text=source.get("type") == "text")


def _address(address: str) -> tuple[str, dict[str, Any]]:
    inline = _DATA_URL.fullmatch(address)
    if inline is None:
        return f"[{address}]", {"url": address}
    media_type, options, data = inline.groups()
    return _data(media_type or "text/plain", data, is_text=";base64" not in (options or ""))


def _data(media_type: str, data: str, *, is_text: bool = False) -> tuple[str, dict[str, Any]]:
    reference = DataReference.of_text(media_type, data) if is_text else DataReference.of(media_type, data)
    return str(reference), reference.to_dict()


Entry = dict[str, Any]

PARTS: Final[dict[str, type]] = {
    "content": dict,
    "generation_config": dict,
    "message": str,
    "metadata": dict,
    "priority": str,
    "retain": str,
    "retain_match": list,
    "retain_match_mode": str,
    "tags": list,
}
"""The parts that an entry may have, with their types in JSON."""

_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "dialogue": {"name": None},
    "tool_io": {"status": None},
    "artifact": {"language": None},
    "reasoning": {"format": "parsed"},
    "output": {"format": "text"},
    "session": {"decisions": [], "failed_approaches": [], "next_steps": []},
}


def entry(content: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> Entry:
    """Return an entry for a content and its metadata."""
    return {"content": dict(content), **({"metadata": dict(metadata)} if metadata else {})}


def said(role: str, text: str, name: str | None = None, metadata: Mapping[str, Any] | None = None) -> Entry:
    """Return the entry of a message; one of the system without a name is an instruction."""
    if role == "system" and not name:
        return entry({"content_type": "instruction", "text": text}, metadata)
    named = {"name": name} if name else {}
    return entry({"content_type": "dialogue", "role": role, "text": text, **named}, metadata)


def called(calls: Iterable[ToolCall]) -> dict[str, Any]:
    """Return the metadata of an assistant that calls tools; empty if it does not."""
    listed = [call.to_dict() for call in calls]
    return {"tool_calls": listed} if listed else {}


def answered(call_id: str, tool: str, text: str, *, is_error: bool = False) -> Entry:
    """Return the entry of a tool's answer."""
    content = {
        "content_type": "tool_io",
        "tool_name": tool,
        "direction": "result",
        "payload": {"content": text},
    }
    metadata: dict[str, Any] = {"tool_call_id": call_id, "name": tool}
    if is_error:
        content["status"] = "error"
        metadata["is_error"] = True
    return entry(content, metadata)


def entry_of(
    message: Message,
    content: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
) -> Entry:
    """Return an entry that becomes the same message.

    Args:
        message: a message of a compiled context.
        content: what was committed, where it is known. Otherwise the entry is what was said, thought or answered.
        metadata: what was committed with it.
        tags: those that it was committed with.
    """
    made = entry(content, metadata) if content is not None else _heard(message)
    kind = made["content"]["content_type"]
    if message.priority is not default_priority(kind):
        made["priority"] = str(message.priority)
    return checked(
        {**made, "generation_config": dict(message.generation_config), "tags": list(tags)}, "a message"
    )


def checked(given: Any, place: str) -> Entry:
    """Return a copy of the entry as it would be read back from JSON, without the parts that say nothing.

    Raises:
        ContentError: it is not an entry, or has no JSON form; the message begins with `place`.
    """
    content = given.get("content") if isinstance(given, dict) else None
    if not isinstance(content, dict) or not isinstance(content.get("content_type"), str):
        raise ContentError(f"{place}: it has no 'content', a dict with a 'content_type'")
    unknown = sorted(str(part) for part in given.keys() - PARTS.keys())
    if unknown:
        raise ContentError(
            f"{place}: {', '.join(unknown)} cannot be part of it; use {', '.join(sorted(PARTS))}"
        )
    try:
        copy = plain(given)
    except ContentError as error:
        raise ContentError(f"{place}: {error}") from None
    kept = {part: value for part, value in copy.items() if value not in (None, {}, [])}
    for part, value in kept.items():
        if not isinstance(value, PARTS[part]):
            raise ContentError(f"{place}: {part} is a {PARTS[part].__name__}, not {type(value).__name__}")
    defaults = _DEFAULTS.get(content["content_type"], {})
    kept["content"] = {k: v for k, v in kept["content"].items() if k not in defaults or v != defaults[k]}
    return kept


def _heard(message: Message) -> Entry:
    if message.role == "tool" and message.tool_call_id:
        return answered(message.tool_call_id, message.name or "", message.content, is_error=message.is_error)
    if message.content_type == "reasoning":
        return entry({"content_type": "reasoning", "text": message.content})
    return said(message.role, message.content, message.name, called(message.tool_calls))
