"""The rules, one small file per subject; see `base` for what a rule is."""

from __future__ import annotations

# Importing a subject registers its rules.
from tract_jupyter.analysis.rules import (
    code,
    cost,
    environment,
    files,
    imports,
    misspelt,
    network,
    process,
    reflection,
    shell,
    sql,
    text,
    tools,
)
from tract_jupyter.analysis.rules.base import RULES, Reference, Rule
from tract_jupyter.analysis.rules.lookup import all_rules, is_boring, module_level, rules_for

_SUBJECTS = (
    code,
    files,
    network,
    cost,
    environment,
    code,
    files,
    text,
    imports,
    misspelt,
    code,
    network,
    process,
    reflection,
    cost,
    shell,
    sql,
    imports,
    tools,
    text,
    code,
)

__all__ = ["RULES", "Reference", "Rule", "all_rules", "is_boring", "module_level", "rules_for"]
