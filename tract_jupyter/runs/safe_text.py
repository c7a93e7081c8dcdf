"""What leaves an operation for a log or a message: bounded, and without what looks like a key (R54, R57)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models.text import safe_repr, shortened
from tract_jupyter.runs.terms import MAX_ERROR_TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping

MASK: Final = "[masked]"

# each begins with something fixed and repeats one class of characters, so that its time is linear
_KEYS: Final = re.compile(
    r"\b(?:sk|pk|rk|xox[abprs]|gh[opusr]|github_pat|glpat|hf|gsk)[-_][A-Za-z0-9][A-Za-z0-9_-]{11,}"
    r"|\bAIza[A-Za-z0-9_-]{12,}"
    r"|\bAKIA[0-9A-Z]{12,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+){0,2}"
)
_NAMED: Final = re.compile(
    r"(?i)(bearer\s"
    r"|(?:api[-_ ]?key|access[-_ ]?key|secret|token|passw(?:or)?d|authorization|credential)s?"
    r"[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer\s|basic\s)?)((?!\d+\b)[^\s\"',;&]{6,})"
)
_LONGEST_LOOKED_AT: Final = 20_000


def masked(text: str) -> str:
    """The text with what looks like a key, a token or a password replaced; cut where it is very long."""
    text = text[:_LONGEST_LOOKED_AT]
    return _NAMED.sub(lambda found: found[1] + MASK, _KEYS.sub(MASK, text))


def message_of(error: BaseException | str, limit: int = MAX_ERROR_TEXT) -> str:
    """What an error says, fit to be shown: bounded, printable, without keys. Nothing is raised."""
    if isinstance(error, str):
        return shortened(masked(error), limit)
    try:
        told = str(error)
    except Exception:  # noqa: BLE001 # it may raise anything
        told = safe_repr(error)
    name = type(error).__name__
    return shortened(masked(f"{name}: {told}" if told else name), limit)


def quoted(value: Any, limit: int) -> str:
    """Return the beginning of a value as text, for a log."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=safe_repr)
    return text[:limit]


def bounded(values: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """A mapping as JSON of at most `limit` characters, texts masked; otherwise only what was left out."""
    try:
        text = json.dumps(dict(values), allow_nan=False, default=safe_repr)
        if len(text) > limit:
            return {"omitted": f"{len(text)} characters"}
        found: dict[str, Any] = json.loads(text)
    except Exception as error:  # noqa: BLE001 # what an operation gives may do anything when it is looked at
        return {"omitted": shortened(type(error).__name__, 100)}
    return {shortened(key, 200): _masked_in(value) for key, value in found.items()}


def _masked_in(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, list):
        return [_masked_in(one) for one in value]
    return {key: _masked_in(one) for key, one in value.items()} if isinstance(value, dict) else value
