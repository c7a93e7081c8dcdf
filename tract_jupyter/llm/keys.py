"""Sources of providers' keys. A key never appears in a repr, pickle or message."""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from tract_jupyter.exceptions import LLMConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KEYRING_SERVICE: Final = "tract_jupyter"
"""The service under which keys are looked for in the system's keyring; the user is the provider's name."""
KEYRING_SECONDS: Final = 3.0
"""Timeout for the keyring. A locked keyring may wait for an invisible dialog."""

# only capitals: hardly any key looks like this, so a key passed by mistake is refused and not stored
_VARIABLE: Final = re.compile(r"(?!AKIA)[A-Z_][A-Z0-9_]{0,63}")


class Secret(str):
    """A key as text. Its repr is masked, for example in the frames of a verbose traceback."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def strip(self, chars: str | None = None, /) -> Secret:
        """Return the key without surrounding characters."""
        return Secret(super().strip(chars))

    def rstrip(self, chars: str | None = None, /) -> Secret:
        """Return the key without the text after it."""
        return Secret(super().rstrip(chars))

    def __reduce_ex__(self, _protocol: object) -> Any:
        raise LLMConfigError("a key cannot be pickled or copied")


def masked(key: Any) -> Any:
    """Return a key as a string that no repr shows. Other values stay unchanged."""
    return Secret(key) if isinstance(key, str) else key


_SHORTEST: Final = 12
_SHORTEST_WITH_DIGIT: Final = 8


def repeatable(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return the secrets that are masked in replies, the longest first.

    A short word such as "lm-studio" is not a real key, and may occur in a reply.
    """
    known = {secret for secret in secrets if len(secret) >= _SHORTEST or
             (len(secret) >= _SHORTEST_WITH_DIGIT and any(map(str.isdigit, secret)))}  # fmt: skip
    forms = [*known, *(quote(secret, safe="") for secret in known)]
    return tuple(masked(secret) for secret in sorted(set(forms), key=len, reverse=True))


def masked_in(value: Any, secrets: Sequence[str]) -> Any:
    """Return JSON data with `***` instead of secrets."""
    try:
        if isinstance(value, str):
            for secret in secrets:
                value = value.replace(secret, "***")
            return value
        if isinstance(value, dict):
            return {masked_in(name, secrets): masked_in(item, secrets) for name, item in value.items()}
        return [masked_in(item, secrets) for item in value] if isinstance(value, list) else value
    except RecursionError:  # nested too deeply to be stored
        return None


def hidden_address(url: Any) -> Any:
    """Return an address as a text that no repr shows if it may hold a key; anything else unchanged."""
    return Secret(url) if isinstance(url, str) and not is_address(url) else url


def is_address(url: str) -> bool:
    """Return True if a text is an HTTP address without a user, a password, a query and a fragment."""
    try:
        parts = urlsplit(url)
        is_plain = not ("@" in parts.netloc or parts.query or parts.fragment)
        return is_plain and parts.scheme in {"http", "https"} and bool(parts.hostname) and url.isprintable()
    except ValueError:  # such as half an IPv6 address
        return False


@dataclass(frozen=True, slots=True)
class KeySource:
    """The possible places of a key, in this order. It never shows the key itself.

    Attributes:
        given: the key, if it was set in this process.
        variables: environment variables; the first one that is set is used.
        service, user: the entry of the system's keyring; empty to skip the keyring.
        needed: True if the model must have a key.
    """

    variables: tuple[str, ...] = ()
    service: str = ""
    user: str = ""
    given: Secret | None = field(default=None, repr=False)
    needed: bool = True

    @classmethod
    def of(cls, key_env: object, key_ring: object) -> KeySource | None:
        """Read the arguments of `Models.add`; None if both are missing.

        Raises:
            LLMConfigError: the argument is invalid. The message does not repeat it, because it may be the key itself.
        """
        if key_env is not None and key_ring is not None:
            raise LLMConfigError("a key can have only one source: pass key_env or key_ring, not both")
        if key_env is not None:
            if not isinstance(key_env, str) or not _VARIABLE.fullmatch(key_env):
                raise LLMConfigError(
                    "key_env must be the name of an environment variable in capitals, such as 'OPENAI_API_KEY', and "
                    "never the key; nothing was saved"
                )
            return cls((key_env,))
        if key_ring is None:
            return None
        service, slash, user = key_ring.partition("/") if isinstance(key_ring, str) else ("", "", "")
        if not (service and slash and user):
            raise LLMConfigError(
                "key_ring must be an entry of the system's keyring as 'service/user', such as 'openai/me', and never "
                "the key; nothing was saved"
            )
        return cls(service=service, user=user)

    @classmethod
    def of_given(cls, key: object) -> KeySource:
        """Return the source for a key that was set in this process."""
        if not isinstance(key, str) or not key.strip():
            raise LLMConfigError(
                "api_key must be a string that is not empty; leave it out to read the key from the environment"
            )
        return cls(given=Secret(key.strip()))

    @property
    def is_set(self) -> bool:
        """True if there is a key."""
        return self._find() is not None

    def location(self) -> str:
        """Return the place of the key as part of a sentence; if there is none, its possible places."""
        entry = self._find()
        return self._sources_text if entry is None else _place_text(entry[1])

    def read(self, name: str) -> str:
        """Return the key of the model or credential `name`; empty if there is none, and none is needed.

        Raises:
            LLMConfigError: the key is not set; with the line to type.
        """
        entry = self._find()
        if entry is not None or not self.needed:
            return "" if entry is None else entry[0]
        if len(self.variables) == 1 and not self.service:
            raise LLMConfigError(
                f"the key of {name!r} comes from the environment variable {self.variables[0]}, which is not set; type "
                f"import getpass, os; os.environ[{self.variables[0]!r}] = getpass.getpass()"
            )
        if self.variables:
            raise LLMConfigError(
                f"there is no key for {name!r} in {self._sources_text}, so no request was sent. Type "
                f"%tract model {name} --key to enter it, or import getpass, os; "
                f"os.environ[{self.variables[0]!r}] = getpass.getpass()"
            )
        if keyring() is None:
            raise LLMConfigError(
                f"the key of {name!r} comes from the system's keyring, but the package keyring is not installed; "
                "type %pip install keyring"
            )
        raise LLMConfigError(
            f"the system's keyring has no entry {self.service!r} of {self.user!r} for the key of {name!r}; type "
            f"import getpass, keyring; keyring.set_password({self.service!r}, {self.user!r}, getpass.getpass())"
        )

    def _find(self) -> tuple[Secret, str] | None:
        """Return the key and the place that has it; None if no place has."""
        if self.given is not None:
            return self.given, _ENTERED
        for variable in self.variables:
            value = Secret(os.environ.get(variable, "").strip())
            if value:
                return value, variable
        value = _entry(self.service, self.user) if self.service else Secret()
        return (value, self._entry_name) if value else None

    @property
    def _entry_name(self) -> str:
        return f"keyring {self.service}/{self.user}"

    @property
    def _places(self) -> list[str]:
        if self.given is not None:
            return [_ENTERED]
        return [*self.variables, *([self._entry_name] if self.service else [])]

    @property
    def _sources_text(self) -> str:
        """The places of the key, within a sentence."""
        return " or ".join(map(_place_text, self._places))

    def __str__(self) -> str:
        """Return the place of the key, or all that it may come from."""
        entry = self._find()
        return " or ".join(self._places) if entry is None else entry[1]


_ENTERED: Final = "this session"


def _place_text(place: str) -> str:
    if place == _ENTERED:
        return "the input in this session"
    if place.startswith("keyring "):
        return f"the entry {place.removeprefix('keyring ')} of the system's keyring"
    return f"the environment variable {place}"


def keyring() -> Any:
    """Return the package keyring; None if it is not installed."""
    try:
        return import_module("keyring")
    except ImportError:
        return None


def _entry(service: str, user: str) -> Secret:
    """Return an entry of the system's keyring; empty if there is none, or if the keyring does not answer in time."""
    parts: list[str] = []

    def look() -> None:
        ring = keyring()
        try:
            parts.append("" if ring is None else str(ring.get_password(service, user) or "").strip())
        except Exception:  # noqa: BLE001 # a locked or absent keyring raises its own errors
            parts.append("")

    if time.monotonic() < _silent_until[0]:
        return Secret()
    thread = threading.Thread(target=look, name="tract-keyring", daemon=True)
    thread.start()
    thread.join(KEYRING_SECONDS)
    if not parts:
        _silent_until[0] = time.monotonic() + _KEYRING_REST
    return Secret(parts[0] if parts else "")


_KEYRING_REST: Final = 60.0
_silent_until: Final = [0.0]
"""When to try a keyring again that did not answer."""
