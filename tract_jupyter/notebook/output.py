"""An output of a cell that is replaced in place, timers for outputs, and hooks of displays."""

from __future__ import annotations

import secrets
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from IPython.display import display, update_display

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from IPython.core.interactiveshell import InteractiveShell


class CellOutput:
    """An output of a cell. The first `put` displays it, and each later one replaces it."""

    def __init__(self) -> None:
        self.display_id = secrets.token_hex(16)
        self.is_shown = False

    def put(self, content: Any, *, raw: bool = False) -> None:
        """Show the content. With `raw`, it is a mime bundle."""
        show = update_display if self.is_shown else display
        show(content, raw=raw, display_id=self.display_id)
        self.is_shown = True


def replace_widget(widget: Any, bundle: dict[str, str], display_id: str) -> None:
    """Replace a widget by a mime bundle.

    A reloaded page does not know the display id of a saved output. The extension of the page finds it by the widget.
    """
    transient = {"tract_widget": str(widget.model_id)}
    update_display(bundle, raw=True, display_id=display_id, transient=transient)


def start_timer(seconds: float, run: Callable[..., object], *arguments: Any) -> threading.Timer:
    """Start a timer that does not keep the process alive."""
    timer = threading.Timer(seconds, run, arguments)
    timer.daemon = True
    timer.start()
    return timer


@contextmanager
def displays_hooked(
    shell: InteractiveShell, hook: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> Iterator[None]:
    """Pass each display message of this thread to a hook, which returns it or None. A terminal has no messages."""
    publisher: Any = shell.display_pub
    if not hasattr(publisher, "register_hook"):
        yield
        return
    publisher.register_hook(hook)
    try:
        yield
    finally:
        publisher.unregister_hook(hook)
