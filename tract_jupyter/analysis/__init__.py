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
    )
    from tract_jupyter.analysis.rules import all_rules
    from tract_jupyter.analysis.rules.lookup import check_effects, use_effects
    from tract_jupyter.analysis.rules.settings import RuleChoiceError
    from tract_jupyter.analysis.tables.effects import EffectsError, own_effects
    from tract_jupyter.analysis.view import KnownNames
else:
    __getattr__ = door(
        __name__,
        {
            "AnalysisResult": "tract_jupyter.analysis.findings",
            "AnalysisSession": "tract_jupyter.analysis.analyzer",
            "Capabilities": "tract_jupyter.analysis.capabilities",
            "Category": "tract_jupyter.analysis.findings",
            "CodeAnalyzer": "tract_jupyter.analysis.analyzer",
            "EffectsError": "tract_jupyter.analysis.tables.effects",
            "Finding": "tract_jupyter.analysis.findings",
            "KnownNames": "tract_jupyter.analysis.view",
            "RiskLevel": "tract_jupyter.analysis.findings",
            "RuleChoiceError": "tract_jupyter.analysis.rules.settings",
            "SandboxMode": "tract_jupyter.analysis.findings",
            "SandboxModeError": "tract_jupyter.analysis.findings",
            "Span": "tract_jupyter.analysis.findings",
            "all_rules": "tract_jupyter.analysis.rules",
            "capabilities_of": "tract_jupyter.analysis.capabilities",
            "check_effects": "tract_jupyter.analysis.rules.lookup",
            "own_effects": "tract_jupyter.analysis.tables.effects",
            "use_effects": "tract_jupyter.analysis.rules.lookup",
            "widened": "tract_jupyter.analysis.capabilities",
        },
    )

__all__ = [
    "AnalysisResult",
    "AnalysisSession",
    "Capabilities",
    "Category",
    "CodeAnalyzer",
    "EffectsError",
    "Finding",
    "KnownNames",
    "RiskLevel",
    "RuleChoiceError",
    "SandboxMode",
    "SandboxModeError",
    "Span",
    "all_rules",
    "capabilities_of",
    "check_effects",
    "own_effects",
    "use_effects",
    "widened",
]
