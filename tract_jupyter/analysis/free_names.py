"""A resolver for which a name that nobody bound stands for itself, and a parameter for what the caller gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.analysis.names import ASSUMED
from tract_jupyter.analysis.program import Program
from tract_jupyter.analysis.resolver import Resolver
from tract_jupyter.analysis.rules import module_level, rules_for
from tract_jupyter.analysis.scopes import Scope
from tract_jupyter.analysis.values import Value, named, union

if TYPE_CHECKING:
    from collections.abc import Collection

_NOWHERE = Scope("module")


class FreeNames(Resolver):
    """A resolver that knows names from outside: the parameters, and those that nobody bound."""

    assumed = ASSUMED

    def __init__(self, program: Program, parameters: Collection[str]) -> None:
        super().__init__(program)
        self._parameters = {name: named(_parameter(name)) for name in parameters}

    def name(self, name: str, scope: Scope) -> Value:
        """What a name means; before the top level binds it, it means what it does outside."""
        found = scope.find(name)
        outside = self._parameters.get(name) or self._unbound(name, _NOWHERE)
        if found is None:
            if name in self._parameters:
                return outside
            starred = self._unbound(name, scope)
            return union((starred, outside if outside.names else named(name)))
        bound = super().name(name, scope)
        return union((bound, outside)) if found[0].kind in {"module", "class"} else bound


class _Outside(Resolver):
    assumed = ASSUMED


def _parameter(name: str) -> str:
    """The name of a parameter; one that is called as a module or a builtin must not be taken for it."""
    known = _Outside(Program()).name(name, _NOWHERE).names
    return f"{name}(parameter)" if known or module_level(name) or rules_for(f"{name}.member") else name
