"""Count or estimate tokens.

tiktoken is an extra, and it downloads a vocabulary on its first use. This module must not use the network, so it uses
tiktoken only if tiktoken is installed and its cache has the full vocabulary. Otherwise tokens are estimated, and
displays mark estimates with `≈`.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tract_jupyter.context.timeline import Prefix
from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import APPROXIMATE, Correction, brief_repr

if TYPE_CHECKING:
    from collections.abc import Mapping

    import tiktoken

    from tract_jupyter.models import CompiledContext, Message, TokenCounter
    from tract_jupyter.storage import Database, EventRows

ENCODING: Final = "o200k_base"
_LONGEST_NAME: Final = 64

# the vocabulary's file in tiktoken's cache (the sha1 of its address) and its sha256: tiktoken_ext.openai_public
_FILE_NAME: Final = "fb374d419588a4632f3f557e76b4b70aebbca790"
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

# One token each: a part of a Latin word, of a number, of a word in another alphabet, or of a sequence of line ends; an
# ideograph or kana; another sign. Spaces are not tokens; matching them with a word only saves steps. The lengths are
# fitted to o200k_base on English, code and Cyrillic text, with an error of about 15 % on prose.
_TOKENS: Final = re.compile(
    r"[A-Za-z]{1,7} ?|[0-9]{1,3}|[\u3040-\u30ff\u3400-\u9fff]|[\uac00-\ud7af]|[^\W\d_A-Za-z]{1,5} ?|\n{1,4}|[^\w\s] ?|_"
)
# Characters per call: a million spaces make tiktoken 0.14 panic with an error that is not an `Exception`.
_LONGEST: Final = 500_000


class ApproximateCounter:
    """Estimates tokens from the shape of the text, without a vocabulary."""

    name = APPROXIMATE

    def count_text(self, text: str) -> int:
        """Return an estimate; at least 1 if the text is not empty."""
        return len(_TOKENS.findall(text)) or (1 if text else 0)


class TiktokenCounter:
    """Counts with a tiktoken encoding, also with a custom one."""

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encoding = encoding
        self.name = f"tiktoken:{encoding.name}"

    def count_text(self, text: str) -> int:
        """Return the number of tokens. Text such as `<|endoftext|>` has no special meaning."""
        pieces = (text[start : start + _LONGEST] for start in range(0, len(text), _LONGEST))
        return sum(len(self._encoding.encode_ordinary(piece)) for piece in pieces)


def default_counter() -> TokenCounter:
    """Return a tiktoken counter if tiktoken is installed and has the vocabulary in its cache, else an estimate."""
    if not _vocabulary_at_hand():
        return ApproximateCounter()
    try:
        import tiktoken
    except ImportError:  # an extra
        return ApproximateCounter()
    return TiktokenCounter(tiktoken.get_encoding(ENCODING))


def checked_counter(tokenizer: TokenCounter | None) -> TokenCounter:
    """Return the token counter to use: `tokenizer`, or the default one."""
    if tokenizer is None:
        return default_counter()
    name = getattr(tokenizer, "name", None)
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME:
        raise ContentError(
            f"the tokenizer {brief_repr(tokenizer)} has no name of 1 to {_LONGEST_NAME} characters, and each count is "
            "stored with this name. Set the attribute name, such as 'my-model'"
        )
    if not callable(getattr(tokenizer, "count_text", None)):
        raise ContentError(
            f"the tokenizer {name!r} cannot count; add a method count_text(text) that returns a number of tokens"
        )
    return tokenizer


def _vocabulary_at_hand() -> bool:
    # check the hash: tiktoken would download a damaged file again
    folder = _cache_folder()
    if folder is None:
        return False
    try:
        data = (folder / _FILE_NAME).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(data).hexdigest() == _SHA256


def _cache_folder() -> Path | None:
    """Return tiktoken's cache folder (`tiktoken.load.read_file_cached`); None if its cache is disabled."""
    default = Path(tempfile.gettempdir()) / "data-gym-cache"
    chosen = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
    return Path(chosen) if chosen else None


class Corrections:
    """Corrections of estimated token counts by the providers' counts, for each model.

    An event `usage` stores each provider's count for later processes. Stored counts are not corrected: `verify`
    recomputes the totals of commits, and approvals are bound to the fields of pendings. Counts of an exact tokenizer
    are not corrected either.
    """

    def __init__(self, database: Database, events: EventRows, counter: TokenCounter) -> None:
        self._database = database
        self._events = events
        self.counter = counter
        self._factors: dict[str, float] | None = None
        """The factors by model, the newest last; None before the first use."""

    def of(self, source: str = APPROXIMATE) -> Correction | None:
        """Return the correction for counts of this counter, from the last model; None if there is none."""
        if source != APPROXIMATE or self.counter.name != APPROXIMATE:
            return None
        model, factor = next(reversed(self._known().items()), ("", 0.0))
        return Correction(model, factor) if factor else None

    def count(self, text: str) -> int:
        """Return the corrected token count of a text."""
        return self.tokens(self.counter.count_text(text), self.counter.name)

    def tokens(self, counted: int, source: str = APPROXIMATE) -> int:
        """Return the corrected count for display and budgets."""
        correction = self.of(source)
        return counted if correction is None else correction.of(counted)

    def context(self, context: CompiledContext) -> CompiledContext:
        """Return a context with corrected counts, in constant time."""
        correction = self.of(context.token_source)
        if correction is None:
            return context

        def view(message: Message) -> Message:
            return message._replace(token_count=correction.of(message.token_count))

        messages = context.messages
        return replace(
            context,
            messages=messages.viewed(view) if isinstance(messages, Prefix) else tuple(map(view, messages)),
            token_count=correction.of(context.token_count),
            corrected_by=correction,
        )

    def note(self, model: str, estimated: int, usage: Mapping[str, object]) -> None:
        """Store a provider's count for a prompt.

        Ignores usage without a number of prompt tokens, and usage that does not fit the prompt. Budgets use the
        corrected counts, so a wrong correction could make them reject all further messages.

        Args:
            model: the model's name.
            estimated: the estimate for the prompt.
            usage: the usage in the form of OpenAI (`prompt_tokens`) or Anthropic (`input_tokens` and its cache tokens).
        """
        reported = _prompt_tokens(usage)
        if not _is_likely(estimated, reported) or self.counter.name != APPROXIMATE:
            return
        data = {"model": model, "estimated": estimated, "reported": reported}
        with self._database.write() as connection:
            factors = self._known()
            self._events.append(connection, _USAGE, "user", data)
            self._database.if_rolled_back(self._forget)
        factors.pop(model, None)
        factors[model] = reported / estimated

    def _forget(self) -> None:
        self._factors = None

    def _known(self) -> dict[str, float]:
        if self._factors is None:
            with self._database.read() as connection:
                events = self._events.newest(connection, _USAGE, _MOST_REPORTS)
            self._factors = {}
            for event in reversed(events):
                model, estimated, reported = (
                    event.data.get(key) for key in ("model", "estimated", "reported")
                )
                if (
                    isinstance(estimated, int)
                    and isinstance(reported, int)
                    and _is_likely(estimated, reported)
                ):
                    self._factors.pop(str(model), None)
                    self._factors[str(model)] = reported / estimated
        return self._factors


_USAGE: Final = "usage"
_MOST_REPORTS: Final = 10  # one likely count for each model is enough
_MOST_APART: Final = 20
"""The maximum ratio of an estimate and a count. The worst scripts differ by a factor below 5."""


def _is_likely(estimated: int, reported: int) -> bool:
    return 0 < estimated <= reported * _MOST_APART and reported <= estimated * _MOST_APART


def _prompt_tokens(usage: Mapping[str, object]) -> int:
    count = usage.get("prompt_tokens")
    if count is None:
        parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        count = sum(part for name in parts if isinstance(part := usage.get(name), int))
    return count if isinstance(count, int) and not isinstance(count, bool) else 0
