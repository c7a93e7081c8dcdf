"""Blocks that an interrupt does not cut: it waits, and is raised at their end.

Ctrl-C comes between any two instructions: after a transaction was committed and before anybody took note of it, or as a
block is left and before its end has begun. Nothing that is written in Python can be made safe against that from within,
so it is the signal's handler that looks where it would strike. It walks up the stack: if it meets a block that must not
be cut, the interrupt waits; if it meets code that a person wants to stop (`interruptible`), or neither, it is raised at
once, by whatever handled interrupts before. The handler stands in its place only while such a block is open.

Exceptions that one thread raises in another know no handlers; `raise_in` looks at the other one's stack, and leaves
what has to wait to the end of the block.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import time
from threading import get_ident, main_thread
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import CodeType, FrameType

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=BaseException)
F = TypeVar("F", bound="Callable[..., Any]")

frame_at: Final = sys._getframe  # noqa: SLF001 # there is no other way to a caller's frame

_PATIENCE: Final = 2.0
"""Seconds. Whoever interrupts again after so long does not want to wait for the end of a block."""

# what `signal` wraps to make enums of numbers, which takes ten times as long
_signal: Final[Any] = sys.modules.get("_signal", signal)
_set_handler, _get_handler = _signal.signal, _signal.getsignal
_SIGINT: Final = int(signal.SIGINT)

# While a block is open, the ends of `contextlib` are as good as its own: with a generator it never comes to its end, if
# what resumes the generator is cut.
_WHOLE: Final[set[CodeType]] = {
    contextlib._GeneratorContextManager.__enter__.__code__,  # noqa: SLF001
    contextlib._GeneratorContextManager.__exit__.__code__,  # noqa: SLF001
    contextlib.ExitStack.__exit__.__code__,
    contextlib.ExitStack.enter_context.__code__,
}
_BLOCKS: Final[dict[int, tuple[int, ref[object]]]] = {}
"""The frames and owners of all blocks, by the owner's id. A frame that is suspended at a `yield` is on no stack.

The registry keeps only ids, and forgets an owner that dies: its end may have been cut.
"""
_ORDERED: Final[dict[int, type[BaseException]]] = {}
"""What is to be raised in threads at the end of their blocks."""

_STRUCK: Final[set[int]] = set()
"""The threads that CPython was told to raise something in, until that is over."""


class _Waiting:
    """The state of the main thread, which alone is interrupted."""

    thread = main_thread().ident
    """The main thread."""
    owners: Final[set[int]] = set()
    """The owners of the main thread's blocks."""
    before: Any = None
    """What handled interrupts before the first block."""
    since: float | None = None
    """When the interrupt came that waits, if one does."""


def _after_fork() -> None:
    _Waiting.thread = get_ident()  # the child has only the thread that forked


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)


def whole(function: F) -> F:
    """Mark a function that is never cut while a block is open: the beginning and the end of one."""
    _WHOLE.add(function.__code__)
    return function


@whole
def begin(frame: FrameType | None, owner: object) -> None:
    """Let no interrupt cut a frame. The caller is `whole`, and calls `end` with the same owner.

    Args:
        frame: it must run until `end` is called: another frame may get the id of one that has ended. None for a block
            whose code may be cut; only its two ends are whole.
        owner: of the block.
    """
    key = id(owner)
    _BLOCKS[key] = id(frame), ref(owner, functools.partial(_forget, key))
    if get_ident() == _Waiting.thread:
        before = _get_handler(_SIGINT)
        if before is not _on_interrupt and callable(before):
            _Waiting.before = before
            _set_handler(_SIGINT, _on_interrupt)  # an interrupt that is here already is raised by this
        _Waiting.owners.add(key)


@whole
def end(owner: object) -> None:
    """End a block, and raise an interrupt that has waited for it. Nothing may come after this.

    A second call for the same owner completes the first one.
    """
    key, thread, since = id(owner), get_ident(), None
    is_main = thread == _Waiting.thread
    if is_main:
        _Waiting.owners.discard(key)
        before, since = _Waiting.before, _Waiting.since
        if not _Waiting.owners:
            try:
                if before is not None and _get_handler(_SIGINT) is _on_interrupt:
                    _set_handler(_SIGINT, before)
            finally:  # from here on no interrupt waits any more
                since, _Waiting.since = _Waiting.since, None
                if _get_handler(_SIGINT) is not _on_interrupt:
                    _Waiting.before = None
    _BLOCKS.pop(key, None)  # until here, the death of the owner repeats this
    if is_main and since is not None and _Waiting.owners:
        if _is_whole(frame_at(1).f_back):
            since = None  # it waits for the end of a block around this one
        else:
            _Waiting.since = None
    if since is not None:
        (before or signal.default_int_handler)(signal.SIGINT, frame_at())
    if thread in _ORDERED and not _is_whole(frame_at(1).f_back):
        raise _ORDERED.pop(thread)


def _forget(owner: int, _dead: object) -> None:
    _BLOCKS.pop(owner, None)
    _Waiting.owners.discard(owner)
    is_main = get_ident() == _Waiting.thread
    if is_main and not _Waiting.owners and _Waiting.before and _get_handler(_SIGINT) is _on_interrupt:
        _set_handler(_SIGINT, _Waiting.before)


class Owner:
    """An owner of a block that has no other one."""

    __slots__ = ("__weakref__",)


class uninterrupted(contextlib.ContextDecorator):  # noqa: N801 # it is used as a function
    """A block, or a function, that no interrupt cuts. Keep it short: the stop button waits for its end.

    In a generator that makes a context manager it covers what comes before and after the `yield`, not what the `with`
    block of its caller does.
    """

    __slots__ = ()

    def _recreate_cm(self) -> uninterrupted:
        return uninterrupted()

    @whole
    def __enter__(self) -> None:
        begin(frame_at(1), self)

    @whole
    def __exit__(self, *_: object) -> None:
        end(self)


def whole_context(function: Callable[P, Iterator[R]]) -> Callable[P, AbstractContextManager[R]]:
    """Make a context manager of a generator, as `contextlib.contextmanager` does; no interrupt cuts its two ends."""

    @contextlib.contextmanager
    @functools.wraps(function)
    def context(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        owner = Owner()
        try:
            begin(frame_at(0), owner)  # kept by no name: a frame that knows itself is never freed by itself
            yield from function(*args, **kwargs)
        finally:
            end(owner)

    return context


def interruptible(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call slow or foreign code within a block: an interrupt is raised there immediately."""
    if _Waiting.since is not None and get_ident() == _Waiting.thread:
        _Waiting.since = None
        (_Waiting.before or signal.default_int_handler)(signal.SIGINT, frame_at())
    return call(*args, **kwargs)


def handle_with(handler: Any) -> Any:
    """Have interrupts handled in another way, as `signal.signal` does, and return how they were handled before."""
    current = _get_handler(_SIGINT)
    if current is not _on_interrupt:
        return _set_handler(_SIGINT, handler)
    before, _Waiting.before = _Waiting.before, handler
    return before


def handler() -> Any:
    """Return the handler of interrupts that need not wait, as `signal.getsignal` tells it."""
    current = _get_handler(_SIGINT)
    return _Waiting.before if current is _on_interrupt else current


_IS_ORDER: Final = "is_order"


class Order(BaseException):
    """Base class of control exceptions, such as a stop: no handler converts them into data."""


def is_order(error: BaseException) -> bool:
    """Return True for a control exception or the main thread's interrupt; others are errors."""
    if isinstance(error, KeyboardInterrupt):  # in another thread, no person raised it
        return get_ident() == _Waiting.thread
    return isinstance(error, Order) or _IS_ORDER in error.__dict__


def as_order(error: E) -> E:
    """Return an exception of another kind, marked as an order: the stop button's `CancelledError` is one."""
    error.__dict__[_IS_ORDER] = True
    return error


def raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Have an exception raised in a thread, at the end of its block if it is in one. None takes it back, if it can."""
    if exception is None:
        _ORDERED.pop(thread, None)
        _take_back(thread)
    elif _is_whole(sys._current_frames().get(thread)):  # noqa: SLF001
        _ORDERED[thread] = exception
    else:
        _STRUCK.add(thread)
        _order(thread, exception)


class _TakenBackError(BaseException):
    """Replaces a withdrawn exception; caught immediately."""


def _take_back(thread: int) -> None:
    """Withdraw a pending exception of a thread, if any.

    CPython clears its note that some thread has an exception to raise only as one is raised. To take one back leaves it
    set for good, and then whatever is traced, as with a debugger, never comes to its second line (3.11). So a thread
    has another one raised in its place, and catches that.
    """
    if thread not in _STRUCK:
        return
    _STRUCK.discard(thread)
    if thread != get_ident():
        _order(thread, None)
        return
    with contextlib.suppress(_TakenBackError):
        _order(thread, _TakenBackError)
        for _ in range(1_000):  # it is raised before this ends
            pass


def _order(thread: int, exception: type[BaseException] | None) -> None:
    import ctypes  # few processes raise anything in another thread

    given = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)


def _is_whole(frame: FrameType | None) -> bool:
    blocks = {block for block, _ in list(_BLOCKS.values())}
    while frame is not None:
        code = frame.f_code
        if code is interruptible.__code__:
            return False
        if code in _WHOLE or id(frame) in blocks:
            return True
        frame = frame.f_back
    return False


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    if _is_whole(frame):
        now = time.monotonic()
        if _Waiting.since is None:
            _Waiting.since = now
        if now - _Waiting.since < _PATIENCE:
            return
    _Waiting.since = None
    (_Waiting.before or signal.default_int_handler)(number, frame)
