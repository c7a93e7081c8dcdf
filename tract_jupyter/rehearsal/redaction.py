"""Secrets: removed from the copy before the code runs, and replaced in everything that comes back.

The caller knows the values. Environment variables whose names look like secrets are secrets, too.
"""

from __future__ import annotations

import base64
import ctypes
import os
import re
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tract_jupyter.rehearsal.memory import overwrite

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

MASK: Final = "[secret]"
_SHORTEST: Final = 6  # characters of a text that is replaced
_SHORTEST_IN_MEMORY: Final = 12  # a shorter one may be part of something else
_NAME: Final = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|SECRET|TOKEN|PASSW(?:OR)?D|PASSPHRASE|PWD|CREDENTIALS?|PRIVATE_?KEY|AUTH|PAT|DSN"
    r"|CONNECTION_?STRING|COOKIE|SESSION_?KEY|SIGNING_?KEY|ENCRYPTION_?KEY|(?:DATABASE|REDIS|MONGO\w*|POSTGRES\w*)_UR[IL])"
    r"(?:$|_)|(?:KEY|SECRET|TOKEN|PASSWORD)$",
    re.IGNORECASE,
)
_NOT_SECRET: Final = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"})
_ENVIRONMENT: Final = 50  # field `env_start` of `/proc/self/stat`; the next one is its end


def secret_variables(environment: Mapping[str, str], secrets: Collection[str] = ()) -> dict[str, str]:
    """Return the environment variables that look like secrets by their name, or contain a known secret."""
    long = [secret for secret in secrets if len(secret) >= _SHORTEST]
    return {
        name: value
        for name, value in environment.items()
        if (_NAME.search(name) and name not in _NOT_SECRET) or any(secret in value for secret in long)
    }


def remove_secrets(secrets: Collection[str]) -> None:
    """Remove secrets from the environment and the memory of this process, which is a copy.

    Large blocks of data are not searched. The contained code can send nothing, and its output is redacted.
    """
    variables = secret_variables(os.environ, secrets)
    for name in variables:
        del os.environ[name]
    _clear_environment(variables)
    values = {*secrets, *variables.values()}
    overwrite(_shortest([raw for raw in map(_raw, values) if len(raw) >= _SHORTEST_IN_MEMORY]))


def _shortest(texts: list[bytes]) -> list[bytes]:
    """Return the texts that contain no other one. Without these, the others are incomplete."""
    found: list[bytes] = []
    for text in sorted(set(texts), key=len):
        if not any(other in text for other in found):
            found.append(text)
    return found


def _clear_environment(variables: Mapping[str, str]) -> None:
    """Overwrite variables in the block that this process got at its start, which `/proc/self/environ` shows."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
        numbers = file.read().rpartition(")")[2].split()
    start, end = int(numbers[_ENVIRONMENT - 3]), int(numbers[_ENVIRONMENT - 2])
    if not start < end:
        return
    block = ctypes.string_at(start, end - start)
    for name, value in variables.items():
        text = _raw(f"{name}={value}")
        place = block.find(text)
        if place >= 0:
            ctypes.memset(start + place + len(name) + 1, ord("*"), len(text) - len(name) - 1)


class Redactor:
    """Replaces secrets in texts and bytes.

    Args:
        secrets: The values. Short ones are ignored.
    """

    def __init__(self, secrets: Collection[str]) -> None:
        forms = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, forms))) if forms else None
        self._bytes = re.compile(b"|".join(map(re.escape, map(_raw, forms)))) if forms else None

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def data(self, data: bytes) -> bytes:
        """Return bytes without secrets."""
        return data if self._bytes is None else self._bytes.sub(MASK.encode(), data)

    def value(self, value: Any) -> Any:
        """Return a value of texts, bytes, tuples, mappings and dataclasses without secrets."""
        match value:
            case str():
                return self.text(value)
            case bytes():
                return self.data(value)
            case tuple():
                make: Callable[..., Any] = getattr(type(value), "_make", tuple)
                return make(map(self.value, value))
            case dict():
                return {self.text(name): self.value(item) for name, item in value.items()}
            case _ if is_dataclass(value) and not isinstance(value, type):
                changed = {each.name: self.value(getattr(value, each.name)) for each in fields(value)}
                return replace(value, **changed)
            case _:
                return value


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as it may appear: as it is, in a literal, in an address, in Base64."""
    if len(secret) < _SHORTEST:
        return
    yield secret
    yield repr(secret)[1:-1]
    raw = _raw(secret)
    yield quote(raw, safe="")
    yield repr(raw)[2:-1]
    yield raw.hex()
    for skipped in range(3):  # its place in a longer text decides about the characters
        inner = base64.b64encode(bytes(skipped) + raw).decode()
        start = -(-skipped * 8 // 6)
        end = (skipped + len(raw)) * 8 // 6
        if end - start >= _SHORTEST:
            yield inner[start:end]


def _raw(secret: str) -> bytes:
    return secret.encode("utf-8", "surrogateescape")
