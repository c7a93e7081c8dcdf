"""Counting tokens, with or without a vocabulary at hand.

tiktoken is an extra, and it downloads a vocabulary at its first use. Nothing here may touch the network, so it is used
only if it is installed and has the whole vocabulary in its cache. Otherwise tokens are estimated, and each such number
is shown with `≈`.
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

DEFAULT_ENCODING: Final = "o200k_base"
_LONGEST_NAME: Final = 64

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

# One token each: a piece of a word of the Latin alphabet, of digits, of a word of another alphabet, of line ends; an
# ideograph or kana; another sign. Spaces are no tokens: those taken along only save steps. The lengths are read off
# English, code and Cyrillic text against o200k_base: within some 15 % on prose.
_TOKENS: Final = re.compile(
    r"[A-Za-z]{1,7} ?|[0-9]{1,3}|[\u3040-\u30ff\u3400-\u9fff]|[\uac00-\ud7af]|[^\W\d_A-Za-z]{1,5} ?|\n{1,4}|[^\w\s] ?|_"
)
# Characters encoded at once: a million spaces make tiktoken 0.14 panic, past `except Exception`.
_LONGEST: Final = 500_000


class ApproximateCounter:
    """Estimates tokens from the shape of the text; needs nothing."""

    name = APPROXIMATE

    def count_text(self, text: str) -> int:
        """Return an estimate, at least 1 for a text that is not empty."""
        return len(_TOKENS.findall(text)) or (1 if text else 0)


class TiktokenCounter:
    """Counts with a tiktoken encoding.

    Args:
        encoding: any `tiktoken.Encoding`, including custom ones.
    """

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encoding = encoding
        self.name = f"tiktoken:{encoding.name}"

    def count_text(self, text: str) -> int:
        """Return the number of tokens. Text such as `<|endoftext|>` is just text."""
        pieces = (text[start : start + _LONGEST] for start in range(0, len(text), _LONGEST))
        return sum(len(self._encoding.encode_ordinary(piece)) for piece in pieces)


def default_counter(encoding_name: str = DEFAULT_ENCODING) -> TokenCounter:
    """Return a tiktoken counter if tiktoken is installed and has the vocabulary in its cache, else an estimate."""
    if not _vocabulary_at_hand(encoding_name):
        return ApproximateCounter()
    try:
        import tiktoken
    except ImportError:  # an extra
        return ApproximateCounter()
    return TiktokenCounter(tiktoken.get_encoding(encoding_name))


def checked_counter(tokenizer: TokenCounter | None) -> TokenCounter:
    """Return the token counter to use: the given one, or the default one.

    Raises:
        ContentError: it has no name, or cannot count.
    """
    if tokenizer is None:
        return default_counter()
    name = getattr(tokenizer, "name", None)
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME:
        raise ContentError(
            f"the tokenizer {brief_repr(tokenizer)} has no name of 1 to {_LONGEST_NAME} characters. Each count is "
            "stored with that name: set the attribute name, such as 'my-model'"
        )
    if not callable(getattr(tokenizer, "count_text", None)):
        raise ContentError(
            f"the tokenizer {name!r} cannot count: give it a method count_text(text), which returns a number of tokens"
        )
    return tokenizer


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
    """Return tiktoken's cache folder (`tiktoken.load.read_file_cached`); None if its cache is disabled."""
    default = Path(tempfile.gettempdir()) / "data-gym-cache"
    chosen = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
    return Path(chosen) if chosen else None


class Corrections:
    """Token counts of providers for what was estimated here, by model: the one place that corrects estimates.

    Each report is an event `usage`, so that the next process knows it too. What was counted stays as it is: totals of
    commits, which `verify` computes again, and figures in fields of pendings, to which an approval binds. Nothing is
    corrected where the tract's tokenizer is exact.

    Args:
        database: of the tract.
        events: of the tract.
        counter: the token counter.
    """

    def __init__(self, database: Database, events: EventRows, counter: TokenCounter) -> None:
        self._database = database
        self._events = events
        self.counter = counter
        self._factors: dict[str, float] | None = None
        """By model, the newest last; None before the first look."""

    def of(self, source: str = APPROXIMATE) -> Correction | None:
        """Return the correction for counts of this counter, by the last model; None if there is none."""
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

        Usage without a number of prompt tokens is passed over, and so is one that cannot be about this prompt: budgets
        go by it, and would refuse all that is said from then on.

        Args:
            model: its name.
            estimated: the estimate for the prompt.
            usage: as OpenAI (`prompt_tokens`) or Anthropic (`input_tokens`, and those of its cache) reports it.
        """
        reported = _prompt_tokens(usage)
        if not _is_likely(estimated, reported) or self.counter.name != APPROXIMATE:
            return
        data = {"model": model, "estimated": estimated, "reported": reported}
        with self._database.write() as connection:
            factors = self._known()
            self._events.append(connection, _USAGE, "user", data)
            self._database.if_rolled_back(self._look_again)
        factors.pop(model, None)
        factors[model] = reported / estimated

    def _look_again(self) -> None:
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
_MOST_REPORTS: Final = 10  # the newest that can be right is enough
_MOST_APART: Final = 20
"""Times that an estimate and a count may differ; scripts that are estimated worst differ by less than 5."""


def _is_likely(estimated: int, reported: int) -> bool:
    return 0 < estimated <= reported * _MOST_APART and reported <= estimated * _MOST_APART


def _prompt_tokens(usage: Mapping[str, object]) -> int:
    given = usage.get("prompt_tokens")
    if given is None:
        parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        given = sum(part for name in parts if isinstance(part := usage.get(name), int))
    return given if isinstance(given, int) and not isinstance(given, bool) else 0
