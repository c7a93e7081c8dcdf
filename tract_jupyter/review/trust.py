"""Which stored code this user has approved.

An approval is signed with a secret that only this user can read (Jupyter's data directory, mode 0600). A database
from somebody else, or one that was tampered with, carries no valid signature, and nothing of it becomes active.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

from tract_jupyter.exceptions import TrustError

_BYTES = 32


class Trust:
    """Signs and verifies with the user's secret, which is made at the first signing.

    Args:
        secret_file: another place for the secret.
    """

    def __init__(self, secret_file: Path | None = None) -> None:
        self.secret_file = secret_file or Path(jupyter_data_dir()) / "tract_jupyter" / "secret"

    def sign(self, kind: str, text: str) -> str:
        """Return the signature of an approved text: HMAC-SHA256, 64 hex digits.

        Raises:
            TrustError: the secret can be neither read nor made.
        """
        return self._signature(self._read() or self._make(), kind, text)

    def verify(self, kind: str, text: str, signature: str) -> bool:
        """Whether this user approved the text. Without a secret nothing was approved."""
        secret = self._read()
        if secret is None:
            return False
        given = str(signature).encode()  # the store may hold anything; texts compare only if ASCII
        return hmac.compare_digest(self._signature(secret, kind, text).encode(), given)

    @staticmethod
    def _signature(secret: bytes, kind: str, text: str) -> str:
        return hmac.new(secret, f"{kind}\n{text}".encode(), "sha256").hexdigest()

    def _read(self) -> bytes | None:
        try:
            secret = self.secret_file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TrustError(
                f"the signing secret {self.secret_file} cannot be read: {error.strerror}"
            ) from error
        if len(secret) < _BYTES:
            raise TrustError(
                f"the signing secret {self.secret_file} is damaged; delete it, and approve your operations again"
            )
        return secret

    def _make(self) -> bytes:
        """Write a new secret whole or not at all; another process that was faster wins."""
        folder = self.secret_file.parent
        temporary = folder / f"secret.{secrets.token_hex(8)}"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_BYTES))
            try:
                os.link(temporary, self.secret_file)
            except FileExistsError:
                pass
            finally:
                temporary.unlink()
        except OSError as error:
            raise TrustError(
                f"the signing secret {self.secret_file} cannot be made: {error.strerror}; set JUPYTER_DATA_DIR to a "
                "folder of yours"
            ) from error
        made = self._read()
        if made is None:
            raise TrustError(f"the signing secret {self.secret_file} vanished while it was made; try again")
        return made
