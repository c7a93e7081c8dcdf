"""Runs the code in the copy: captured output in order, rich displays, figures, tracebacks of the code's own lines.

In a copy of a kernel, IPython's shell runs the code, so magics, `await` and the last expression work as in a cell. In a
copy of plain Python, the code runs as a module, with the last expression and `await`.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import builtins
import contextlib
import contextvars
import inspect
import io
import linecache
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.rehearsal.report import write_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, FrameType, TracebackType

_NAME: Final = "<rehearsal>"
_TEXT_AT_ONCE: Final = 8_192
_TEXT_SECONDS: Final = 0.05
_LINES_AT_ONCE: Final = 2_000  # later lines are sent in groups
_LONGEST_NOTE: Final = 300
_INLINE: Final = "matplotlib_inline.backend_inline"
_OWN: Final = (str(Path(__file__).parent.parent), os.path.dirname(os.__file__), "<frozen")  # noqa: PTH120
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
_REPRESENTATIONS: Final = {
    "_repr_html_": "text/html",
    "_repr_png_": "image/png",
    "_repr_svg_": "image/svg+xml",
}


class ReportChannel:
    """Sends frames to the kernel, in order. Text output after `most_text` bytes is dropped."""

    def __init__(self, descriptor: int, most_text: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self._text: list[str] = []
        self._length = 0
        self._sent = 0.0
        self._at_once = _LINES_AT_ONCE
        self._left = most_text + _TEXT_AT_ONCE  # the kernel cuts exactly

    def text(self, text: str) -> None:
        """Send printed text, perhaps a little later."""
        with self._lock:
            if self._left < 0:
                return
            self._left -= len(text)
            self._text.append(text)
            self._length += len(text)
            self._at_once -= 1
            is_late = time.monotonic() - self._sent > _TEXT_SECONDS
            if self._at_once > 0 or self._length > _TEXT_AT_ONCE or is_late:
                self._flush_text()

    def flush(self) -> None:
        """Send the text that waits, also from the streams."""
        with (
            self._lock,
            contextlib.suppress(ValueError, AttributeError),
        ):  # the code closed or replaced a stream
            sys.stdout.flush()
            sys.stderr.flush()
        self._flush_text()

    def _flush_text(self) -> None:
        with self._lock:
            if self._text:
                text, self._text, self._length = "".join(self._text), [], 0
                self._sent = time.monotonic()
                self._output("text", {"text/plain": text})

    def output(self, kind: str, data: Mapping[str, Any]) -> None:
        """Send an output with its MIME bundle."""
        self.send({})
        self._output(kind, data)

    def send(self, header: dict[str, Any], *buffers: bytes | bytearray | memoryview) -> None:
        """Send the text that waits, then a frame."""
        with self._lock:
            self.flush()
            if header:
                write_frame(self._descriptor, header, *buffers)

    def _output(self, kind: str, data: Mapping[str, Any]) -> None:
        parts, buffers = [], []
        for mime, value in data.items():
            part = _as_bytes(mime, value)
            if part is not None:
                parts.append([str(mime), isinstance(value, str) and mime not in _IMAGES, len(part)])
                buffers.append(part)
        with self._lock:
            write_frame(self._descriptor, {"kind": kind, "parts": parts}, *buffers)


def _as_bytes(mime: str, value: Any) -> bytes | None:
    if mime in _IMAGES and isinstance(value, str):
        try:
            return base64.b64decode(value)
        except ValueError:
            return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


class _Output(io.RawIOBase):
    def __init__(self, channel: ReportChannel) -> None:
        self._channel = channel

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        text = bytes(data)
        self._channel.text(text.decode("utf-8", "replace"))
        return len(text)


def capture_streams(channel: ReportChannel) -> None:
    """Send text that the code prints, also through streams that a library keeps."""
    for name in ("stdout", "stderr"):
        output: Any = _Output(channel)
        stream = io.TextIOWrapper(output, "utf-8", "replace", line_buffering=True)
        with contextlib.suppress(AttributeError):  # a stream of Python itself has a closed descriptor
            old: Any = getattr(sys, name)
            old.write, old.flush = stream.write, stream.flush
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    builtins.input = _refuse_input


def _refuse_input(prompt: object = "", /) -> str:
    raise PermissionError(f"A rehearsal cannot ask for input: {prompt}")


class Runner:
    """Runs one piece of code in a namespace, in IPython's shell if the namespace belongs to one.

    Attributes:
        refuse: Reports a refused attempt and raises an error.
    """

    def __init__(self, channel: ReportChannel, namespace: dict[str, Any], shell: Any = None) -> None:
        self._channel = channel
        self._namespace = namespace
        self._shell = shell
        self._code = ""
        self._skipped = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.refuse: Callable[[str], object] = _raise_refusal

    def run(self, code: str) -> tuple[str, str]:
        """Run the code. Return its ending, and the error in one line."""
        self._code = code
        if self._shell is not None:  # IPython removes empty lines at the start
            self._skipped = len(code) - len(code.lstrip("\n"))
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        try:
            error = self._run_in_shell(code) if self._shell is not None else self._run_plain(code)
            self._show_figures()
        except BaseException as raised:  # noqa: BLE001 # the code may raise anything
            self.show_error(raised)
            error = raised
        self._channel.flush()
        return ("finished", "") if error is None else ("raised", _note(error))

    def line_now(self) -> int | None:
        """Return the line of the code that runs now in this thread."""
        frame: FrameType | None = sys._getframe()  # noqa: SLF001 # the only way to the stack
        line = None
        while frame is not None and frame.f_code is not Runner.run.__code__:
            if frame.f_globals is self._namespace:
                line = frame.f_lineno + self._skipped
            frame = frame.f_back
        return line

    # in IPython

    def _run_in_shell(self, code: str) -> BaseException | None:
        shell = self._shell
        self._prepare_shell()
        try:
            transformed, problem = shell.transform_cell(code), None
        except Exception:  # noqa: BLE001 # a transformer may raise anything
            transformed, problem = code, sys.exc_info()
        cell = shell.run_cell_async(
            code, store_history=False, transformed_cell=transformed, preprocessing_exc_tuple=problem
        )
        is_async = hasattr(shell, "kernel") or shell.should_run_async(
            code, transformed_cell=transformed, preprocessing_exc_tuple=problem
        )
        try:
            result = self._complete(cell) if is_async else _without_loop(cell)
        finally:
            shell.events.trigger("post_execute")
        error: BaseException | None = result.error_before_exec or result.error_in_exec
        return error

    def _complete(self, work: Any) -> Any:
        """Run a coroutine. Its changes of context variables stay, as in a cell."""
        if self._loop is None:
            raise RuntimeError("no event loop")
        context, missing = contextvars.copy_context(), object()
        try:
            return self._loop.run_until_complete(self._loop.create_task(work, context=context))
        finally:
            for variable, value in context.items():
                if variable.get(missing) is not value:
                    variable.set(value)

    def _prepare_shell(self) -> None:
        shell = self._shell
        if getattr(shell, "history_manager", None) is not None:
            shell.history_manager.enabled = False
        for callbacks in shell.events.callbacks.values():
            callbacks[:] = [one for one in callbacks if getattr(one, "__module__", "") == _INLINE]
        for magics in shell.magics_manager.magics.values():
            for name in [name for name in magics if name.startswith("tract")]:
                del magics[name]
        shell.display_pub.publish = self._publish
        shell.display_pub.clear_output = lambda *_: None
        kernel = getattr(shell, "kernel", None)
        if kernel is not None:  # its sockets are closed
            kernel.session.send = lambda *_, **__: None
        shell.display_trap = type(shell.display_trap)(hook=self._show_result)  # the old one may be in use
        shell.db = {}  # the real one is a folder in the home
        shell.showtraceback = self._show_traceback
        shell.showsyntaxerror = self._show_traceback
        shell.showindentationerror = self._show_traceback
        shell.ask_exit = lambda: None
        shell.system = shell.system_raw = shell.system_piped = self._refuse_command

    def _publish(self, data: Mapping[str, Any], metadata: Any = None, **_options: Any) -> None:
        del metadata
        is_figure = "image/png" in data and str(data.get("text/plain", "")).startswith("<Figure")
        self._channel.output("figure" if is_figure else "display", data)

    def _show_traceback(self, exc_tuple: Any = None, *_arguments: Any, **_options: Any) -> None:
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None:
            self.show_error(error)

    def _refuse_command(self, command: str) -> None:
        self.refuse(f"start a process: {command}")

    # in plain Python

    def _run_plain(self, code: str) -> BaseException | None:
        linecache.cache[_NAME] = (len(code), None, code.splitlines(keepends=True), _NAME)
        try:
            tree = ast.parse(code, _NAME)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            self._run_part(_compiled(tree))
            if isinstance(last, ast.Expr):
                self._show_result(self._run_part(_compiled(ast.Expression(last.value))))
        except BaseException as error:  # noqa: BLE001 # the code may raise anything
            self.show_error(error)
            return error
        return None

    def _run_part(self, code: CodeType) -> Any:
        value = eval(code, self._namespace)  # noqa: S307 # contained, in a copy that ends with it
        if code.co_flags & inspect.CO_COROUTINE:
            return self._complete(value)
        return value

    # outputs

    def _show_result(self, value: Any = None) -> None:
        if value is None or self._code.rstrip().endswith(";"):
            return
        if self._shell is not None:
            data, _ = self._shell.display_formatter.format(value)
        else:
            data = dict(_represent(value))
        self._channel.output("result", data)

    def show_error(self, error: BaseException) -> None:
        """Show an error with the lines of the code, without frames of libraries."""
        lines = list(self._error_lines(error))
        self._channel.output("error", {"text/plain": "\n".join(lines)})

    def _error_lines(self, error: BaseException) -> Iterator[str]:
        if isinstance(error, SyntaxError):
            error.filename = (
                "cell" if error.filename == _NAME or "ipykernel_" in str(error.filename) else error.filename
            )
            yield from "".join(traceback.format_exception_only(error)).splitlines()
            return
        places = list(self._places(error.__traceback__))
        if places:
            yield "Traceback (most recent call last):"
        yield from places
        yield _one_line(error)

    def _places(self, trace: TracebackType | None) -> Iterator[str]:
        source = self._code.splitlines()
        for frame, line in traceback.walk_tb(trace):
            is_cell = frame.f_globals is self._namespace
            name = frame.f_code.co_filename
            if not is_cell and (name.startswith(_OWN) or "site-packages" in name):
                continue
            function = frame.f_code.co_name
            shown = line + self._skipped * is_cell
            place = "cell" if is_cell else name
            inside = "" if function == "<module>" else f", in {function}"
            yield f"  {place}, line {shown}{inside}"
            text = linecache.getline(name, line, frame.f_globals).strip()
            if not text and is_cell and function == "<module>" and line <= len(source):
                text = source[line - 1].strip()
            if text:
                yield f"    {text}"

    def _show_figures(self) -> None:
        """Show the figures that the code left open, as the inline backend does."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or (self._shell is not None and _INLINE in sys.modules and _is_inline()):
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            image = io.BytesIO()
            figure.savefig(image, format="png", bbox_inches="tight")
            self._channel.output("figure", {"text/plain": str(figure), "image/png": image.getvalue()})
        pyplot.close("all")


def _without_loop(cell: Any) -> Any:
    """Run a coroutine that never waits."""
    try:
        cell.send(None)
    except StopIteration as ended:
        return ended.value
    raise RuntimeError("a cell without await waits")


def _is_inline() -> bool:
    matplotlib = sys.modules["matplotlib"]
    return "inline" in str(matplotlib.get_backend()).lower()


def _compiled(tree: ast.Module | ast.Expression) -> CodeType:
    mode = "exec" if isinstance(tree, ast.Module) else "eval"
    code: CodeType = compile(tree, _NAME, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


def _represent(value: Any) -> Iterator[tuple[str, Any]]:
    yield "text/plain", repr(value)
    for name, mime in _REPRESENTATIONS.items():
        method: Callable[[], Any] | None = getattr(type(value), name, None) and getattr(value, name)
        try:
            data = method() if callable(method) else None
        except Exception:  # noqa: BLE001, S112 # as IPython: the text is enough
            continue
        if isinstance(data, str | bytes):
            yield mime, data


def _raise_refusal(action: str) -> None:
    raise PermissionError(f"A rehearsal cannot {action}")


def _one_line(error: BaseException) -> str:
    try:
        text = f"{error.msg} (line {error.lineno})" if isinstance(error, SyntaxError) else str(error)
    except Exception:  # noqa: BLE001 # the code's own class
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _note(error: BaseException) -> str:
    return _one_line(error).splitlines()[0][:_LONGEST_NOTE]
