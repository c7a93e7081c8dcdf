"""Limits on text, findings and time. An analysis takes at most a second."""

from __future__ import annotations

import gc
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_MARKS = 200_000
"""Marks of punctuation and line ends outside of strings: about 25,000 lines of ordinary code."""

MAX_FINDINGS = 10_000
MAX_SECONDS = 0.8
_BETWEEN_CHECKS = 16  # members

# Python before 3.12 searches the whole f-string for each of its expressions.
_MAX_F_STRING_STEPS = 500_000_000
_MANY_BRACES = 2_000

_ORDINARY = bytes(
    {*range(128, 256), *b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ \t\r#"}
)
# An unfinished string ends with its line, or with the text: every quote matches, so that time stays linear. (No
# possessive repeats: Python 3.11.2 gets them wrong.)
_QUOTED = (
    r"\"\"\"[^\"\\]*(?:(?:\\.|\"(?!\"\"))[^\"\\]*)*(?:\"\"\"|\\?\Z)"
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\\?\Z)"
    r"|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*(?:\"|\\?(?=\n|\Z))"
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*(?:'|\\?(?=\n|\Z))"
)
_STRING = re.compile(rf"(?P<prefix>[fFrR]{{0,2}})(?:{_QUOTED})", re.DOTALL)
_Member = TypeVar("_Member")


class TooLongError(Exception):
    """Raised if the text or its analysis exceeds the limits."""


def check_length(text: str) -> None:
    """Refuse a text that takes too long to analyze, before parsing it.

    Raises:
        TooLongError: The text has too much syntax.
    """
    # Only syntax takes time, and nearly every piece of syntax has a mark. A long string has none.
    if _marks(text) > MAX_MARKS and _marks(_STRING.sub("", text)) > MAX_MARKS:
        raise TooLongError(f"it is too long for the analysis: {len(text):,} characters")
    if text.count("{") > _MANY_BRACES and _f_string_steps(text) > _MAX_F_STRING_STEPS:
        raise TooLongError("it contains an f-string that is too long for the analysis")


def _marks(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass").translate(None, _ORDINARY))


def _f_string_steps(text: str) -> int:
    f_strings = (match for match in _STRING.finditer(text) if "f" in match["prefix"].lower())
    return sum(match[0].count("{") * len(match[0]) for match in f_strings)


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause the garbage collector. A large syntax tree would trigger it often and without result."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Deadline:
    """A limit on the CPU time of this thread, which a busy machine does not use up."""

    def __init__(self, seconds: float = MAX_SECONDS) -> None:
        self._end = time.thread_time() + seconds

    def check(self) -> None:
        """Raise `TooLongError` if the deadline has passed."""
        if time.thread_time() > self._end:
            raise TooLongError("the analysis ran out of time")

    def watched(self, members: Iterable[_Member]) -> Iterator[_Member]:
        """Yield the members until the deadline."""
        for index, member in enumerate(members):
            if not index % _BETWEEN_CHECKS:
                self.check()
            yield member
