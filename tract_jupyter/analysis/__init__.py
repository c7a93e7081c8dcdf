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

from tract_jupyter.analysis import rules
from tract_jupyter.analysis.analyzer import AnalysisSession, CodeAnalyzer
from tract_jupyter.analysis.capabilities import Capabilities, capabilities, widened
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
from tract_jupyter.analysis.tables.effects import EffectsError
from tract_jupyter.analysis.tables.effects import own as own_effects
from tract_jupyter.analysis.view import KnownNames

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
    "capabilities",
    "check_effects",
    "own_effects",
    "rules",
    "use_effects",
    "widened",
]
