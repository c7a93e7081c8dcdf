"""Progress of slow work, which an observer displays, and warnings that point to the user's line of code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


T = TypeVar("T")


@dataclass
class Work:
    """Work in progress.

    Attributes:
        what: a description for the user: "Checking every hash".
        total: the number of steps; None if unknown.
        done: the number of finished steps.
    """

    what: str
    total: int | None = None
    done: int = 0

    def advance(self, steps: int = 1) -> None:
        """Report more finished steps."""
        self.done += steps


ProgressObserver = Callable[[Work], AbstractContextManager[object]]
"""Given a piece of work before it begins; its context lasts as long as the work."""

_observers: list[ProgressObserver] = []


@contextmanager
def observing(observer: ProgressObserver) -> Iterator[None]:
    """Set the observer of all work in this process, in all threads. Only the last observer is called."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


@contextmanager
def working(what: str, total: int | None = None) -> Iterator[Work]:
    """Report slow work to the observer, if there is one."""
    work = Work(what, total)
    if not _observers:
        yield work
        return
    with _observers[-1](work):
        yield work


def tracked(items: Collection[T], what: str) -> Iterator[T]:
    """Yield items one by one, each as a step of a piece of work."""
    with working(what, len(items)) as work:
        for item in items:
            yield item
            work.advance()


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
