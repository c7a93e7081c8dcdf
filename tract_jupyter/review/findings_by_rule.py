"""Findings folded by rule, the worst rule first: what each way of showing them begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.models.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.analysis.findings import Finding, RiskLevel

_SHOWN_LINES = 5


@dataclass(frozen=True, slots=True)
class Place:
    """One text that was found, and the lines it stands in."""

    text: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """One distinct reason of a rule at one level, with its places; those of the same text are one."""

    level: RiskLevel
    text: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """All that one rule found in a block of code, the worst first, then by line."""

    code: str
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Finding:
        """The one to show where there is room for one only."""
        return self.findings[0]

    @property
    def level(self) -> RiskLevel:
        """The worst level."""
        return self.worst.level

    @property
    def where(self) -> str:
        """How often if more than once, and the first of its lines."""
        often = f"×{len(self.findings)}, " if len(self.findings) > 1 else ""
        return often + lines_text(finding.span.line for finding in self.findings)

    def reasons(self) -> tuple[Reason, ...]:
        """Each distinct reason, the worst first."""
        found: dict[tuple[RiskLevel, str], dict[str, list[int]]] = {}
        for finding in self.findings:
            places = found.setdefault((finding.level, finding.reason), {})
            places.setdefault(finding.text, []).append(finding.span.line)
        return tuple(
            Reason(level, text, tuple(Place(what, tuple(lines)) for what, lines in places.items()))
            for (level, text), places in found.items()
        )


def by_rule(findings: Iterable[Finding]) -> tuple[RuleFindings, ...]:
    """Fold findings by rule: the rule with the worst level first, then by number."""
    rules: dict[str, list[Finding]] = {}
    for finding in sorted(findings, key=lambda f: (-f.level.rank, f.span, f.code)):
        rules.setdefault(finding.code, []).append(finding)
    folded = (RuleFindings(code, tuple(found)) for code, found in rules.items())
    return tuple(sorted(folded, key=lambda rule: (-rule.level.rank, rule.code)))


def lines_text(numbers: Iterable[int]) -> str:
    """`line 3`, or `lines 3, 8, 21, …` of the first few."""
    lines = sorted(set(numbers))
    more = ", …" if len(lines) > _SHOWN_LINES else ""
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:_SHOWN_LINES]))}{more}"


def in_short(rule: RuleFindings) -> str:
    """One line for text: level, rule, where, and the reason of the worst."""
    return printable(f"{rule.level.value} {rule.code} {rule.where}: {rule.worst.reason}")
