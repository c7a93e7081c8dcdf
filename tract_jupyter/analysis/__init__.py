"""Static analysis: what a piece of code would do, reported before it runs.

* `analyzer`: a verdict for every text. `findings`: what it yields. `capabilities`: what a changed version can
  newly reach.
* Reading code: `program` (scopes), `references` (mentions of names), `resolver` with `flows`, `folding`,
  `calls` (what a name may stand for).
* Judging it: `rules`, a class each; `tables`, what well-known calls do, as data. `pages`: the manual.

Analysis explains; it contains nothing. It parses and never imports or executes what it looks at. Knows no
other room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.doors import door

if TYPE_CHECKING:
    from tract_jupyter.analysis.analyzer import AnalysisSession, CodeAnalyzer
    from tract_jupyter.analysis.capabilities import Capabilities, capabilities_of, widened
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
else:
    __getattr__ = door(
        __name__,
        {
            "RULES": "tract_jupyter.analysis.rules.base",
            "AnalysisResult": "tract_jupyter.analysis.findings",
            "AnalysisSession": "tract_jupyter.analysis.analyzer",
            "Capabilities": "tract_jupyter.analysis.capabilities",
            "Category": "tract_jupyter.analysis.findings",
            "CodeAnalyzer": "tract_jupyter.analysis.analyzer",
            "EffectsError": "tract_jupyter.analysis.tables.effects",
            "Escape": "tract_jupyter.analysis.ipython_syntax",
            "Finding": "tract_jupyter.analysis.findings",
            "KnownNames": "tract_jupyter.analysis.view",
            "RiskLevel": "tract_jupyter.analysis.findings",
            "Rule": "tract_jupyter.analysis.rules.base",
            "RuleSettingsError": "tract_jupyter.analysis.rules.settings",
            "SandboxMode": "tract_jupyter.analysis.findings",
            "SandboxModeError": "tract_jupyter.analysis.findings",
            "Span": "tract_jupyter.analysis.findings",
            "all_rules": "tract_jupyter.analysis.rules.lookup",
            "capabilities_of": "tract_jupyter.analysis.capabilities",
            "check_effects": "tract_jupyter.analysis.rules.lookup",
            "in_order": "tract_jupyter.analysis.findings",
            "own_effects": "tract_jupyter.analysis.tables.effects",
            "split_lines": "tract_jupyter.analysis.source",
            "transform": "tract_jupyter.analysis.ipython_syntax",
            "use_effects": "tract_jupyter.analysis.rules.lookup",
            "widened": "tract_jupyter.analysis.capabilities",
        },
    )

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
    "capabilities_of",
    "check_effects",
    "in_order",
    "own_effects",
    "split_lines",
    "transform",
    "use_effects",
    "widened",
]
