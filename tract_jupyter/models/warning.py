"""Warnings that point to the user's line of code, at any depth of the call stack."""

from __future__ import annotations

import sys
import warnings
from typing import Final

_PASSED_OVER: Final = frozenset({__name__.partition(".")[0], "contextlib", "functools"})
"""Packages and modules whose frames are skipped between the user's line and the warning."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the nearest line outside this package."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 # the one way to it
    while frame.f_back is not None and _root(frame.f_globals) in _PASSED_OVER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _root(names: dict[str, object]) -> str:
    return str(names.get("__name__")).partition(".")[0]
