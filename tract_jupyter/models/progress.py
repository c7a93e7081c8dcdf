"""Telling how far something is that may take its time: who works says so, and who shows it listens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

T = TypeVar("T")


@dataclass
class Work:
    """A piece of work that goes on.

    Attributes:
        what: what is done, as a person is told: "Checking every hash".
        total: how many steps it takes; None if that is not known.
        done: how many of them are behind it.
    """

    what: str
    total: int | None = None
    done: int = 0

    def advance(self, steps: int = 1) -> None:
        """Say that so many more steps are behind it."""
        self.done += steps


ProgressObserver = Callable[[Work], AbstractContextManager[object]]
"""Given a piece of work before it begins; its context lasts as long as the work."""

_observers: list[ProgressObserver] = []


@contextmanager
def observing(observer: ProgressObserver) -> Iterator[None]:
    """Have an observer told of all work of this process meanwhile, in whatever thread; the last one alone is told."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


@contextmanager
def working(what: str, total: int | None = None) -> Iterator[Work]:
    """Tell an observer, if there is one, that something is going on, which may take its time."""
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
