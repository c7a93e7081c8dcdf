"""Warnings for the user about a text that instructs a model. They explain risks, but they do not block anything."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Final

from tract_jupyter.analysis import Category, Finding, RiskLevel, Span, split_lines
from tract_jupyter.models import hidden_characters, one_line
from tract_jupyter.review import ValueRow, by_rule

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_QUOTE: Final = 80
_LONG: Final = 8_000
_MOST: Final = 50
"""Most places per kind of finding, because a text may contain very many."""
_PATTERNS: Final = (
    (
        "hidden characters",
        RiskLevel.HIGH,
        hidden_characters,
        "They are invisible or reverse the text direction. A model may read a different text than you.",
    ),
    (
        "control characters",
        RiskLevel.HIGH,
        re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]").finditer,
        "A terminal may execute them.",
    ),
    (
        "about approval",
        RiskLevel.MEDIUM,
        re.compile(
            r"\b(?:approv\w+|permission\w*|without (?:asking|approval)|do(?: not|n't) ask|auto.?approve|consent)\b",
            re.IGNORECASE,
        ).finditer,
        "It mentions approval. The text cannot change which calls need your approval.",
    ),
    (
        "about instructions",
        RiskLevel.HIGH,
        re.compile(
            r"\b(?:ignore|disregard|override|forget)\b[^.\n]{0,40}\b(?:instruction|rule|prompt|above|previous)\w*",
            re.IGNORECASE,
        ).finditer,
        "It tells a model to ignore earlier instructions.",
    ),
    (
        "secrets",
        RiskLevel.MEDIUM,
        re.compile(
            r"\b(?:passwords?|api.?keys?|credentials?|private keys?|access tokens?|secrets?|\.env|\.ssh|id_rsa)\b",
            re.IGNORECASE,
        ).finditer,
        "It mentions secrets.",
    ),
    (
        "addresses",
        RiskLevel.LOW,
        re.compile(r"\b(?:https?|ftp|file|wss?)://[^\s)>\"']+", re.IGNORECASE).finditer,
        "The agent's tools may send data there.",
    ),
    (
        "markup",
        RiskLevel.LOW,
        re.compile(r"<\s*(?:script|iframe|img|svg|object|embed)\b|!\[[^\]]*\]\(", re.IGNORECASE).finditer,
        "This review displays it as plain text.",
    ),
    (
        "encoded text",
        RiskLevel.MEDIUM,
        re.compile(r"\b[A-Za-z0-9+/]{120,}={0,2}").finditer,
        "Long strings without spaces may hide text.",
    ),
)


def text_findings(text: str) -> tuple[Finding, ...]:
    """Return the findings in a text, most severe first. Each kind lists at most the first 50 places."""
    starts = _line_starts(text)
    findings = [
        Finding(name, Category.UNKNOWN, level, _span(starts, match), _quoted(match.group()), why, "", 1.0)
        for name, level, find, why in _PATTERNS
        for match in islice(find(text), _MOST)
    ]
    if len(text) > _LONG:
        why = f"It has {len(text):,} characters. Read the whole text before you approve it."
        findings.append(
            Finding("length", Category.UNKNOWN, RiskLevel.LOW, Span(1, 0, 1, 0), "", why, "", 1.0)
        )
    return tuple(sorted(findings, key=lambda finding: (-finding.level.rank, finding.span)))


def findings_rows(findings: Iterable[Finding]) -> tuple[ValueRow, ...]:
    """Return findings as table rows with kind, place and reason, most severe first."""
    return tuple(
        ValueRow(rule.code, "", f"{rule.where}: {rule.worst.text}".rstrip(": "), rule.worst.reason)
        for rule in by_rule(findings)
    )


def _line_starts(text: str) -> list[int]:
    starts, at = [], 0
    for line in split_lines(text):
        starts.append(at)
        at += len(line)
        at += 2 if text.startswith("\r\n", at) else 1
    return starts


def _span(starts: list[int], match: re.Match[str]) -> Span:
    (line, column), (end_line, end_column) = (_place(starts, at) for at in match.span())
    return Span(line, column, end_line, end_column)


def _place(starts: list[int], at: int) -> tuple[int, int]:
    line = bisect_right(starts, at)
    return line, at - starts[line - 1]


def _quoted(text: str) -> str:
    return repr(text) if len(text) == 1 else one_line(text, _LONGEST_QUOTE)
