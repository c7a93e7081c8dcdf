"""What a rule is, what it is shown, and the registry that finds rules by code.

Most rules are a table from dotted name to level; `Rule.on_reference` is called for every mention of such a
name, called or not. A name in a table may be

* exact: ``os.system``, ``pathlib.Path().unlink`` (a method of an instance);
* a whole module: ``requests.*``;
* an attribute of anything: ``*.__globals__``;
* an attribute of a module fetched by an unknown name: ``?.system``.

A rule's class docstring is its manual page.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tract_jupyter.analysis.findings import Category, Finding, RiskLevel, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tract_jupyter.analysis.ipython_syntax import Escape
    from tract_jupyter.analysis.paths import Workspace
    from tract_jupyter.analysis.resolver import Resolver
    from tract_jupyter.analysis.scopes import Program
    from tract_jupyter.analysis.source import Positioned, Source
    from tract_jupyter.analysis.values import Value

LOW, MEDIUM, HIGH, CRITICAL = RiskLevel

SURE = 0.95
LIKELY = 0.8
GUESS = 0.6


@dataclass(frozen=True, slots=True)
class View:
    """The code under analysis, as rules see it. ``external`` collects paths out of the workspace."""

    source: Source
    nodes: Sequence[ast.AST]
    calls: Sequence[ast.Call]
    program: Program
    resolver: Resolver
    escapes: Sequence[Escape]
    workspace: Workspace
    external: list[str]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around this one."""
        return self.program.parent_of.get(node)

    def call_of(self, node: ast.AST) -> ast.Call | None:
        """The call whose function this node is, or None when it is only mentioned."""
        parent = self.parent(node)
        return parent if isinstance(parent, ast.Call) and parent.func is node else None

    def in_loop(self, node: ast.AST) -> bool:
        """Whether a loop or comprehension repeats this node."""
        current = self.parent(node)
        while current is not None:
            if isinstance(
                current, (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp)
            ):
                return True
            if isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                return False
            current = self.parent(current)
        return False

    def argument(self, call: ast.Call | None, position: int, *keywords: str) -> ast.expr | None:
        """The expression given for a parameter, by position or keyword."""
        if call is None:
            return None
        for keyword in call.keywords:
            if keyword.arg in keywords:
                return keyword.value
        plain = call.args[: position + 1]
        return plain[position] if 0 <= position < len(plain) else None

    def value(self, node: ast.expr | None) -> Value | None:
        """What an expression may stand for."""
        return None if node is None else self.resolver.value(node)


@dataclass(frozen=True, slots=True)
class Reference:
    """One mention of a name that a rule asked for: where, as what, at which level, how sure."""

    node: ast.expr | ast.alias | ast.keyword | ast.pattern
    symbol: str
    level: RiskLevel
    confidence: float


class Rule:
    """Base class of rules: a code, a subject, a table, and advice.

    Attributes:
        code: Unique, ``TJ`` and three digits.
        name: A short name for lists.
        category: What is done, as findings carry it unless they know better.
        level: The usual level.
        effect: What the code would do, as a phrase after the symbol's name.
        remedy: What to do instead.
        symbols: Dotted names and their levels.
        modules: Modules whose import alone is worth a finding; None stands for a harmless part of one.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    category: ClassVar[Category]
    level: ClassVar[RiskLevel]
    effect: ClassVar[str]
    remedy: ClassVar[str]
    symbols: ClassVar[Mapping[str, RiskLevel]] = {}
    modules: ClassVar[Mapping[str, RiskLevel | None]] = {}

    @classmethod
    def manual(cls) -> str:
        """The manual page, in Markdown."""
        return inspect.cleandoc(cls.__doc__ or "")

    def on_reference(self, reference: Reference, view: View) -> Iterator[Finding]:
        """Judge one mention of a name in ``symbols``."""
        yield self.finding(
            view, reference.node, f"{reference.symbol} {self.effect}.", reference.level, reference.confidence
        )

    def check(self, view: View) -> Iterator[Finding]:  # noqa: ARG002 - overridden by rules that look at structure
        """Judge what no table of names can tell."""
        return iter(())

    def finding(
        self,
        view: View,
        where: Positioned | Span,
        reason: str,
        level: RiskLevel | None = None,
        confidence: float = SURE,
        category: Category | None = None,
    ) -> Finding:
        """Build a finding of this rule."""
        span = where if isinstance(where, Span) else view.source.span(where)
        return Finding(
            code=self.code,
            category=category or self.category,
            level=level or self.level,
            span=span,
            text=view.source.text(span),
            reason=reason,
            remedy=self.remedy,
            confidence=confidence,
        )


RULES: dict[str, Rule] = {}
"""Every rule by its code."""


def register(rule: type[Rule]) -> type[Rule]:
    """Class decorator: put the rule into the registry.

    Raises:
        ValueError: Another rule has this code.
    """
    if rule.code in RULES:
        raise ValueError(
            f"Rule code {rule.code} is taken by {type(RULES[rule.code]).__name__}. Choose a free one."
        )
    RULES[rule.code] = rule()
    return rule
