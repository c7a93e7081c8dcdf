"""The rules: a class each, in a module for each subject.

A module with a rule is found by standing in this folder. `base` has what a rule is, `arguments` and `lookup` what
rules ask about arguments and names, `settings` which rules count and how those of other packages are loaded.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tract_jupyter.analysis.rules.base import RULES, Reference, Rule, register
from tract_jupyter.analysis.rules.lookup import all_rules, is_boring, module_level, rules_for

__all__ = ["RULES", "Reference", "Rule", "all_rules", "is_boring", "module_level", "register", "rules_for"]


def import_rules() -> None:
    """Import every module of this package, so that its rules register themselves."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


import_rules()
