"""What stands around the text of an entry in a notebook, so that it can be read: heading, fence, calls, lists."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LANGUAGE: Final = re.compile(r"[\w+#.-]*")
_FENCED: Final = re.compile(r"`{3,}[^`\n]*\n(.*)\n`{3,}", re.DOTALL)
_TITLES: Final = {"instruction": "System", "reasoning": "Reasoning", "output": "Output", "freeform": "Data"}
_LISTS: Final = ("decisions", "failed_approaches", "next_steps")


class Frame(NamedTuple):
    """What stands before and after a text. `info` is the language of the fence around it; None is no fence."""

    heading: str = ""
    info: str | None = None
    tail: str = ""

    def around(self, text: str) -> str:
        """The framed text."""
        return f"{self.heading}{text if self.info is None else fenced(text, self.info)}{self.tail}"

    def inside(self, source: str) -> str:
        """The text that may have been framed; if it was, `around` gives the source again."""
        text = source.removeprefix(self.heading).removesuffix(self.tail)
        within = None if self.info is None else _FENCED.fullmatch(text)
        return within[1] if within else text


def markdown_frame(content: Mapping[str, Any], metadata: Mapping[str, Any], *, is_text: bool) -> Frame:
    """The frame of a content that is shown in a Markdown cell; `is_text`: not as JSON."""
    info = _info(content) if is_text else "json"
    return Frame(
        f"## {' '.join(_title(content, metadata).split())}\n\n", info, "".join(_tail(content, metadata))
    )


def fenced(text: str, info: str) -> str:
    """The text between backticks that do not occur in it."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{text}\n{fence}"


def pretty(value: Any) -> str:
    """JSON for readers."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _title(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    kind: str = content["content_type"]
    if kind == "dialogue":
        role = content["role"].capitalize()
        return f"{role}: {content['name']}" if content.get("name") else f"{role}"
    if kind == "tool_io":
        return f"Tool {content['direction']}: {content['tool_name']}{' (failed)' if metadata.get('is_error') else ''}"
    if kind == "artifact":
        return f"Artifact: {content['artifact_type']}"
    if kind == "session":
        return f"Session {content['session_type']}"
    return _TITLES.get(kind, kind)


def _info(content: Mapping[str, Any]) -> str | None:
    kind = content["content_type"]
    if kind == "artifact":
        language = content.get("language") or ""
        if language == "markdown":
            return None
        return language if _LANGUAGE.fullmatch(language) else ""
    if kind == "output":
        output_format = content.get("format", "text")
        return None if output_format == "markdown" else "json" if output_format == "json" else ""
    is_answer = kind == "tool_io" or (kind == "dialogue" and content["role"] == "tool")
    return "" if is_answer else None


def _tail(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[str]:
    if content["content_type"] == "session":
        for key in _LISTS:
            if content.get(key):
                title = key.replace("_", " ").capitalize()
                yield f"\n\n**{title}**\n\n" + "\n".join(f"- {item}" for item in content[key])
    for call in metadata.get("tool_calls") or ():
        yield f"\n\n**Calls {call['name']}**\n\n{fenced(pretty(call['arguments']), 'json')}"
