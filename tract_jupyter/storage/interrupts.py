"""Protected blocks: an interrupt is raised at the end of the block.

Ctrl-C can arrive between any two instructions: between a commit and the code that records it, or between the last
statement of a block and its cleanup. Code inside the block cannot prevent that. So a signal handler decides. It
reads the stack of the interrupted code, from the innermost frame outward:

* In a protected block, the interrupt waits for the end of the block.
* In a call of `interruptible`, or outside of protected blocks, the previous handler raises it immediately.

The handler is installed only while a protected block is open.

An exception that one thread raises in another does not use signal handlers. `raise_in` checks the other thread's stack.
If that thread is in a protected block, the end of the block raises the exception.
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
"""Seconds. A second interrupt after this time does not wait for the end of the block."""

# `signal` wraps these functions and returns enums, which takes ten times as long
_signal: Final[Any] = sys.modules.get("_signal", signal)
_set_handler, _get_handler = _signal.signal, _signal.getsignal
_SIGINT: Final = int(signal.SIGINT)

# While a block is open, these methods of `contextlib` are protected as well. If one of them is interrupted, a context
# manager from a generator never reaches its end.
_OF_CONTEXTLIB: Final[frozenset[CodeType]] = frozenset(
    {
        contextlib._GeneratorContextManager.__enter__.__code__,  # noqa: SLF001
        contextlib._GeneratorContextManager.__exit__.__code__,  # noqa: SLF001
        contextlib.ExitStack.__exit__.__code__,
        contextlib.ExitStack.enter_context.__code__,
    }
)
_PROTECTED: Final[set[CodeType]] = set(_OF_CONTEXTLIB)
_BLOCKS: Final[dict[int, tuple[int, ref[object]]]] = {}
"""The frame and the owner of each block, by the owner's id. A frame that is suspended at a `yield` is on no stack.

The registry holds only ids and weak references. It removes a dead owner, because the end of its block may never have
run.
"""
_DELAYED: Final[dict[int, type[BaseException]]] = {}
"""The exceptions to raise at the end of blocks, by thread."""

_INTERRUPTED: Final[set[int]] = set()
"""The threads with an asynchronous exception in CPython that may still be pending."""


class _MainThread:
    """The state of the main thread. Only this thread receives interrupts."""

    thread = main_thread().ident
    """The main thread's id."""
    owners: Final[set[int]] = set()
    """The owners of the main thread's blocks."""
    before: Any = None
    """The handler from before the first block."""
    since: float | None = None
    """The time of the delayed interrupt; None if there is none."""


def _after_fork() -> None:
    _MainThread.thread = get_ident()  # the child has only the thread that forked


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)


def protected(function: F) -> F:
    """Protect a function while a block is open. For the functions that begin or end a block."""
    _PROTECTED.add(function.__code__)
    return function


@protected
def begin(owner: object, depth: int = 1) -> None:
    """Protect a frame from interrupts until the call of `end` with the same owner.

    Args:
        owner: the owner of the block.
        depth: the frame to protect: 1 is the caller, 2 is its caller. It must run until the call of `end`, because a
            later frame may reuse its id. 0 protects only the beginning and the end of the block.
    """
    key = id(owner)
    _BLOCKS[key] = id(frame_at(depth)) if depth else 0, ref(owner, functools.partial(_forget, key))
    if get_ident() == _MainThread.thread:
        if not _MainThread.owners:
            _MainThread.since = None  # an interrupt that ended the last block twice
        before = _get_handler(_SIGINT)
        if before is not _on_interrupt and callable(before):
            _MainThread.before = before
            _set_handler(_SIGINT, _on_interrupt)  # raises an interrupt that arrived before
        _MainThread.owners.add(key)


@protected
def end(owner: object, *_about: object, depth: int = 1) -> None:
    """End a block, and raise a delayed interrupt. This must be the caller's last statement.

    A second call for the same owner completes an interrupted first call.

    Args:
        owner: the owner of the block.
        depth: the frame that continues after the block: 1 is the caller, 2 is its caller.
    """
    key, thread, since = id(owner), get_ident(), None
    is_main = thread == _MainThread.thread
    if is_main:
        _MainThread.owners.discard(key)
        before, since = _MainThread.before, _MainThread.since
        if not _MainThread.owners:
            try:
                if before is not None and _get_handler(_SIGINT) is _on_interrupt:
                    _set_handler(_SIGINT, before)
            finally:  # from here on, interrupts are not delayed
                since, _MainThread.since = _MainThread.since, None
                if _get_handler(_SIGINT) is not _on_interrupt:
                    _MainThread.before = None
    _BLOCKS.pop(key, None)  # until here, the death of the owner repeats these steps
    if is_main and since is not None and _MainThread.owners:
        if _is_still_protected(frame_at(1), depth):
            since = None  # the interrupt waits for the end of the outer block
        else:
            _MainThread.since = None
    if since is not None:
        (before or signal.default_int_handler)(signal.SIGINT, frame_at())
    if thread in _DELAYED and not _is_still_protected(frame_at(1), depth):
        raise _DELAYED.pop(thread)


def _forget(owner: int, _dead: object) -> None:
    _BLOCKS.pop(owner, None)
    _MainThread.owners.discard(owner)
    is_main = get_ident() == _MainThread.thread
    if is_main and not _MainThread.owners and _MainThread.before and _get_handler(_SIGINT) is _on_interrupt:
        _set_handler(_SIGINT, _MainThread.before)


class Owner:
    """An owner for a block without another owner object."""

    __slots__ = ("__weakref__",)


class uninterrupted(contextlib.ContextDecorator):  # noqa: N801 # used like a function
    """A protected block or function. Keep it short: the stop button waits for its end.

    In the generator of a context manager, it protects the code before and after the `yield`, but not the caller's
    `with` block.
    """

    __slots__ = ()

    def _recreate_cm(self) -> uninterrupted:
        return uninterrupted()

    __enter__ = begin
    __exit__ = end


def protected_context(function: Callable[P, Iterator[R]]) -> Callable[P, AbstractContextManager[R]]:
    """Like `contextlib.contextmanager`, but protect the beginning and the end of the block from interrupts."""

    @contextlib.contextmanager
    @functools.wraps(function)
    def context(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        owner = Owner()
        try:
            begin(owner)
            yield from function(*args, **kwargs)
        finally:
            end(owner, depth=2)

    return context


def interruptible(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call slow or external code within a block. An interrupt during the call is raised immediately."""
    if _MainThread.since is not None and get_ident() == _MainThread.thread:
        _MainThread.since = None
        (_MainThread.before or signal.default_int_handler)(signal.SIGINT, frame_at())
    return call(*args, **kwargs)


def handle_with(handler: Any) -> Any:
    """Set the handler of interrupts, as `signal.signal` does, and return the previous one."""
    current = _get_handler(_SIGINT)
    if current is not _on_interrupt:
        return _set_handler(_SIGINT, handler)
    before, _MainThread.before = _MainThread.before, handler
    return before


def handler() -> Any:
    """Return the handler for interrupts outside of blocks, as `signal.getsignal` does."""
    current = _get_handler(_SIGINT)
    return _MainThread.before if current is _on_interrupt else current


_IS_ORDER: Final = "is_order"


class Order(BaseException):
    """The base class of control exceptions, such as a stop. No handler converts them into data."""


def is_order(error: BaseException) -> bool:
    """Return True for a control exception or the main thread's interrupt; others are errors."""
    if isinstance(error, KeyboardInterrupt):  # in other threads, it does not come from the user
        return get_ident() == _MainThread.thread
    return isinstance(error, Order) or _IS_ORDER in error.__dict__


def as_order(error: E) -> E:
    """Mark an exception of another class as a control exception, such as the stop button's `CancelledError`."""
    error.__dict__[_IS_ORDER] = True
    return error


def raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Raise an exception in a thread, or at the end of its protected block. None withdraws a pending exception."""
    if exception is None:
        _DELAYED.pop(thread, None)
        _withdraw(thread)
    elif _is_protected(sys._current_frames().get(thread)):  # noqa: SLF001
        _DELAYED[thread] = exception
    else:
        _INTERRUPTED.add(thread)
        _set_async(thread, exception)


class _WithdrawnError(BaseException):
    """Replaces a withdrawn exception; caught immediately."""


def _withdraw(thread: int) -> None:
    """Withdraw a pending exception of a thread, if any.

    CPython 3.11 resets its flag for pending exceptions only when it raises one. If the exception is only removed, the
    flag remains set, and traced code (as with a debugger) hangs at its second line. So the current thread replaces the
    exception by another one, and catches it.
    """
    if thread not in _INTERRUPTED:
        return
    _INTERRUPTED.discard(thread)
    if thread != get_ident():
        _set_async(thread, None)
        return
    with contextlib.suppress(_WithdrawnError):
        _set_async(thread, _WithdrawnError)
        for _ in range(1_000):  # CPython raises it during the loop
            pass


def _set_async(thread: int, exception: type[BaseException] | None) -> None:
    import ctypes  # few processes raise an exception in another thread

    value = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)


def _is_protected(frame: FrameType | None) -> bool:
    blocks = {block for block, _ in list(_BLOCKS.values())}
    while frame is not None:
        code = frame.f_code
        if code is interruptible.__code__:
            return False
        if code in _PROTECTED or id(frame) in blocks:
            return True
        frame = frame.f_back
    return False


def _is_still_protected(frame: FrameType | None, depth: int) -> bool:
    """Return True if a frame is protected after the end of a block. `depth` 1 is the frame itself, 2 is its caller."""
    for _ in range(depth - 1):
        frame = frame and frame.f_back
    # it ends this block, and handles an exception
    while frame is not None and frame.f_code in _OF_CONTEXTLIB:
        frame = frame.f_back
    return _is_protected(frame)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    if _is_protected(frame):
        now = time.monotonic()
        if _MainThread.since is None:
            _MainThread.since = now
        if now - _MainThread.since < _PATIENCE:
            return
    _MainThread.since = None
    (_MainThread.before or signal.default_int_handler)(number, frame)
