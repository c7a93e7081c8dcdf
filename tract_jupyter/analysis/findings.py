"""Findings, each with a location, a level and advice, and the result of a whole analysis."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum

from tract_jupyter.exceptions import TractError


class SandboxModeError(TractError, ValueError):
    """An unknown mode. The message lists the valid modes."""


class RiskLevel(StrEnum):
    """The severity of a finding, ordered: low < medium < high < critical."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """The position in the order, 0 for low."""
        return _RANKS[self.value]

    # A string enum would compare alphabetically: "critical" < "low".
    def __lt__(self, other: str) -> bool:
        return self.rank < RiskLevel(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= RiskLevel(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > RiskLevel(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= RiskLevel(other).rank


_RANKS = {"low": 0, "medium": 1, "high": 2, "critical": 3}


class Category(StrEnum):
    """The kind of effect of a finding, which is also a capability of the code."""

    PROCESS = "process"
    CODE_EXECUTION = "code_execution"
    NATIVE = "native"
    NETWORK = "network"
    DATABASE = "database"
    DESERIALISATION = "deserialisation"
    FILESYSTEM_READ = "filesystem_read"
    FILESYSTEM_WRITE = "filesystem_write"
    FILESYSTEM_DELETE = "filesystem_delete"
    ENVIRONMENT = "environment"
    INTROSPECTION = "introspection"
    RESOURCES = "resources"
    TAMPERING = "tampering"
    UNKNOWN = "unknown"


class SandboxMode(StrEnum):
    """The consequence of findings: none, a warning, or a refusal to run the code."""

    DISABLED = "disabled"
    WARN = "warn"
    BLOCK_CRITICAL = "block_critical"
    STRICT = "strict"

    @classmethod
    def _missing_(cls, value: object) -> SandboxMode:
        # A misspelled "strict" must not silently turn the protection off.
        allowed = ", ".join(repr(mode.value) for mode in cls)
        raise SandboxModeError(f"Unknown analysis mode {value!r}. Use one of {allowed}.")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of the source. Lines count from 1, columns from 0, and the end column is exclusive.

    Columns count characters, so a slice of the line gives the text. (``ast`` counts UTF-8 bytes.)
    """

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Advice about one place in the code.

    Attributes:
        code: The rule's code, such as ``TJ101``. The rule's class docstring is the manual page.
        category: The kind of effect, such as ``process``.
        level: The severity.
        span: The location.
        text: The source text, shortened if it is long.
        reason: The effect of the code.
        remedy: The better way to reach the same goal.
        confidence: 0 to 1. It is lower if a name or a path is a guess.
        paths: The affected files, with ``?`` for unknown pieces. ``?`` alone means any file.
    """

    code: str
    category: Category
    level: RiskLevel
    span: Span
    text: str
    reason: str
    remedy: str
    confidence: float
    paths: tuple[str, ...] = ()

    def in_file(self, lines: int) -> Finding:
        """Return the finding one level lower, for code in a written file that begins `lines` lines further down."""
        span = replace(self.span, line=self.span.line + lines, end_line=self.span.end_line + lines)
        level = list(RiskLevel)[max(self.level.rank - 1, 0)]
        return replace(self, span=span, level=level, reason=f"In the written file: {self.reason}")


@dataclass(frozen=True, slots=True)
class AnalysisResult:
    """All findings of one piece of code, sorted by line, the most severe finding of a line first.

    Attributes:
        findings: The advice.
        imports: Dotted names of imported modules, sorted.
        external_paths: Paths outside the workspace that the code opens.
        analysed: False if the mode was ``disabled``. Then the code was not examined.
    """

    findings: tuple[Finding, ...] = ()
    imports: tuple[str, ...] = ()
    external_paths: tuple[str, ...] = ()
    analysed: bool = True

    @property
    def max_risk_level(self) -> RiskLevel | None:
        """The highest level found, or None without findings."""
        return max((finding.level for finding in self.findings), default=None)

    @property
    def capabilities(self) -> tuple[Category, ...]:
        """The categories of the findings of any level, in the order of `Category`."""
        categories = {finding.category for finding in self.findings}
        return tuple(category for category in Category if category in categories)

    def summary(self) -> str:
        """Return one line for a panel's header, without source text."""
        if not self.analysed:
            return "Analysis is disabled: the code was not examined."
        if not self.findings:
            return "No findings. Analysis is advice, not containment."
        counts = Counter(finding.level for finding in self.findings)
        parts = ", ".join(f"{counts[level]} {level}" for level in reversed(RiskLevel) if counts[level])
        worst = max(self.findings, key=lambda finding: finding.level)
        return f"Findings: {parts}. Worst: {worst.code} ({worst.category}), line {worst.span.line}."

    def blocked_by(self, mode: SandboxMode | str) -> bool:
        """Return True if code with these findings is refused in this mode."""
        worst = self.max_risk_level
        threshold = _BLOCKS_FROM.get(SandboxMode(mode))
        return worst is not None and threshold is not None and worst >= threshold


_BLOCKS_FROM = {SandboxMode.BLOCK_CRITICAL: RiskLevel.CRITICAL, SandboxMode.STRICT: RiskLevel.HIGH}


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Sort by line and severity. Drop repeated findings of one rule at one place."""
    unique: dict[tuple[str, Span], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.span)
        known = unique.get(key)
        if known is None or finding.level > known.level:
            unique[key] = finding
    return tuple(sorted(unique.values(), key=lambda f: (f.span.line, -f.level.rank, f.span, f.code)))
