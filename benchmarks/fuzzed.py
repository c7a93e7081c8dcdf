"""The conversion of fuzzed bytes to texts, and the check of their verdicts."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from tract_jupyter.analysis import CodeAnalyzer

if TYPE_CHECKING:
    from pathlib import Path

_PIECES = """
os eval getattr open import from as * ( ) [ ] { } : = := . , % %% ! ? / ; def f lambda x for x in if else 1 -1 x
class A @ + return await yield [::-1] match x case _ with try except finally while True global a del a __class__
__globals__ sys.modules vars(os) 'a' b'x' f'{x}' r'\\d' ''' # %%bash %timeit !ls ?x None 10**9 'a'*9 tools.read
"""
PIECES = [*_PIECES.split(), " ", "\n", "\n    ", "\n\n", "\t", "\r", "\\\n", "\0", "\ud800", "é", "\u202e"]
KNOWN = ("RecursionError", "MemoryError", "SyntaxError", "ValueError", "OverflowError", "SystemError")
"""Errors of Python's own parser."""


def text_of(data: bytes) -> str:
    """Return the bytes as text or, if the first byte is even, pieces of Python that the bytes select."""
    if not data or data[0] % 2:
        return data[1:].decode("utf-8", "surrogateescape")
    return " ".join(PIECES[byte % len(PIECES)] for byte in data[1:])


class Judge:
    """A judge that analyzes texts and writes the worst results to a file."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._analyzer = CodeAnalyzer("/home/user/project")
        self._seen: dict[str, Any] = {"slowest": 0.0, "wrong": 0, "text": "", "slow": ""}
        self._write()

    def look(self, data: bytes) -> None:
        """Analyse one text."""
        text = text_of(data)
        started = time.perf_counter()
        try:
            wrong = is_wrong(self._analyzer, text)
        except Exception:  # noqa: BLE001 - any error is a fault of the analysis
            wrong = True
        seconds = time.perf_counter() - started
        if seconds > self._seen["slowest"] or wrong:
            self._seen["slowest"] = max(seconds, self._seen["slowest"])
            self._seen["wrong"] += wrong
            self._seen["text"] = text if wrong else self._seen["text"]
            self._seen["slow"] = self._seen["slow"] if seconds < self._seen["slowest"] else text
            self._write()

    def _write(self) -> None:
        self._report.write_text(json.dumps(self._seen))


def is_wrong(analyzer: CodeAnalyzer, text: str) -> bool:
    """Return True if an internal error stopped the analysis."""
    reasons = [finding.reason for finding in analyzer.analyze(text).findings]
    return any("gave up" in reason and not any(known in reason for known in KNOWN) for reason in reasons)
