"""Doors that import nothing by themselves: a package's names, each imported when it is first used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def door(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Type checkers and completers do not see it: the package imports the same names `if TYPE_CHECKING`. No name may be
    that of a module of the package, which Python would put in its place.

    Args:
        package: its `__name__`.
        homes: for each name, the module that has it.
    """

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # from now on it is found without asking here
        return value

    return imported
