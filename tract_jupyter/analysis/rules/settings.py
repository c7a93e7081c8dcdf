"""The user's settings for rules (switched off, other levels), and the rules of other packages.

An entry point names a subclass of `Rule` whose code does not begin with ``TJ``. If such a rule fails, the failure is a
finding (TJ904), and the other rules still run.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category, Finding, RiskLevel
from tract_jupyter.analysis.rules.base import RULES, Reference, Rule, add_rule
from tract_jupyter.exceptions import TractError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tract_jupyter.analysis.view import CodeView


GROUP = "tract_jupyter.rules"
_CODE = re.compile(r"(?!TJ)[A-Z]{2,8}\d{3}")


_LOADING = threading.Lock()


def load_plugins() -> tuple[str, ...]:
    """Load the rules of other packages once. Return a text for each rule that cannot be loaded."""
    with _LOADING:
        return _load_plugins()


@cache
def _load_plugins() -> tuple[str, ...]:
    problems = []
    for entry in entry_points(group=GROUP):
        try:
            add_rule(_Guarded(_loaded(entry)))
        except Exception as error:  # noqa: BLE001 - code of another package must not end the analysis
            problems.append(f"the rule {entry.name!r} cannot be loaded: {type(error).__name__}: {error}")
    return tuple(problems)


def _loaded(entry: EntryPoint) -> Rule:
    kind = entry.load()
    if not (isinstance(kind, type) and issubclass(kind, Rule)):
        raise TypeError(f"{entry.value} is not a subclass of tract_jupyter.analysis.rules.Rule")
    rule = kind()
    if not _CODE.fullmatch(rule.code):
        raise ValueError(f"the code {rule.code!r} is not capitals and three digits, or begins with TJ")
    Category(rule.category)
    for level in (rule.level, *rule.symbols.values()):
        RiskLevel(level)
    return rule


class _Guarded(Rule):
    """A wrapper around a rule of another package that turns failures into findings."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        for name in ("code", "name", "category", "level", "effect", "remedy"):
            setattr(self, name, getattr(rule, name))

    @property
    def symbols(self) -> Mapping[str, RiskLevel]:
        return {**super().symbols, **self._rule.symbols}

    @property
    def modules(self) -> Mapping[str, RiskLevel | None]:
        return {**super().modules, **self._rule.modules}

    def manual(self) -> str:  # type: ignore[override]  # of the class, for rules of our own
        return self._rule.manual()

    def on_reference(self, reference: Reference, view: CodeView) -> Iterator[Finding]:
        try:
            yield from self._rule.on_reference(reference, view)
        except Exception as error:  # noqa: BLE001 - as above
            yield self._failed(view, error)

    def check(self, view: CodeView) -> Iterator[Finding]:
        try:
            yield from self._rule.check(view)
        except Exception as error:  # noqa: BLE001 - as above
            yield self._failed(view, error)

    def _failed(self, view: CodeView, error: Exception) -> Finding:
        reason = f"The rule {self.code} failed: {type(error).__name__}: {error}"
        return RULES["TJ904"].finding(view, view.source.line_span(1), reason)


ALWAYS = "TJ9"
"""The codes of rules about code that cannot be analyzed. They are always reported, or "no findings" is useless."""


class RuleSettingsError(TractError, ValueError):
    """An unknown rule or level, or a rule that cannot be changed."""


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """The rules that are switched off, and the levels that were changed."""

    off: frozenset[str]
    levels: Mapping[str, RiskLevel]

    @classmethod
    def of(cls, off: Iterable[str], levels: Mapping[str, RiskLevel | str]) -> RuleSettings:
        """Check the codes and levels."""
        if isinstance(off, str):
            raise RuleSettingsError(f"Give the codes of rules as a list: [{off!r}].")
        return cls(
            frozenset(_code(code) for code in off),
            {_code(code): _level(level) for code, level in levels.items()},
        )

    def apply(self, finding: Finding) -> Finding | None:
        """Return the finding at the user's level; None if its rule is off."""
        if finding.code in self.off:
            return None
        level = self.levels.get(finding.code)
        return finding if level is None else replace(finding, level=level)


def _code(code: str) -> str:
    load_plugins()
    if code not in RULES:
        raise RuleSettingsError(
            f"There is no rule {code!r}.{nearest(str(code), RULES)} Use `%tract rules` to list them."
        )
    if code.startswith(ALWAYS):
        raise RuleSettingsError(f"{code} reports that the code cannot be analyzed, so it always counts.")
    return code


def _level(level: RiskLevel | str) -> RiskLevel:
    try:
        return RiskLevel(level)
    except ValueError:
        allowed = ", ".join(repr(known.value) for known in RiskLevel)
        raise RuleSettingsError(f"There is no level {level!r}. Use one of {allowed}.") from None
