"""The rules, one small file per subject; see `base` for what a rule is."""

from __future__ import annotations

# Importing a subject registers its rules.
from tract_jupyter.analysis.rules import (
    deserialisation,
    destructive,
    display,
    endless,
    environment,
    execution,
    files,
    hidden,
    imports,
    misspelt,
    native,
    network,
    process,
    reflection,
    resources,
    shell,
    sql,
    tamper,
    tools,
    unparsable,
    written,
)
from tract_jupyter.analysis.rules.base import RULES, Reference, Rule
from tract_jupyter.analysis.rules.lookup import all_rules, is_boring, module_level, rules_for

_SUBJECTS = (
    deserialisation,
    destructive,
    display,
    endless,
    environment,
    execution,
    files,
    hidden,
    imports,
    misspelt,
    native,
    network,
    process,
    reflection,
    resources,
    shell,
    sql,
    tamper,
    tools,
    unparsable,
    written,
)

__all__ = ["RULES", "Reference", "Rule", "all_rules", "is_boring", "module_level", "rules_for"]
