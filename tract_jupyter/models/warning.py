"""Warnings that point to the line that a person wrote, however deep within the package they come up."""

from __future__ import annotations

import sys
import warnings
from typing import Final

_PASSED_OVER: Final = frozenset({__name__.partition(".")[0], "contextlib", "functools"})
"""Packages and modules whose frames stand between a person's line and the warning."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that led here."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 # the one way to it
    while frame.f_back is not None and _root(frame.f_globals) in _PASSED_OVER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _root(names: dict[str, object]) -> str:
    return str(names.get("__name__")).partition(".")[0]
