"""The rules: a class each, in a module for each subject.

The package imports every module in this folder, so a new rule needs no other change. `base` defines rules.
`arguments` and `lookup` answer the rules' questions about arguments and names. `settings` holds the user's settings,
and loads the rules of other packages.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tract_jupyter.analysis.rules.base import RULES, Reference, Rule, register
from tract_jupyter.analysis.rules.lookup import all_rules, is_boring, module_level, rules_for

__all__ = ["RULES", "Reference", "Rule", "all_rules", "is_boring", "module_level", "register", "rules_for"]


def import_rules() -> None:
    """Import every module of this package. Importing registers its rules."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


import_rules()
