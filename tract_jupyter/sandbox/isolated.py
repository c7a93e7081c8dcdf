"""A function's text, run once in a sandbox of its own: plain data goes in, plain data comes out, nothing else does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import SandboxError
from tract_jupyter.models.text import printable
from tract_jupyter.sandbox.errors import Hints, explained

if TYPE_CHECKING:
    from pydantic_monty import Frame

    from tract_jupyter.sandbox.pool import SandboxPool

SECONDS = 10.0
MEMORY = 64_000_000
MOST_PRINTED = 50_000
UNCHANGED = "Nothing was changed or decided"

_LIMITS: Any = {"max_feed_duration_secs": SECONDS, "max_memory": MEMORY}
_POLICY: Any = {"sleep": "zero"}  # there is nothing to wait for
_FEED = "<python-input-1>"
"""How a session calls what it is fed after the prelude: the function."""
_SHOWN_FRAMES = 10


class IsolatedCode(NamedTuple):
    """What runs.

    Attributes:
        prelude: comes first, and is given the inputs.
        function: one `def` line, and the body from line 2.
        call: an expression, whose value comes out.
        filename: what tracebacks call the body.
        hints: for its errors.
    """

    prelude: str
    function: str
    call: str
    filename: str
    hints: Hints


def run_isolated(pool: SandboxPool, code: IsolatedCode, inputs: dict[str, Any]) -> Any:
    """Run it, and return the value of the call; what it prints is shown when it has ended.

    Raises:
        NoSandboxError: there is no sandbox.
        SandboxError: it failed, or took too much; with its own lines.
    """
    opened = pool.opened()
    import pydantic_monty as monty

    printed = _Printed()
    try:
        with opened.checkout(limits=_LIMITS, os_policy=_POLICY) as session:
            session.feed_run(code.prelude, inputs=inputs)
            return session.feed_run(f"{code.function}\n{code.call}", print_callback=printed.take)
    except monty.MontyError as error:
        name, message, shown = explained(error, _traceback(error, code), code.hints)
        raise SandboxError(f"{code.filename} raised {name}: {message}. {UNCHANGED}", shown) from None
    finally:
        printed.show()


class _Printed:
    """What the code prints: the beginning of it, shown when it has ended."""

    def __init__(self) -> None:
        self._text = ""
        self._left_out = 0

    def take(self, _stream: str, text: str) -> None:
        kept = text[: MOST_PRINTED - len(self._text)]
        self._text += kept
        self._left_out += len(text) - len(kept)

    def show(self) -> None:
        more = f"\n… {self._left_out:,} characters left out …\n" if self._left_out else ""
        if self._text:
            print(printable(self._text) + more, end="")  # noqa: T201 # the action did


def _traceback(error: Any, code: IsolatedCode) -> str:
    """The function's own lines, as the author of its body counts them."""
    frames = [frame for frame in getattr(error, "traceback", list)() if _is_own(frame)]
    lines = code.function.split("\n")
    told = [
        f'  File "{code.filename}", line {frame.line - 1}{_within(frame)}\n'
        f"    {lines[frame.line - 1].strip()}"
        for frame in frames
    ]
    if len(told) > _SHOWN_FRAMES:
        half = _SHOWN_FRAMES // 2
        told[half:-half] = [f"  ... {len(told) - 2 * half:,} more"]
    head = ["Traceback (most recent call last):"] if told else []
    last = error.display("type-msg") if told or hasattr(error, "traceback") else str(error)
    return "\n".join([*head, *told, last])


def _is_own(frame: Frame) -> bool:
    return frame.filename == _FEED and frame.function_name != "<module>"


def _within(frame: Frame) -> str:
    return f", in {frame.function_name}" if frame.function_name else ""
