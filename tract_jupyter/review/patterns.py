"""Which values a grant covers.

A pattern says for some of the values what they may be; all others must be equal to those of the call that was approved.

* a list: one of these values
* `"*"`: anything
* another text, for a text: `*` and `?` stand for characters other than `/`, `**` for any; a value with a `..` between
  slashes never matches, since it leads somewhere else than it seems to
* any other value: this value
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tract_jupyter.models.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping

_ANYTHING = "*"
_WILD = {"**": ".*", "*": "[^/]*", "?": "[^/]"}


def covers(pattern: Mapping[str, Any], approved: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether a call with these values is covered.

    Args:
        pattern: what may differ.
        approved: the values of the call that was approved.
        values: those of another one.
    """
    return approved.keys() == values.keys() and all(
        _allows(pattern[name], value) if name in pattern else _equal(approved[name], value)
        for name, value in values.items()
    )


def pattern_text(pattern: Mapping[str, Any], approved: Mapping[str, Any]) -> str:
    """The same for people: `path: data/*, mode = 'r'`."""
    parts = [
        f"{name}: {_shown(pattern[name])}" if name in pattern else f"{name} = {value!r}"
        for name, value in approved.items()
    ]
    return ", ".join(parts) or "no values"


def _allows(allowed: Any, value: Any) -> bool:
    if allowed == _ANYTHING:
        return True
    if isinstance(allowed, list):
        return any(_equal(one, value) for one in allowed)
    if isinstance(allowed, str) and isinstance(value, str):
        return ".." not in re.split(r"[/\\]", value) and _regex(allowed).fullmatch(value) is not None
    return _equal(allowed, value)


def _equal(one: Any, other: Any) -> bool:
    return canonical_json(one) == canonical_json(other)  # `1`, `1.0` and `True` are three values


@lru_cache(maxsize=256)
def _regex(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*|\?)", glob)
    return re.compile("".join(_WILD.get(part) or re.escape(part) for part in parts), re.DOTALL)


def _shown(allowed: Any) -> str:
    if allowed == _ANYTHING:
        return "anything"
    return " or ".join(map(repr, allowed)) if isinstance(allowed, list) else str(allowed)
