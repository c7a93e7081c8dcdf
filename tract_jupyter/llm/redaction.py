"""Removing secrets from everything that is written to a cassette."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tract_jupyter.llm.secret_shapes import mask_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REDACTED: Final = "[redacted]"
_DATA_START: Final = re.compile(r"data:[a-z]+/[a-z0-9.+]+;base64,")
_DATA: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_SHORTEST_DATA: Final = 1_000  # no key is longer without a space
_LONGEST_NAME: Final = 200
_SAMPLE: Final = "q8Zk2LmN0pQr5StUv7Wx"  # a value that is a secret if its name says so
_SHORTEST: Final = 8  # a shorter text is a dummy key, such as "ollama"


class Redaction:
    """Removes secrets from a text: known ones, and texts that look like one."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.known = frozenset(text.strip() for text in known)
        forms = {form for text in self.known if len(text) >= _SHORTEST for form in _forms(text)}
        long_first = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, long_first))) if long_first else None

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        masked = text if self._known is None else self._known.sub(REDACTED, text)
        return masked if _is_data(masked) else mask_secrets(masked, REDACTED)

    def of(self, value: Any) -> Any:
        """Return JSON data without secrets. It may be nested as deeply as JSON text."""
        result = [value]
        todo: list[tuple[Any, Any, object]] = [(result, 0, "")]
        while todo:
            place, at, name = todo.pop()
            found = place[at]
            if isinstance(found, dict):
                names = {self.text(key) if isinstance(key, str) else key: key for key in found}
                place[at] = {key: found[old] for key, old in names.items()}
                todo += [(place[at], key, old) for key, old in names.items()]
            elif isinstance(found, list | tuple):
                place[at] = _of_name(
                    name, [self.text(each) if isinstance(each, str) else each for each in found]
                )
                if isinstance(place[at], list):  # not a text instead of it
                    todo += [
                        (place[at], n, "") for n, each in enumerate(place[at]) if not isinstance(each, str)
                    ]
            elif isinstance(found, str):
                place[at] = _of_name(name, self.text(found))
        return result[0]


def redacted_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that a request sends, without texts that look like secrets. The model's name stays."""
    named = {"model": body["model"]} if "model" in body else {}
    return {**Redaction().of(dict(body)), **named}


def _of_name(name: object, value: Any) -> Any:
    """Redact the value if its name is one of a secret, such as `password`, as in JSON text."""
    texts = value if isinstance(value, list) else [value]
    if not isinstance(name, str) or not all(isinstance(one, str) for one in texts):
        return value
    if not 0 < sum(map(len, texts)) < _SHORTEST_DATA or not _is_of_secret(name[-_LONGEST_NAME:]):
        return value
    text = json.dumps({name: value}, ensure_ascii=False)
    masked = mask_secrets(text, REDACTED)
    if masked == text:
        return value
    try:
        return list(json.loads(masked).values())[-1]
    except ValueError:
        return REDACTED


@lru_cache(maxsize=1_000)
def _is_of_secret(name: str) -> bool:
    text = json.dumps({name: _SAMPLE}, ensure_ascii=False)
    return mask_secrets(text, REDACTED) != text


def _is_data(text: str) -> bool:
    """Return True for base64, such as an image. A search takes a second per MB, and a match would damage it."""
    start = _DATA_START.match(text)
    return len(text) >= _SHORTEST_DATA and _DATA.fullmatch(text, start.end() if start else 0) is not None


def _forms(text: str) -> Iterator[str]:
    """Yield a text as it is, as in an address, within JSON text, and within JSON text in JSON text."""
    yield text
    yield quote(text, safe="")
    for is_ascii in (False, True):
        once = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=is_ascii)[1:-1]
