"""A message's content as providers write it: text, or a list of parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange.references import DataReference

if TYPE_CHECKING:
    from collections.abc import Mapping

_DATA_URL = re.compile(r"data:([^;,]*)(;[^,]*)?,(.*)", re.DOTALL)


def bad(index: int, problem: str) -> ContentError:
    """The error about message `index`, counted from 0."""
    return ContentError(f"message {index}: {problem}")


def mapping(value: Any, index: int, what: str) -> Mapping[str, Any]:
    """The value, if it is an object."""
    if not isinstance(value, dict):
        raise bad(index, f"{what} is an object, not {type(value).__name__}")
    return value


def text(value: Any, index: int, what: str) -> str:
    """The value, if it is text."""
    if not isinstance(value, str):
        raise bad(index, f"{what} is text, not {type(value).__name__}")
    return value


def parts(value: Any, index: int, what: str) -> list[Mapping[str, Any]]:
    """The value, if it is a list of objects."""
    if not isinstance(value, list):
        raise bad(index, f"{what} is a list, not {type(value).__name__}")
    return [mapping(part, index, f"each of {what}") for part in value]


def kind_of(part: Mapping[str, Any], index: int) -> str:
    """The type of a part or block."""
    return text(part.get("type"), index, "the type of a part")


def attachment(part: Mapping[str, Any], index: int) -> tuple[str, dict[str, Any]]:
    """One line for a part that is no text, and what the metadata say of it.

    Known are `image_url`, `input_audio` and `file` of OpenAI, `image` and `document` of Anthropic.

    Raises:
        ContentError: it is none of them.
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
