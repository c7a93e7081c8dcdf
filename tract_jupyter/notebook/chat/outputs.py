"""Outputs of scripts of the kernel, collected while they run, for display under the row of their call.

The front end draws a widget in its row. Other displays that need scripts become outputs of the cell.
"""

from __future__ import annotations

import base64
import re
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import counted, more_characters, printable, size_text
from tract_jupyter.notebook.chat.markdown import MarkdownStream
from tract_jupyter.notebook.output import displays_hooked
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import Html, element, fragment
from tract_jupyter.notebook.views.sanitized import needs_scripts, sanitized_html
from tract_jupyter.notebook.views.streams import PrintedText, ansi_html, without_codes
from tract_jupyter.review import captured, current_sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from IPython.core.interactiveshell import InteractiveShell

    from tract_jupyter.models import AttachedFile
    from tract_jupyter.scripts import ScriptRun

MOST_OUTPUTS: Final = 50
"""The most outputs of one script on display."""
MOST_HTML: Final = 500_000
"""Characters of the HTML of one output."""
_MOST_PIXELS: Final = 20_000
MOST_IMAGE: Final = 4_000_000
"""Characters of one image, as base64."""
MOST_OF_TURN: Final = 20_000_000
"""Characters of all outputs of a turn."""
_MOST_PLAIN: Final = 20_000
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ELSEWHERE: Final = "Interactive output: shown below this turn."
_WIDGET: Final = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class TurnOutput:
    """The current state of one output: a stream, a display, a note.

    Attributes:
        kind: `stdout`, `stderr`, `display`, `error`, `note`.
        text: plain, or with ANSI codes.
        data: of a display: contents by MIME type.
        metadata: of a display.
    """

    kind: str
    text: str
    data: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None

    @cached_property
    def html(self) -> Html:
        """The output as HTML that neither runs nor loads anything. A live page draws a widget over its text."""
        widget = _widget_id(self.data or {})
        inner = self._display_html() if self.data and not widget else _inner_html(self.kind, self.text)
        return element("div", inner, class_=("result", self.kind), data_widget=widget or None)

    @property
    def plain(self) -> str:
        """The output as text."""
        text, more = _bounded(self.kind, self.text)
        return printable("\n".join(filter(None, [without_codes(text).rstrip("\n"), more])))

    def _display_html(self) -> Html:
        data: Mapping[str, Any] = self.data or {}
        if isinstance(data.get("text/html"), str):
            text = data["text/html"]
            return sanitized_html(text) if len(text) <= MOST_HTML else _too_large(text, MOST_HTML)
        if isinstance(data.get("text/markdown"), str) and len(data["text/markdown"]) <= _MOST_PLAIN:
            stream = MarkdownStream()
            stream.append(data["text/markdown"])
            return element("div", (part for _, part in stream.parts()), class_="prose")
        for kind in ("image/svg+xml", *_IMAGES):
            if isinstance(data.get(kind), str):
                return self.image_html(kind, data[kind])
        return _inner_html("display", self.text)

    def image_html(self, kind: str, image: str) -> Html:
        """Return an image in Base64 or an SVG, with the text of the output as its alternative."""
        if kind == "image/svg+xml":  # as an image it neither runs nor loads anything
            image = base64.b64encode(image.encode("utf-8", "replace")).decode()
        if len(image) > MOST_IMAGE:
            return _too_large(image, MOST_IMAGE)
        if not _BASE64.fullmatch(image):
            return _inner_html("display", self.text)
        sizes: Any = (self.metadata or {}).get(kind)
        size_data = sizes if isinstance(sizes, dict) else {}
        size = {
            name: f"{size_data[name]:.0f}"
            for name in ("width", "height")
            if isinstance(size_data.get(name), int | float) and 0 < size_data[name] < _MOST_PIXELS
        }
        source = f"data:{kind};base64,{''.join(image.split())}"
        return element("img", tabindex=0, alt=self.plain[:200], **size, src=source)


def sent_image_html(image: AttachedFile) -> Html:
    """Return an image that a model received."""
    output, encoded = TurnOutput("display", image.attachment.name), base64.b64encode(image.data).decode()
    return element("div", output.image_html(image.attachment.media_type, encoded), class_="sent")


def _inner_html(kind: str, text: str) -> Html:
    if kind == "note":
        return rows.dim(text)
    beginning, more = _bounded(kind, text)
    return fragment(element("pre", ansi_html(beginning.rstrip())), rows.dim(more) if more else None)


def _bounded(kind: str, text: str) -> tuple[str, str]:
    """Return the beginning of a text, and a note on the rest. Streams are already bounded."""
    if kind not in {"display", "error"} or len(text) <= _MOST_PLAIN:
        return text, ""
    return text[:_MOST_PLAIN], more_characters(text, _MOST_PLAIN)


def _too_large(content: str, limit: int) -> Html:
    return rows.dim(
        f"This output has {size_text(len(content))}. The limit is {size_text(limit)}. Display less of it."
    )


class _Stream:
    """A stream that grows."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.printed = PrintedText()
        self.drawn: TurnOutput | None = None

    def output(self) -> TurnOutput:
        if self.drawn is None:
            self.drawn = TurnOutput(self.kind, self.printed.text())
        return self.drawn


class _Bar:
    """A tqdm progress bar, which is a widget, as text. The text stays after the bar is closed or collected."""

    kind = "bar"

    def __init__(self, widget: Any) -> None:
        self._widget = widget
        self._has_ended = False
        self.drawn = TurnOutput("display", "")

    def output(self) -> TurnOutput:
        if getattr(self._widget, "comm", None) is None:  # with `leave=False`
            text, self._has_ended = "", True
        elif self._has_ended:  # its text would count on
            return self.drawn
        else:
            try:
                text = repr(self._widget)
                self._has_ended = bool(getattr(self._widget.pbar, "disable", False))
            except ReferenceError:  # tqdm keeps a weak reference to the bar
                text, self._has_ended = self.drawn.text, True
        if text != self.drawn.text:
            self.drawn = TurnOutput("display", text)
        return self.drawn


def _bar_of(data: Mapping[str, Any]) -> _Bar | None:
    """Return the progress bar that a display shows; None if it shows none."""
    widget = _widget(data)
    return _Bar(widget) if type(widget).__module__.startswith("tqdm.") else None


def _widget(data: Mapping[str, Any]) -> Any:
    """Return the widget that a display shows; None if it shows none."""
    module: Any = sys.modules.get("ipywidgets.widgets.widget")
    return getattr(module, "_instances", {}).get(_widget_id(data))


def _free(widget: Any) -> None:
    """Handle changes of a widget and its children while the turn runs.

    ipykernel 7.4 handles them within a running asynchronous cell and does not say when it is done. The page waits for
    that, and sends no further change.
    """
    from tract_jupyter.notebook.front_end import honour_the_front_ends_subshell

    widgets = [widget]
    for inner in widgets:
        widgets += [child for child in getattr(inner, "children", ()) if child not in widgets]
        honour_the_front_ends_subshell(getattr(inner, "comm", None))


def _widget_id(data: Mapping[str, Any]) -> str:
    """Return the model of the widget that a display shows; empty if it shows none."""
    view = data.get(_WIDGET)
    return str(view.get("model_id") or "") if isinstance(view, dict) else ""


class ScriptOutputs:
    """The outputs of one script so far. Any thread may add to them and read them.

    Args:
        run: the script.
        room: takes a number of characters; False if the turn has no room for them.
        changed: is called when something was added, with `at_once=True` for the first output.
        has_widgets: the page of the turn draws widgets.
    """

    def __init__(
        self,
        run: ScriptRun,
        room: Callable[[int], bool] = lambda _: True,
        changed: Callable[..., object] = dict,
        *,
        has_widgets: bool = False,
    ) -> None:
        self.run = run
        self._has_widgets = has_widgets
        self._room = room
        self._changed = changed
        self._outputs: list[_Stream | _Bar | TurnOutput] = []
        self._places: dict[str, int] = {}
        """The place of the output with a display id."""
        self._left_out = 0
        self._clears = False
        self._lock = threading.RLock()

    @property
    def actor(self) -> str:
        """The author of the script."""
        return self.run.author

    @property
    def seconds(self) -> float:
        """How long it runs, without waiting for decisions."""
        return self.run.meter.clock.seconds

    def now(self) -> tuple[TurnOutput, ...]:
        """Return the outputs; each is the same object until it changes."""
        with self._lock:
            outputs = [
                output if isinstance(output, TurnOutput) else output.output() for output in self._outputs
            ]
            outputs = [output for output in outputs if output.text or output.data]
            if self._left_out:
                what = counted(self._left_out, "more output")
                outputs.append(
                    TurnOutput("note", f"… {what} not shown. A script shows at most {MOST_OUTPUTS}.")
                )
            return tuple(outputs)

    @property
    def _is_from_copy(self) -> bool:
        """True if the code did not run in the kernel: the outputs come from a contained copy."""
        return self.run.is_kept or self.run.backend != "kernel"

    def figures(self) -> list[bytes]:
        """Return the PNG images on display, in order."""
        figures = []
        for output in self.now():
            image = (output.data or {}).get("image/png")
            with suppress(ValueError):  # a display may have any content
                figures += [base64.b64decode(image, validate=True)] if isinstance(image, str) else []
        return figures

    def write(self, kind: str, text: str) -> None:
        """Add text of a stream."""
        with self._lock:
            is_first = not self._outputs
            self._clear_if_due()
            last = self._outputs[-1] if self._outputs else None
            if not isinstance(last, _Stream) or last.kind != kind:
                last = _Stream(kind)
                if not self._add(last, 0):
                    return
            last.printed.write(text)
            last.drawn = None
        self._changed(at_once=is_first)

    def show(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str = "", *,
             is_update: bool = False) -> bool:  # fmt: skip
        """Add a display, or replace the one with that id; return False if the cell shows it instead."""
        if self._is_from_copy and _is_interactive(data):  # the user has not approved a run of the code
            data = {"text/plain": str(data.get("text/plain", ""))}
        bar = _bar_of(data)
        is_drawn = bar is not None or (self._has_widgets and bool(_widget_id(data)))
        if is_drawn:
            _free(_widget(data))
        is_elsewhere = not is_drawn and _is_interactive(data)
        output = (
            TurnOutput("note", _ELSEWHERE)
            if is_elsewhere
            else TurnOutput("display", str(data.get("text/plain", "")), data, metadata)
        )
        with self._lock:
            is_first = not self._outputs
            place = self._places.get(display_id) if display_id else None
            if is_update and place is None:
                return False
            self._clear_if_due()
            size = len(output.html)
            new = bar or output
            if place is not None and place < len(self._outputs):
                self._outputs[place] = new
            elif not is_elsewhere or output not in self._outputs[-1:]:
                if not self._add(new, size):
                    return not is_elsewhere
                if display_id:
                    self._places[display_id] = len(self._outputs) - 1
        self._changed(at_once=is_first)
        return not is_elsewhere

    def clear(self, *, wait: bool) -> None:
        """Remove all outputs. With `wait`, the next output removes them."""
        with self._lock:
            self._clears = True
            if not wait:
                self._clear_if_due()
        self._changed(at_once=False)

    def fail(self, traceback: str) -> None:
        """Add the error that ended the script."""
        with self._lock:
            self._outputs.append(TurnOutput("error", traceback))
        self._changed(at_once=False)

    def _add(self, output: _Stream | _Bar | TurnOutput, size: int) -> bool:
        if len(self._outputs) >= MOST_OUTPUTS:
            self._left_out += 1
            return False
        if not self._room(size):
            output = TurnOutput(
                "note", f"Not shown: the outputs of a turn can have at most {size_text(MOST_OF_TURN)}."
            )
        self._outputs.append(output)
        return True

    def _clear_if_due(self) -> None:
        if self._clears:
            self._clears = False
            self._outputs.clear()
            self._places.clear()
            self._left_out = 0


def _is_interactive(data: Mapping[str, Any]) -> bool:
    """Return True if a front end needs scripts to show it."""
    if any("widget-view" in kind for kind in data):
        return True
    html = data.get("text/html")
    if isinstance(html, str):
        return needs_scripts(html)
    is_still = any(kind.startswith("image/") or kind == "text/markdown" for kind in data)
    return not is_still and any(kind.startswith("application/") for kind in data)


class TurnOutputs:
    """Shows the outputs of a turn's scripts in its rows: `Scripts.shown`.

    Args:
        shell: IPython's.
        take: gets each script when it begins; False if no row runs it.
        draw: draws the turn: at once, or soon.
        has_widgets: the page of the turn draws widgets.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        take: Callable[[ScriptOutputs], bool],
        draw: Callable[..., object],
        *,
        has_widgets: bool = False,
    ) -> None:
        self._shell = shell
        self._has_widgets = has_widgets
        self._take = take
        self._draw = draw
        self._size = 0

    @contextmanager
    def __call__(self, run: ScriptRun) -> Iterator[None]:
        """Collect the output of a script during the run, and its value, its figures and its error at the end."""
        outputs = ScriptOutputs(run, self._room, self._draw, has_widgets=self._has_widgets)
        has_row = self._take(outputs)
        self._draw(at_once=True)
        if not has_row or run.backend != "kernel":  # the sandbox's text is for the model; the row has it
            yield
            return
        run.capture.watch = outputs.write
        run.capture.watch_display = lambda text, data: outputs.show({"text/plain": text, **data}, {})
        with self._displays_in(outputs):
            yield
            with captured(run.capture):
                self._show_value(run, outputs)
                if _show_figures():
                    run.drawn = []
        run.figures = outputs.figures()
        if run.error is not None:
            outputs.fail(run.error.traceback)

    def _room(self, size: int) -> bool:
        self._size += size
        return self._size <= MOST_OF_TURN

    @contextmanager
    def _displays_in(self, outputs: ScriptOutputs) -> Iterator[None]:
        """Collect the displays of this thread, except for the requests of its script."""

        def hook(message: dict[str, Any]) -> dict[str, Any] | None:
            if current_sink() is not outputs.run.capture:
                return message
            kind, content = message.get("msg_type"), message.get("content", {})
            if kind == "clear_output":
                outputs.clear(wait=bool(content.get("wait")))
                return None
            if kind not in {"display_data", "update_display_data"}:
                return message
            display_id = str(content.get("transient", {}).get("display_id") or "")
            is_shown = outputs.show(
                content.get("data", {}), content.get("metadata", {}), display_id,
                is_update=kind == "update_display_data",
            )  # fmt: skip
            return None if is_shown else message

        with displays_hooked(self._shell, hook):
            yield

    def _show_value(self, run: ScriptRun, outputs: ScriptOutputs) -> None:
        """Show the value of the last expression like a cell. A semicolon after it hides the value."""
        if run.value is None or run.script.code.rstrip().endswith(";"):
            return
        from tract_jupyter.scripts import RehearsedValue

        if isinstance(run.value, RehearsedValue):
            outputs.show({"text/plain": run.value.text, **run.value.data}, {})
            return
        formatter = self._shell.display_formatter
        if formatter is None:
            return
        data, metadata = formatter.format(run.value)
        if data:
            from IPython.display import publish_display_data

            if hasattr(self._shell.display_pub, "register_hook"):
                publish_display_data(data, metadata)
            else:
                outputs.show(data, metadata)


def _show_figures() -> bool:
    """Show the open figures like the end of a cell. Without an inline backend, do nothing and return False."""
    inline: Any = sys.modules.get("matplotlib_inline.backend_inline")
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if inline is None or pyplot is None or not pyplot.get_fignums():
        return False
    is_inline = "inline" in pyplot.get_backend()
    if is_inline:
        inline.flush_figures()
    return is_inline
