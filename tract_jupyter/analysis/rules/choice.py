"""Which rules are asked, and at which levels their findings count."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Finding, RiskLevel
from tract_jupyter.analysis.rules.base import RULES
from tract_jupyter.analysis.rules.plugins import load_plugins
from tract_jupyter.exceptions import TractError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALWAYS = "TJ9"
"""Rules about what cannot be analysed: without them, no findings would not mean that somebody looked."""


class RuleChoiceError(TractError, ValueError):
    """There is no such rule or level, or the rule is one that always counts."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Rules that are off, and levels that were changed."""

    off: frozenset[str]
    levels: Mapping[str, RiskLevel]

    @classmethod
    def of(cls, off: Iterable[str], levels: Mapping[str, RiskLevel | str]) -> Choice:
        """Check the codes and levels.

        Raises:
            RuleChoiceError: There is no such rule or level, or the rule is one that always counts.
        """
        if isinstance(off, str):
            raise RuleChoiceError(f"Give the codes of rules as a list: [{off!r}].")
        return cls(
            frozenset(_code(code) for code in off),
            {_code(code): _level(level) for code, level in levels.items()},
        )

    def apply(self, finding: Finding) -> Finding | None:
        """The finding as it counts here; None if its rule is off."""
        if finding.code in self.off:
            return None
        level = self.levels.get(finding.code)
        return finding if level is None else replace(finding, level=level)


def _code(code: str) -> str:
    load_plugins()
    if code not in RULES:
        near = difflib.get_close_matches(str(code).upper(), RULES, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise RuleChoiceError(f"There is no rule {code!r}.{hint} `%tract rules` lists them.")
    if code.startswith(ALWAYS):
        raise RuleChoiceError(f"{code} says that nothing is known about the code; it always counts.")
    return code


def _level(level: RiskLevel | str) -> RiskLevel:
    try:
        return RiskLevel(level)
    except ValueError:
        allowed = ", ".join(repr(known.value) for known in RiskLevel)
        raise RuleChoiceError(f"There is no level {level!r}. Use one of {allowed}.") from None
