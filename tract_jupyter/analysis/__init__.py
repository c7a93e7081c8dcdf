"""Static analysis: what a piece of code would do, reported before it runs.

* `analyzer`: a verdict for every text. `findings`: what it yields. `capability`: what a changed version can
  newly reach.
* Reading code: `program` (scopes), `references` (mentions of names), `resolver` with `flows`, `folding`,
  `calls` (what a name may stand for).
* Judging it: `rules`, a class each; `tables`, what well-known calls do, as data. `pages`: the manual.

Analysis explains; it contains nothing. It parses and never imports or executes what it looks at. Knows no
other room.

Each name is imported when it is first used: a first message needs no rules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what type checkers and completers see; the same names as in `_MODULES`
    from tract_jupyter.analysis.analyzer import AnalysisSession, CodeAnalyzer
    from tract_jupyter.analysis.capability import Capabilities, capabilities, widened
    from tract_jupyter.analysis.findings import (
        AnalysisResult,
        Category,
        Finding,
        RiskLevel,
        SandboxMode,
        SandboxModeError,
        Span,
        in_order,
    )
    from tract_jupyter.analysis.ipython_syntax import Escape, transform
    from tract_jupyter.analysis.rules.base import RULES, Rule
    from tract_jupyter.analysis.rules.lookup import all_rules, check_effects, use_effects
    from tract_jupyter.analysis.rules.settings import RuleSettingsError
    from tract_jupyter.analysis.source import split_lines
    from tract_jupyter.analysis.tables.effects import EffectsError, own_effects
    from tract_jupyter.analysis.view import KnownNames

__all__ = [
    "RULES",
    "AnalysisResult",
    "AnalysisSession",
    "Capabilities",
    "Category",
    "CodeAnalyzer",
    "EffectsError",
    "Escape",
    "Finding",
    "KnownNames",
    "RiskLevel",
    "Rule",
    "RuleSettingsError",
    "SandboxMode",
    "SandboxModeError",
    "Span",
    "all_rules",
    "capabilities",
    "check_effects",
    "in_order",
    "own_effects",
    "split_lines",
    "transform",
    "use_effects",
    "widened",
]

_MODULES = {
    "analyzer": ("AnalysisSession", "CodeAnalyzer"),
    "capability": ("Capabilities", "capabilities", "widened"),
    "findings": (
        "AnalysisResult",
        "Category",
        "Finding",
        "RiskLevel",
        "SandboxMode",
        "SandboxModeError",
        "Span",
        "in_order",
    ),
    "ipython_syntax": ("Escape", "transform"),
    "rules.base": ("RULES", "Rule"),
    "rules.lookup": ("all_rules", "check_effects", "use_effects"),
    "rules.settings": ("RuleSettingsError",),
    "source": ("split_lines",),
    "tables.effects": ("EffectsError", "own_effects"),
    "view": ("KnownNames",),
}
_HOME = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # a type checker would take it for a promise that there is every name

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
