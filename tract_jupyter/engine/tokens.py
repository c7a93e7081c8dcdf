"""Counting tokens, with or without a vocabulary at hand.

tiktoken downloads a vocabulary when it first needs it. Nothing here may touch the network, so its encodings are used
only when their vocabulary already lies in tiktoken's cache, whole. Otherwise tokens are estimated, and every number
that comes of it is shown with `≈`.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tract_jupyter.models.commit import APPROXIMATE

if TYPE_CHECKING:
    import tiktoken

    from tract_jupyter.protocols import TokenCounter

DEFAULT_ENCODING: Final = "o200k_base"

# file name in tiktoken's cache (the sha1 of its address) and sha256 of the vocabulary: tiktoken_ext.openai_public
_VOCABULARIES: Final = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}

# A word of the Latin alphabet, digits, an ideograph or kana, a run of another alphabet, line ends, other signs.
# Spaces are no pieces: one is part of the token that follows it.
_PIECES: Final = re.compile(
    r"[A-Za-z]+|[0-9]+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_A-Za-z]+|\n+|[^\w\s]|_"
)
_IDEOGRAPH: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Characters encoded at once: a million spaces make tiktoken 0.14 panic, past `except Exception`.
_LONGEST: Final = 500_000
# Characters per token, read off English, code and Cyrillic text against o200k_base; within some 15 % on prose.
_PER_WORD: Final = 7
_PER_DIGITS, _PER_IDEOGRAPH, _PER_LETTERS, _PER_LINES, _PER_SIGN = 3, 1, 4, 4, 1.3


class ApproximateCounter:
    """Estimates tokens from the shape of the text; needs nothing."""

    name = APPROXIMATE

    def count_text(self, text: str) -> int:
        """Return an estimate, at least 1 for a text that is not empty."""
        total = 0.0
        for piece in _PIECES.findall(text):
            if piece.isascii() and piece.isalpha():
                total += 1 + (len(piece) - 1) // _PER_WORD
            else:
                total += max(1.0, len(piece) / _per_token(piece))
        return max(round(total), 1) if text else 0


class TiktokenCounter:
    """Counts with a tiktoken encoding.

    Args:
        encoding: any `tiktoken.Encoding`; one of your own works too.
    """

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encoding = encoding
        self.name = f"tiktoken:{encoding.name}"

    def count_text(self, text: str) -> int:
        """Return the number of tokens. Text such as `<|endoftext|>` is just text."""
        pieces = (text[start : start + _LONGEST] for start in range(0, len(text), _LONGEST))
        return sum(len(self._encoding.encode_ordinary(piece)) for piece in pieces)


def _per_token(piece: str) -> float:
    if piece[0] in "0123456789":
        return _PER_DIGITS
    if piece[0] == "\n":
        return _PER_LINES
    if _IDEOGRAPH.match(piece):
        return _PER_IDEOGRAPH
    return _PER_LETTERS if piece[0].isalpha() else _PER_SIGN


def default_counter(encoding_name: str = DEFAULT_ENCODING) -> TokenCounter:
    """Return a tiktoken counter if the vocabulary is in tiktoken's cache, else an approximate one."""
    if not _vocabulary_at_hand(encoding_name):
        return ApproximateCounter()
    import tiktoken

    return TiktokenCounter(tiktoken.get_encoding(encoding_name))


def _vocabulary_at_hand(encoding_name: str) -> bool:
    # The checksum matters too: tiktoken replaces a damaged file by downloading it again.
    folder = _cache_folder()
    if folder is None or encoding_name not in _VOCABULARIES:
        return False
    file_name, sha256 = _VOCABULARIES[encoding_name]
    try:
        data = (folder / file_name).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(data).hexdigest() == sha256


def _cache_folder() -> Path | None:
    """Where tiktoken keeps vocabularies (`tiktoken.load.read_file_cached`), None if it was told to keep none."""
    default = Path(tempfile.gettempdir()) / "data-gym-cache"
    chosen = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
    return Path(chosen) if chosen else None
