"""Signatures that identify this user's approvals of stored code.

Approvals are signed with a secret that only this user can read (in Jupyter's data directory, mode 0600). The package
refuses a secret that other users can read or replace, as ssh does with private keys. Another user's database or a
manipulated database has no valid signatures, so nothing in it becomes active.

Each signature is bound to one place: a tract of a store, or a project. A `Signer` signs for one such place. An approval
from one place is invalid in any other place, even in a copy.

A machine without that file, such as a CI runner, reads the secret from the environment variable `TRACT_JUPYTER_SECRET`.
Its value is the content of the file as hex digits. Anyone with the secret can sign in your name. Code that runs on that
machine can read the secret.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from functools import cached_property
from pathlib import Path
from typing import Any

from tract_jupyter.exceptions import ContentError, TrustError
from tract_jupyter.models import canonical_json, make_private_folder, open_private, why_exposed

_BYTES = 32

SECRET_VARIABLE = "TRACT_JUPYTER_SECRET"  # noqa: S105 # its name, not its value
"""The environment variable that replaces the file."""


class Trust:
    """The user's secret and the signers for tracts and projects. The first signing creates the secret.

    Args:
        secret_file: another file for the secret. It overrides the environment variable.
    """

    def __init__(self, secret_file: Path | None = None) -> None:
        self._given = secret_file
        self._is_default = secret_file is None
        self._seen: tuple[int, ...] | None = None
        self._secret: bytes | None = None

    @cached_property
    def secret_file(self) -> Path:
        """The file with the secret. By default, it is in Jupyter's data directory."""
        if self._given is not None:
            return self._given
        from jupyter_core.paths import jupyter_data_dir

        return Path(jupyter_data_dir()) / "tract_jupyter" / "secret"

    @property
    def source(self) -> str:
        """A description of the secret's location, never the secret."""
        is_given = self._is_default and SECRET_VARIABLE in os.environ
        return f"the environment variable {SECRET_VARIABLE}" if is_given else f"the file {self.secret_file}"

    @property
    def is_missing(self) -> bool:
        """True if there is no secret yet. The first signing creates it.

        Raises:
            TrustError: a secret exists but cannot be read.
        """
        return self.read() is None

    def for_tract(self, store_id: str, tract_id: str) -> Signer:
        """Return the signer for one tract of one store."""
        return Signer(self, "tract", store_id, tract_id)

    def for_project(self, project_id: str) -> Signer:
        """Return the signer for the notebooks of one project."""
        return Signer(self, "project", project_id)

    def secrets(self) -> list[str]:
        """Return the secret if it is in memory. Bytes that are not UTF-8 are surrogates, as in file names."""
        return [] if self._secret is None else [self._secret.decode("utf-8", "surrogateescape")]

    def private_paths(self) -> list[Path]:
        """Return the files and folders with secrets of this package and of Jupyter: keys, tokens, connection files."""
        from jupyter_core.paths import jupyter_data_dir, jupyter_runtime_dir

        data = Path(jupyter_data_dir())
        names = ("notebook_secret", "nbsignatures.db", "jupyter_cookie_secret")
        return [self.secret_file, Path(jupyter_runtime_dir()), *(data / name for name in names)]

    def read(self) -> bytes | None:
        """Return the secret; None if it does not exist yet.

        Raises:
            TrustError: a secret exists but cannot be read.
        """
        value = os.environ.get(SECRET_VARIABLE) if self._is_default else None
        if value is not None:
            return _from_hex(value)
        try:
            state = self.secret_file.stat()
            version = (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
            if self._seen == version:
                return self._secret  # a decision reads it several times
            exposed = why_exposed(self.secret_file)
            secret = self.secret_file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TrustError(
                f"the signing secret {self.secret_file} cannot be read: {error.strerror}; "
                "make it readable to you, or delete it and approve your operations again"
            ) from error
        if exposed:
            raise TrustError(
                f"the signing secret {self.secret_file} is not used: {exposed}. If others may have read it, delete it "
                f"and approve your operations again. If the file system has no permissions, set {SECRET_VARIABLE} or "
                "JUPYTER_DATA_DIR"
            )
        if len(secret) < _BYTES:
            raise TrustError(
                f"the signing secret {self.secret_file} is damaged; delete it, and approve your operations again"
            )
        self._seen, self._secret = version, secret
        return secret

    def create(self) -> bytes:
        """Write a new secret, completely or not at all. If another process was faster, use its secret."""
        folder = self.secret_file.parent
        temporary = folder / f"secret.{secrets.token_hex(8)}"
        try:
            make_private_folder(folder)
            with open(temporary, "xb", opener=open_private) as file:
                file.write(secrets.token_bytes(_BYTES))
            try:
                os.link(temporary, self.secret_file)
            except FileExistsError:
                pass
            finally:
                temporary.unlink()
        except OSError as error:
            raise TrustError(
                f"the signing secret {self.secret_file} cannot be created: {error.strerror}; set JUPYTER_DATA_DIR to "
                "your own folder"
            ) from error
        secret = self.read()
        if secret is None:
            raise TrustError(
                f"the signing secret {self.secret_file} disappeared during its creation; try again"
            )
        return secret


class Signer:
    """A signer for one place. Signatures from other places never verify."""

    def __init__(self, trust: Trust, *place: str) -> None:
        self._trust = trust
        self._place = list(place)

    def sign(self, kind: str, content: Any) -> str:
        """Return the signature of approved content: HMAC-SHA256, 64 hex digits.

        Raises:
            ContentError: the content has no JSON form.
            TrustError: the secret cannot be read or created, or the environment variable is not valid.
        """
        text = canonical_json([kind, self._place, content])
        return hmac.digest(self._trust.read() or self._trust.create(), text.encode(), "sha256").hex()

    def verify(self, kind: str, content: Any, signature: str) -> bool:
        """Return True if this user signed the content for this place. Without a secret, no signature is valid."""
        secret = self._trust.read()
        if secret is None:
            return False
        try:
            text = canonical_json([kind, self._place, content])
        except ContentError:  # the store may hold a value without a JSON form
            return False
        expected = hmac.digest(secret, text.encode(), "sha256").hex()
        actual = str(signature).encode(
            errors="replace"
        )  # the store may hold anything; texts compare only if ASCII
        return hmac.compare_digest(expected.encode(), actual)


def _from_hex(value: str) -> bytes:
    """Read the secret from the environment variable. Errors reveal only its length."""
    text = value.strip()
    if not re.fullmatch(rf"(?:[0-9a-fA-F]{{2}}){{{_BYTES},}}", text):
        problem = f"it has {len(text)} characters" if text else "it is empty, as in CI runs without secrets"
        raise TrustError(
            f"the environment variable {SECRET_VARIABLE} is set, but is not a secret: {problem}. Set it to the content "
            f"of your secret file as {2 * _BYTES} or more hex digits, or unset it to use the file"
        )
    return bytes.fromhex(text)
