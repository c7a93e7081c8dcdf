"""`tools` in the copy: a call is sent to the kernel, which answers it or ends the rehearsal to ask the user."""

from __future__ import annotations

import inspect
import itertools
import os
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ToolExecutionError
from tract_jupyter.rehearsal.report import FrameReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.rehearsal.inside import ReportChannel

TOOLS: Final = "tools"
_LARGEST_ANSWER: Final = 1 << 30
_AT_ONCE: Final = 1 << 16


class CopyCaller:
    """Makes tool calls through the kernel, one after another.

    `end` sends the effects so far, and ends the copy. It is called for a call that needs an approval.
    """

    def __init__(self, channel: ReportChannel, answers: int, end: Callable[[], object]) -> None:
        self._channel = channel
        self._answers = answers
        self._end = end
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Return the result of a tool."""
        with self._lock:
            header = {"kind": "call", "id": next(self._ids), "tool": tool, "arguments": arguments}
            self._channel.send(header)
            reader = FrameReader(_LARGEST_ANSWER)
            while data := os.read(self._answers, _AT_ONCE):
                for frame in reader.feed(data):
                    if frame.header.get("ends"):
                        self._end()
                    if frame.header["error"]:
                        raise ToolExecutionError(tool, arguments, frame.header["error"])
                    return frame.header["value"]
        raise ToolExecutionError(tool, arguments, "the kernel does not answer")


class CopyTools:
    """`tools`, or a namespace of it, in the copy.

    `original` is `tools` of the kernel, for the names of parameters; None if there is none.
    """

    def __init__(self, caller: CopyCaller, original: Any = None, path: str = "") -> None:
        self._caller = caller
        self._original = original
        self._path = path

    def __getattr__(self, name: str) -> CopyTools:
        if name.startswith("__"):
            raise AttributeError(name)
        original = getattr(self._original, name) if self._original is not None else None
        return CopyTools(self._caller, original, f"{self._path}.{name}" if self._path else name)

    def __call__(self, *values: Any, **arguments: Any) -> Any:
        """Call the tool."""
        if values:
            arguments = _named(self._original, self._path, values, arguments)
        return self._caller.call(self._path, arguments)

    def __repr__(self) -> str:
        return f"<tools{'.' * bool(self._path)}{self._path}>"

    def __dir__(self) -> list[str]:
        return dir(self._original)


def _named(function: Any, path: str, values: tuple[Any, ...], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise TypeError(f"Call tools.{path} with named arguments.") from None
    return dict(signature.bind(*values, **arguments).arguments)


def use_kernel_for_tools(namespace: dict[str, Any], caller: CopyCaller) -> None:
    """Replace `tools` in a namespace, unless the user has another variable with this name."""
    if has_own_tools(namespace):
        namespace[TOOLS] = CopyTools(caller, namespace.get(TOOLS))


def has_own_tools(namespace: dict[str, Any]) -> bool:
    """Return True if the copy gets its own `tools`, because the user has no other variable with this name."""
    original = namespace.get(TOOLS)
    is_ours = (
        isinstance(original, ModuleType) and getattr(original, "__spec__", None) is None
    )  # it was not imported
    return original is None or is_ours
