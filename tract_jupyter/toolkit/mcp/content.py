"""The answer of an MCP tool: a value for code, and a text with described blocks for the model.

A server sends `content` for the model, and may send `structuredContent` for code. Neither replaces the other. This
module checks the data itself, without the SDK's types. One odd block therefore does not invalidate the whole answer.
"""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from tract_jupyter.exceptions import AttachmentError, McpResultError
from tract_jupyter.models import AttachedFile, check_together, one_line, possessive, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LONGEST_REASON: Final = 2_000
_LONGEST_WORD: Final = 500
_MOST_BYTES: Final = 10**15
_LEAST_NAMED: Final = 64
_LEAST_UNNAMED: Final = 200
_SHORTEST_LINE, _FEWEST_LINES = 56, 3
_WRAPPERS: Final = ("result", "content")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_BEGINNINGS: Final = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "JVBERi0", "UEsDB", "SUkq", "T2dnUw", "SUQz")
"""The first characters of PNG, JPEG, GIF, WebP and WAV, PDF, ZIP, TIFF, Ogg and MP3 files in base64."""
_LINE: Final = r"(?:[A-Za-z0-9+/_-]++|\\{1,8}/|%2[BFbf])"
_RUN: Final = possessive(
    rf"(?:data:(?P<kind>[\w.+/;=-]{{0,200}}?);base64,\s{{0,9}}|(?<![A-Za-z0-9+/_-])(?=[A-Za-z0-9+/_\\%-]{{40}}))"
    rf"(?P<data>{_LINE}++(?:(?<=[A-Za-z0-9+/_-]{{56}})[ \t]*+(?:\r?\n|(?:\\{{1,8}}[nr]){{1,2}}|(?<=[ \t]))"
    rf"[ \t>|]{{0,20}}{_LINE}++)*+(?:=|%3[Dd]){{0,2}})",
    re.ASCII | re.IGNORECASE,
)
"""Base64 in a text: a data URI, or a long word, also of several lines."""
_IN_DATA: Final = re.compile(r"[A-Za-z0-9+]{40}|/{6}")
"""A pattern that occurs in data, but not in a path or a name of many words."""
_HEX: Final = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_DATA_KEY: Final = re.compile(r"(?i)(.*_)?(data|blob|bytes|base_?64|b64|b64_json|image|audio|thumbnail|icon)")
_TYPE_KEY: Final = re.compile(r"(?i)(mime|media|content)_?type")


class McpAnswer(NamedTuple):
    """The answer of a tool.

    Attributes:
        value: the value for code: the structured content without its wrapper, or the text.
        told: the text for a model; None if the value is sufficient.
        images: the images that a model can see.
    """

    value: Any
    told: str | None = None
    images: tuple[AttachedFile, ...] = ()


def read_answer(result: Mapping[str, Any], subject: str, limit: int, *, wraps: bool) -> McpAnswer:
    """Convert an answer of a server.

    `wraps`: structured content with one key may be a wrapper; see `may_wrap`.

    Raises:
        McpResultError: it exceeds the limit.
    """
    blocks: list[Any] = result.get("content") or []
    structured = result.get("structuredContent")
    value, model_text = _text(blocks, limit), _text(blocks, limit, hides=True)
    if structured is not None:
        value = _unwrapped(structured) if wraps else structured
        if not blocks or _repeats(blocks, (structured, value)):
            model_text = _as_text(_without_data(value))
    size = max(_size(model_text), _size(_as_text(_without_data(value))))
    if size > limit:
        least = "at least " if len(blocks) > 1 else ""
        raise McpResultError(
            f"{subject} answered with {least}{size:,} bytes of text; the limit is {limit:,}. Ask it for less, or raise "
            "result_bytes of the server"
        )
    if value == "" and structured is None:
        return McpAnswer(None)
    return McpAnswer(value, None if model_text == _as_text(value) else model_text, _images(blocks, subject))


def read_reason(result: Mapping[str, Any]) -> str:
    """Return the reason in a failed answer."""
    text = _text(result.get("content") or [], _LONGEST_REASON, hides=True)
    if not text and result.get("structuredContent") is not None:
        text = _as_text(_without_data(result["structuredContent"]))
    return shortened(text.strip(), _LONGEST_REASON) or "the server gave no reason"


def may_wrap(schema: Mapping[str, Any] | None) -> bool:
    """Return True if the schema allows a wrapper: structured content with only the key `result` or `content`."""
    properties = (schema or {}).get("properties")
    return not isinstance(properties, dict) or len(properties) <= 1


def unwrapped_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema of the value for code; None if there is none."""
    properties = (schema or {}).get("properties")
    if schema is None or not isinstance(properties, dict) or len(properties) != 1:
        return schema
    (name, inner), *_ = properties.items()
    if name not in _WRAPPERS or not isinstance(inner, dict):
        return schema
    if name == "content" and inner.get("type") != "string":
        return schema
    return {**inner, **{key: schema[key] for key in ("$defs", "definitions") if key in schema}}


def _unwrapped(value: Any) -> Any:
    """Return the value within `{"result": value}` or `{"content": "text"}`, as SDKs wrap other values than objects."""
    match value:
        case {"result": inner, **others} if not others:
            return inner
        case {"content": str() as inner, **others} if not others:
            return inner
    return value


def _repeats(blocks: Sequence[Any], values: Sequence[Any]) -> bool:
    """Return True if a content only repeats one of the values: as text, as JSON, or a list item by item."""
    texts = [str(block["text"]) for block in blocks if _kind(block) == "text"]
    if len(texts) < len(blocks):
        return False
    if any(_is_same("\n".join(texts), value) for value in values):
        return True
    return any(
        isinstance(value, list) and len(value) == len(texts) and all(map(_is_same, texts, value))
        for value in values
    )


def _is_same(text: str, value: Any) -> bool:
    if isinstance(value, str) and text == value:
        return True
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


# --- blocks


def _text(blocks: Sequence[Any], enough: int, *, hides: bool = False) -> str:
    """Return the blocks as one text, up to the first block after so many characters; `hides` the data in them."""
    texts: list[str] = []
    size = 0
    for block in blocks:
        if size > enough:
            break
        texts.append(_block(block, hides=hides))
        size += len(texts[-1]) + bool(size)
    return "\n".join(texts)


def _kind(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and not isinstance(block.get("text"), str):
        return "text without a text"
    return kind if isinstance(kind, str) else "unknown"


def _block(block: Any, *, hides: bool) -> str:
    match _kind(block):
        case "text":
            return str(_without_data(block["text"]) if hides else block["text"])
        case "image" | "audio" as kind:
            return _bracketed(kind, block.get("mimeType"), _bytes_of(block.get("data")))
        case "resource":
            return _resource(block.get("resource"), hides=hides)
        case "resource_link":
            size = block.get("size")
            size = f"{size:,} bytes" if isinstance(size, int) and 0 < size < _MOST_BYTES else None
            name = block.get("title") or block.get("name")
            return _bracketed(
                f"link to resource {_word(block.get('uri'))}", name, block.get("mimeType"), size
            )
        case kind:
            return _bracketed(f"a block of type {kind!r}", "not shown")


def _resource(resource: Any, *, hides: bool) -> str:
    if not isinstance(resource, dict):
        return _bracketed("resource", "without content")
    named = f"resource {_word(resource.get('uri'))}"
    if isinstance(resource.get("text"), str):
        text = _without_data(resource["text"]) if hides else resource["text"]
        return f"{_bracketed(named, resource.get('mimeType'))}\n{text}"
    return _bracketed(named, resource.get("mimeType"), _bytes_of(resource.get("blob")))


def _images(blocks: Sequence[Any], subject: str) -> tuple[AttachedFile, ...]:
    """Return the images that a model can receive. The text only describes the others."""
    images: list[AttachedFile] = []
    for block in blocks:
        match block:
            case {"type": "image", "data": str(data)} | {"type": "resource", "resource": {"blob": str(data)}}:
                pass
            case _:
                continue
        with suppress(ValueError, AttachmentError):
            file = AttachedFile.of(f"{subject} image {len(images) + 1}", base64.b64decode(data))
            if file.attachment.kind == "image":
                check_together([*images, file])
                images.append(file)
    return tuple(images)


def _bracketed(*parts: Any) -> str:
    return f"[{', '.join(_word(part) for part in parts if part)}]"


def _word(value: Any) -> str:
    return one_line(str(value), _LONGEST_WORD)


def _bytes_of(data: Any) -> str:
    """Return the size of the decoded base64."""
    return f"{len(data.rstrip('=')) * 3 // 4:,} bytes" if isinstance(data, str) else "without data"


# --- data


def _without_data(value: Any, key: str = "", kind: str = "") -> Any:
    """Return a value with a description instead of base64: in texts, in JSON within texts, and in names.

    `key` is the name of the value, and `kind` the media type next to it.
    """
    if isinstance(value, list):
        return [_without_data(item, key, kind) for item in value]
    if isinstance(value, dict):
        kind = next((str(item) for name, item in value.items() if _TYPE_KEY.fullmatch(name)), "")
        items: dict[str, Any] = {}
        for name, item in value.items():
            described = _described_runs(name)
            items[f"{described} {len(items)}" if described in items else described] = _without_data(
                item, name, kind
            )
        return items
    if not isinstance(value, str):
        return value
    least = _LEAST_NAMED if _DATA_KEY.fullmatch(key) else _LEAST_UNNAMED
    if len(value) >= least and _is_base64(value, is_named=least == _LEAST_NAMED or bool(kind)):
        return _bracketed("base64", kind, _bytes_of(value), "not shown")
    if value.lstrip()[:1] in {"{", "["} and len(value) >= _LEAST_NAMED:
        with suppress(ValueError, RecursionError):
            parsed = json.loads(value)
            cleaned = _without_data(parsed)
            return value if cleaned == parsed else _as_text(cleaned)
    return _described_runs(value)


def _described_runs(text: str) -> str:
    """Return a text with a description in place of each part that is base64."""
    return _RUN.sub(_described_run, text)


def _described_run(match: re.Match[str]) -> str:
    kind, data = match["kind"], match["data"]
    plain = re.sub(r"\\{1,8}([/nr])", lambda escape: "/" if escape[1] == "/" else "\n", unquote(data))
    lines = re.split(r"[\s>|]+", plain)
    is_wrapped = len(lines) >= _FEWEST_LINES and {len(line) for line in lines[:-1]} == {len(lines[0])}
    if len(lines) > 1 and not (is_wrapped and len(lines[-1]) <= len(lines[0])):
        return "".join(map(_described_runs, re.split(r"(\s+|\\{1,8}[nr])", match[0])))
    joined = "".join(lines)
    is_file = kind is not None or joined.startswith(_BEGINNINGS)
    if kind is None and len(joined) < (_LEAST_NAMED if is_file else _LEAST_UNNAMED):
        return match[0]
    if not is_file and not (
        _IN_DATA.search(joined) and _is_base64(joined[: len(joined) // 4 * 4], is_named=False)
    ):
        return match[0]
    return _bracketed("base64", kind, _bytes_of(joined), "not shown")


def _is_base64(text: str, *, is_named: bool) -> bool:
    """Return True if a text is probably base64.

    A long word with only letters may be a genome sequence, and hex digits may be a hash. The text must therefore be
    named as data, start like a file, or contain lowercase letters, uppercase letters and digits.
    """
    first, *others = lines = text.splitlines()
    if any(len(line) != len(first) for line in others[:-1]):  # MIME wraps into lines of one length
        return False
    if others and not is_named and len(first) < _SHORTEST_LINE:
        return False
    data = "".join(lines)
    if not _BASE64.fullmatch(data) or _HEX.fullmatch(data) or len(data) % 4 == 1:
        return False
    mixed = (str.isupper, str.islower, str.isdigit)
    return is_named or data.startswith(_BEGINNINGS) or all(any(map(test, data)) for test in mixed)


# ---


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
