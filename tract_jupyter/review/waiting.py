"""Something else that can end the wait for a decision: a script that is stopped."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from tract_jupyter.storage.interrupts import whole_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_check: ContextVar[Callable[[], None] | None] = ContextVar("_check", default=None)


@whole_context
def checking(check: Callable[[], None]) -> Iterator[None]:
    """Have waits of this thread or task call something every now and then, which ends them by raising."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def check_wait() -> None:
    """Raise what ends the wait, if anything does."""
    check = _check.get()
    if check is not None:
        check()
