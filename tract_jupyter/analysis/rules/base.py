"""The base class of rules, the mentions that they judge, and the registry of rules by code.

Most rules are a table from dotted names to levels. The analyzer calls `Rule.on_reference` for every mention of such a
name. A name in a table may be

* exact: ``os.system``, ``pathlib.Path().unlink`` (a method of an instance);
* a whole module: ``requests.*``;
* an attribute of anything: ``*.__globals__``;
* an attribute of a module fetched by an unknown name: ``?.system``.

A rule's class docstring is its manual page.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tract_jupyter.analysis.findings import Category, Finding, RiskLevel, Span
from tract_jupyter.analysis.tables.effects import effects
from tract_jupyter.analysis.values import HOLE
from tract_jupyter.models import cut

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator, Mapping

    from tract_jupyter.analysis.source import Positioned
    from tract_jupyter.analysis.view import CodeView

LOW, MEDIUM, HIGH, CRITICAL = RiskLevel

_LONGEST_REASON = 500
SURE = 0.95
LIKELY = 0.8
GUESS = 0.6


@dataclass(frozen=True, slots=True)
class Reference:
    """A mention of a name in a rule's table, with its level and the confidence."""

    node: ast.expr | ast.alias | ast.keyword | ast.pattern
    symbol: str
    level: RiskLevel
    confidence: float

    @property
    def shown(self) -> str:
        """The short form of the symbol: ``open``, or only the name for an attribute of any object."""
        return self.symbol.removeprefix("builtins.").removeprefix("*.")


class Rule:
    """Base class of rules: a code, a subject, a table, and advice.

    Attributes:
        code: Unique, ``TJ`` and three digits.
        name: A short name for lists.
        category: The default category of its findings.
        level: The usual level.
        effect: The effect of the code, as a phrase after the symbol's name.
        remedy: The better way to reach the same goal.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    category: ClassVar[Category]
    level: ClassVar[RiskLevel]
    effect: ClassVar[str]
    remedy: ClassVar[str]

    @property
    def symbols(self) -> Mapping[str, RiskLevel]:
        """The dotted names that the rule reports, with their levels. The default is the rule's effects files."""
        return effects().symbols.get(self.name, {})

    @property
    def modules(self) -> Mapping[str, RiskLevel | None]:
        """The modules whose import alone is a finding; None marks a harmless submodule."""
        return effects().modules.get(self.name, {})

    @classmethod
    def manual(cls) -> str:
        """Return the manual page, in Markdown."""
        return inspect.cleandoc(cls.__doc__ or "")

    def level_of(self, reference: Reference, view: CodeView) -> RiskLevel | None:  # noqa: ARG002 - for subclasses
        """Return the level of one mention of a name in ``symbols``; None for no finding."""
        return reference.level

    def on_reference(self, reference: Reference, view: CodeView) -> Iterator[Finding]:
        """Judge one mention of a name in ``symbols``."""
        level = self.level_of(reference, view)
        if level is not None:
            reason = f"{reference.shown} {self.effect}."
            yield self.finding(view, reference.node, reason, level, reference.confidence)

    def check(self, view: CodeView) -> Iterator[Finding]:  # noqa: ARG002 - overridden by rules that look at structure
        """Judge the structure of the code, which no table of names covers."""
        return iter(())

    def finding(
        self,
        view: CodeView,
        where: Positioned | Span,
        reason: str,
        level: RiskLevel | None = None,
        confidence: float = SURE,
        category: Category | None = None,
        paths: Iterable[str | None] = (),
    ) -> Finding:
        """Build a finding of this rule. An unknown path is None."""
        span = where if isinstance(where, Span) else view.source.span(where)
        return Finding(
            code=self.code,
            category=category or self.category,
            level=level or self.level,
            span=span,
            text=view.source.text(span),
            reason=cut(reason, _LONGEST_REASON),
            remedy=self.remedy,
            confidence=confidence,
            paths=tuple(dict.fromkeys("?" if path is None else path.replace(HOLE, "?") for path in paths)),
        )


RULES: dict[str, Rule] = {}
"""Every rule by its code."""


def register(rule: type[Rule]) -> type[Rule]:
    """Register the rule (class decorator)."""
    add_rule(rule())
    return rule


def add_rule(rule: Rule) -> None:
    """Register a rule."""
    if rule.code in RULES:
        raise ValueError(
            f"The rule {RULES[rule.code].name!r} already has the code {rule.code}. Choose a free code."
        )
    RULES[rule.code] = rule
