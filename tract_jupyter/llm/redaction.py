"""Removing secrets from everything that is written to a cassette."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tract_jupyter.llm.secret_shapes import mask_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REDACTED: Final = "[redacted]"
_SHORTEST: Final = 8  # a shorter text is a dummy key, such as "ollama"


class Redaction:
    """Removes secrets from a text: known ones, and texts that look like one.

    Args:
        known: secrets by value.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.known = frozenset(text.strip() for text in known)
        forms = {form for text in self.known if len(text) >= _SHORTEST for form in _forms(text)}
        long_first = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, long_first))) if long_first else None

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        masked = text if self._known is None else self._known.sub(REDACTED, text)
        return mask_secrets(masked, REDACTED)

    def of(self, value: Any) -> Any:
        """Return JSON data without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.of(each) for key, each in value.items()}
        return [self.of(each) for each in value] if isinstance(value, list) else value


def redacted_request(
    messages: list[dict[str, Any]], options: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the messages and options of a request, such as its tools, without texts that look like secrets."""
    redaction = Redaction()

    def clean(message: dict[str, Any]) -> dict[str, Any]:
        content, calls = message.get("content"), message.get("tool_calls")
        parts = [_clean_part(redaction, part) for part in content] if isinstance(content, list) else content
        texts = {"content": redaction.text(parts) if isinstance(parts, str) else parts} if parts else {}
        return {**message, **texts, **({"tool_calls": redaction.of(calls)} if calls else {})}

    return [clean(message) for message in messages], {
        name: redaction.of(value) for name, value in options.items()
    }


def _clean_part(redaction: Redaction, part: Any) -> Any:
    is_text = isinstance(part, dict) and isinstance(part.get("text"), str)
    return {**part, "text": redaction.text(part["text"])} if is_text else part


def _forms(text: str) -> Iterator[str]:
    """Yield a text as it is, as in an address, within JSON text, and within JSON text in JSON text."""
    yield text
    yield quote(text, safe="")
    for is_ascii in (False, True):
        once = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=is_ascii)[1:-1]
