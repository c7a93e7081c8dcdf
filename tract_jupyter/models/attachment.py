"""Attachments: files and other context of a user message as values, with their type and tokens.

The content determines the type, and the name must not contradict it. Token counts of images and PDFs are estimates.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from tract_jupyter.exceptions import AttachmentError, ContentError
from tract_jupyter.models.canonical import sha256
from tract_jupyter.models.text import counted, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.models.content_types import Attachment


Reader: TypeAlias = Callable[[str], bytes]
"""Gives the bytes of a hash."""

MOST_BYTES: Final = 3_700_000
"""Of an image or a PDF: 5 MB once they are base64, in which they are sent and which providers measure."""
MOST_TEXT: Final = 100_000
"""Bytes of a text."""
MOST_TOGETHER: Final = 15_000_000
"""Bytes of all attachments of a message: 20 MB once they are base64, of the 32 that a request may have."""
MOST_FILES: Final = 20
"""Attachments of a message."""
MOST_PIXELS: Final = 8_000
"""Of an image's width or height; providers refuse larger ones."""
LONGEST_NAME: Final = 200
OF_RESULTS: Final = (
    "[These are attachments of the tool results above, in this order. The user did not send them.]"
)
"""The text before the attachments of tool results."""
_UNSEEN: Final = "[You do not see {}]"

Kind = Literal["image", "PDF", "text"]
PDF: Final = "application/pdf"
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TEXTS: Final = {
    ".txt": "text/plain", ".log": "text/plain", ".md": "text/markdown", ".markdown": "text/markdown",
    ".csv": "text/csv", ".tsv": "text/tab-separated-values", ".html": "text/html", ".json": "application/json",
    ".jsonl": "application/x-ndjson", ".yaml": "application/yaml", ".yml": "application/yaml",
    ".toml": "application/toml", ".xml": "application/xml", ".py": "text/x-python",
}  # fmt: skip
_NAMED: Final[dict[str, Kind]] = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".webp"), "image"),
    ".pdf": "PDF",
    **dict.fromkeys(_TEXTS, "text"),
}
MEDIA_TYPES: Final = frozenset({*_IMAGES, PDF, *_TEXTS.values()})
_ALLOWED: Final = "PNG, JPEG, GIF and WebP images, PDF, and text in UTF-8"


def kind_of(media_type: str) -> Kind:
    """Return the kind of attachment for a media type."""
    return "image" if media_type in _IMAGES else "PDF" if media_type == PDF else "text"


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """An attachment with its bytes, for `user`, `chat` or `commit`."""

    attachment: Attachment
    data: bytes = field(repr=False)

    @classmethod
    def of(cls, name: str, data: bytes) -> AttachedFile:
        """Return a file with this name and content.

        Raises:
            AttachmentError: the file is empty, too large or of an unsupported type, or its name contradicts its
                content.
        """
        from tract_jupyter.models.content_types import Attachment

        label = repr(printable(name, LONGEST_NAME))
        if not data:
            raise AttachmentError(f"{label} is empty, so there is nothing to attach; use a file with content")
        media_type = _type_of(name, data, label)
        _check_size(media_type, data, label)
        display_name = one_line(name, LONGEST_NAME) or "file"
        return cls(
            Attachment(name=display_name, media_type=media_type, sha256=sha256(data), size=len(data)), data
        )

    @property
    def text(self) -> str:
        """The text for a model: between marks that it cannot contain, under its name. Empty for other kinds."""
        if self.attachment.kind != "text":
            return ""
        text = self.data.decode("utf-8-sig")
        lines = counted(text.count("\n") + 1, "line")
        return SentContext(
            self.attachment.name, f"file, {self.attachment.media_type}, {lines}", text
        ).delimited()

    def tokens(self, count: Callable[[str], int]) -> int:
        """Return the token count: by `count` for a text, an estimate for other kinds."""
        return count(self.text) if self.attachment.kind == "text" else media_tokens(self.data)


def check_together(files: Sequence[AttachedFile]) -> None:
    """Check that one message can carry these attachments."""
    if len(files) > MOST_FILES:
        raise AttachmentError(
            f"a message can have at most {MOST_FILES} attachments, not {len(files):,}; send them in several messages"
        )
    size = sum(len(file.data) for file in files)
    if size > MOST_TOGETHER:
        raise AttachmentError(
            f"the attachments of a message can have at most {MOST_TOGETHER:,} bytes in total, not {size:,}; send them "
            "in several messages"
        )


# --- types of files


def _type_of(name: str, data: bytes, label: str) -> str:
    """Return the media type of a content."""
    suffix = PurePath(name).suffix.lower()
    media_type = _binary_type(data) or _text_type(suffix, data)
    named = _NAMED.get(suffix)
    if media_type is None:
        what = f"no {named}" if named not in {None, "text"} else "neither text in UTF-8 nor an image or a PDF"
        raise AttachmentError(f"{label} is {what}, so it cannot be attached; allowed: {_ALLOWED}")
    if named not in {None, kind_of(media_type)}:
        raise AttachmentError(
            f"{label} has the name of {_a(named)}, but its content is {media_type}, so it was not attached; rename it"
        )
    return media_type


def _a(kind: Kind | None) -> str:
    return f"{'an' if kind == 'image' else 'a'} {kind}"


def _binary_type(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return PDF if data.startswith(b"%PDF-") else None


def _text_type(suffix: str, data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return _TEXTS.get(suffix, "text/plain")


def _check_size(media_type: str, data: bytes, label: str) -> None:
    kind = kind_of(media_type)
    most = MOST_TEXT if kind == "text" else MOST_BYTES
    if len(data) > most:
        raise too_large(label, len(data), kind)
    if kind != "image":
        return
    pixels = image_pixels(data)
    if pixels is None:
        raise AttachmentError(
            f"{label} is damaged: its header has no width and height, so a provider would refuse it; save it again"
        )
    if max(pixels) > MOST_PIXELS:
        raise AttachmentError(
            f"{label} has {pixels[0]:,} x {pixels[1]:,} pixels, but providers accept at most {MOST_PIXELS:,} per side; "
            "make it smaller"
        )


def too_large(label: str, size: int, kind: Kind | None = None) -> AttachmentError:
    """Return the error for a file with at least this many bytes."""
    if kind == "text":
        return AttachmentError(
            f"{label} has {size:,} bytes, but a text can have at most {MOST_TEXT:,}, so it was not attached; attach "
            "the part that matters"
        )
    return AttachmentError(
        f"{label} has {size:,} bytes, but an image or a PDF can have at most {MOST_BYTES:,}, so it was not attached; "
        "make it smaller, or attach the part that matters"
    )


# --- tokens

_LEAST_TOKENS, _MOST_TOKENS = 85, 1_600  # of an image
_LONGEST_EDGE: Final = 1_568  # pixels; providers scale images down to it
_PIXELS_PER_TOKEN: Final = 750
_TOKENS_PER_PAGE: Final = 2_000  # of a PDF: its text, and its picture
_BYTES_PER_PAGE: Final = 50_000  # if no pages are found
_PAGE: Final = re.compile(rb"/Type\s*/Page(?![A-Za-z])")


def media_tokens(data: bytes) -> int:
    """Estimate the tokens of an image or a PDF.

    An image takes `width * height / 750` after its longer edge is scaled down to 1,568 pixels, from 85 to 1,600. A PDF
    takes 2,000 per page. If its pages cannot be counted because they are compressed, 50 kB count as a page.
    """
    if data.startswith(b"%PDF-"):
        return _TOKENS_PER_PAGE * (len(_PAGE.findall(data)) or -(-len(data) // _BYTES_PER_PAGE))
    pixels = image_pixels(data)
    if pixels is None:
        return _MOST_TOKENS
    scale = min(1.0, _LONGEST_EDGE / max(*pixels, 1))
    tokens = round(pixels[0] * scale * pixels[1] * scale / _PIXELS_PER_TOKEN)
    return min(_MOST_TOKENS, max(_LEAST_TOKENS, tokens))


def image_pixels(data: bytes) -> tuple[int, int] | None:
    """Return width and height from an image's header; None if the header is not readable."""
    try:
        pixels = _pixels(data)
    except IndexError:
        return None
    return pixels if pixels is not None and min(pixels) > 0 else None


def _pixels(data: bytes) -> tuple[int, int] | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return (_big(data, 16, 4), _big(data, 20, 4)) if data[12:16] == b"IHDR" else None
    if data.startswith(b"GIF8"):
        return _little(data, 6, 2), _little(data, 8, 2)
    if data.startswith(b"RIFF"):
        return _webp_pixels(data)
    return _jpeg_pixels(data) if data.startswith(b"\xff\xd8") else None


def _webp_pixels(data: bytes) -> tuple[int, int] | None:
    form = data[12:16]
    if form == b"VP8X":
        return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
    if form == b"VP8L" and data[20] == 0x2F:  # noqa: PLR2004 # its signature
        bits = _little(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return None


# the segments at the start of a JPEG frame
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xDA)}) - {0xD9}  # markers without a segment


def _jpeg_pixels(data: bytes) -> tuple[int, int] | None:
    at = 2
    while data[at] == 0xFF:  # noqa: PLR2004 # each marker begins with it
        marker = data[at + 1]
        if marker == 0xFF:  # noqa: PLR2004 # padding
            at += 1
        elif marker in _FRAMES:
            return _big(data, at + 7, 2), _big(data, at + 5, 2)
        elif marker in _ALONE:
            at += 2
        else:
            at += 2 + max(2, _big(data, at + 2, 2))
    return None


def _big(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(_part(data, at, length), "big")


def _little(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(_part(data, at, length), "little")


def _part(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise IndexError(at)
    return data[at : at + length]


# --- the form for a model


def no_reader(sha256: str) -> bytes:
    """Refuse to read an attachment, because there is no store."""
    raise ContentError(
        f"the bytes of attachment {sha256[:12]} are not loaded; call compile() of their tract to load them"
    )


def named_text(attachments: Iterable[Attachment], text: str) -> str:
    """Return a text, preceded by one line for each of its attachments: name, type and size."""
    return "\n".join([*map(str, attachments), *([text] if text else [])])


def attached_parts(attachments: Iterable[Attachment], text: str, read: Reader) -> list[dict[str, Any]]:
    """Return the parts of a message in OpenAI's shape: its attachments, then its text."""
    parts = [_sent_part(AttachedFile(attachment, read(attachment.sha256))) for attachment in attachments]
    return [*parts, *([{"type": "text", "text": text}] if text.strip() else [])]


def _sent_part(file: AttachedFile) -> dict[str, Any]:
    attachment = file.attachment
    if attachment.kind == "text":
        return {"type": "text", "text": file.text.rstrip("\n")}
    url = f"data:{attachment.media_type};base64,{base64.b64encode(file.data).decode()}"
    if attachment.kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": attachment.name, "file_data": url}}


def anthropic_block(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an image or a PDF with data in OpenAI's shape as Anthropic's block; None for any other part."""
    file = part.get("file")
    image = part.get("image_url") if part.get("type") == "image_url" else file
    url = image.get("url") or image.get("file_data") if isinstance(image, dict) else image
    match = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if match is None:
        return None
    source = {"type": "base64", "media_type": match[1], "data": match[2]}
    if part.get("type") == "image_url":
        return {"type": "image", "source": source}
    if match[1] != PDF or not isinstance(file, dict):
        return None
    name = file.get("filename")
    return {
        "type": "document",
        "source": source,
        **({"title": name} if isinstance(name, str) and name else {}),
    }


_DATA_URL: Final = re.compile(r"data:([\w/+.-]+);base64,(.*)", re.DOTALL)


def with_parts(
    messages: Iterable[Mapping[str, Any]], read: Reader, *, with_results: bool = True
) -> list[Any]:
    """Return messages in the form for a client: with the bytes of their attachments.

    Attachments of tool results follow the results in a user message, because some dialects do not allow them in
    results.
    """
    from tract_jupyter.models.content_types import Attachment

    sent: list[Any] = []
    of_results: list[Attachment] = []
    for message in messages:
        named = [Attachment(**each) for each in message.get("attachments") or ()]
        if of_results and message.get("role") != "tool":
            sent.append(_of_results(of_results, read))
            of_results = []
        if message.get("role") == "tool":
            of_results += named if with_results else ()
            sent.append(_result(message, 0 if with_results else len(named)))
        else:
            sent.append(_with_parts(message, named, read) if named else message)
    return [*sent, _of_results(of_results, read)] if of_results else sent


def _result(message: Mapping[str, Any], unseen: int) -> dict[str, Any]:
    """Return a tool result without its attachments, with a note about the ones that the model does not see."""
    result = {name: value for name, value in message.items() if name != "attachments"}
    if unseen:
        note = _UNSEEN.format("its image" if unseen == 1 else f"its {unseen} images")
        result["content"] = f"{message.get('content') or ''}\n\n{note}"
    return result


def has_attached_results(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Return True if a result of a tool, in the form between packages, has attachments."""
    return any(message.get("role") == "tool" and message.get("attachments") for message in messages)


def _of_results(attachments: Sequence[Attachment], read: Reader) -> dict[str, Any]:
    text = "\n".join([OF_RESULTS, *map(str, attachments)])
    return {"role": "user", "content": attached_parts(attachments, text, read)}


def _with_parts(message: Mapping[str, Any], attachments: list[Attachment], read: Reader) -> dict[str, Any]:
    rest = {name: value for name, value in message.items() if name != "attachments"}
    return {**rest, "content": attached_parts(attachments, str(message.get("content") or ""), read)}


_MEDIA_PARTS: Final = frozenset({"image_url", "file", "input_image", "input_file", "image", "document"})


def is_media(value: Any) -> bool:
    """Return True for a part or block of a message that is an image or a file, in any dialect, with its bytes."""
    return (
        isinstance(value, dict)
        and value.get("type") in _MEDIA_PARTS
        and next(_inline(value), None) is not None
    )


def inline_media(value: Any) -> Iterator[bytes]:
    """Yield the images and PDFs in messages of any dialect, with empty bytes for invalid base64."""
    for text in _inline(value):
        try:
            yield base64.b64decode(text)
        except ValueError:
            yield b""


def _inline(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _inline(each)
    elif isinstance(value, dict) and value.get("type") in _MEDIA_PARTS:
        yield from _inline_data(value)
    elif isinstance(value, dict) and not isinstance(value.get("content"), str):
        yield from _inline(value.get("content"))


def _inline_data(part: Mapping[str, Any]) -> Iterator[str]:
    for value in part.values():
        if isinstance(value, str) and value.startswith("data:"):
            match = _DATA_URL.fullmatch(value)
            if match is not None:
                yield match[2]
        elif isinstance(value, dict) and value.get("type") == "base64":
            yield str(value.get("data") or "")
        elif isinstance(value, dict):
            yield from _inline_data(value)


_CONTEXT: Final = re.compile(
    r'<context id="([0-9a-f]{8})" of="([^"\n]{0,200})" what="([^"\n]{0,200})">\n(.*?)\n</context \1>\n\n',
    re.DOTALL,
)


class SentContext(NamedTuple):
    """A piece of context for a message.

    Attributes:
        name: the user's name for it, such as `df`.
        what: a short description.
        text: the text for the model.
    """

    name: str
    what: str
    text: str

    def delimited(self) -> str:
        """Return the text in its form within a message: between marks that it cannot contain."""
        mark = sha256(self.text.encode("utf-8", "replace"))[:8]
        name, what = (" ".join(text.replace('"', "'").split())[:200] for text in (self.name, self.what))
        return f'<context id="{mark}" of="{name}" what="{what}">\n{self.text}\n</context {mark}>\n\n'


def message_with(sent: Iterable[SentContext], text: str) -> str:
    """Return a message with its attached context before the text."""
    return "".join(context.delimited() for context in sent) + text


def parse_message(message: str) -> tuple[list[SentContext], str]:
    """Return the attached context and the text of a message."""
    sent: list[SentContext] = []
    at = 0
    while match := _CONTEXT.match(message, at):
        sent.append(SentContext(match[2], match[3], match[4]))
        at = match.end()
    return sent, message[at:]
