"""What the panel of one request and that of several have in common: the protocol with their scripts."""

from __future__ import annotations

import json
from typing import Any

import anywidget
import traitlets

CHANNEL_NAME = "panel"


class ReviewWidget(anywidget.AnyWidget):
    """One anywidget with one comm.

    Synced state: `ready` and `heard` acknowledge what the front end sent; `page` is the loading of the page that showed
    it first.
    """

    ready = traitlets.Bool(default_value=False).tag(sync=True)
    heard = traitlets.Unicode("").tag(sync=True)
    page = traitlets.Unicode("").tag(sync=True)

    def __init__(self, **state: Any) -> None:
        super().__init__(**state)
        self.on_msg(self._on_message)
        _honour_the_front_ends_subshell(self.comm)

    def take(self, content: dict[str, Any]) -> None:
        """Hand an answer on. Called in any thread, and again if the front end did not see it heard."""
        raise NotImplementedError

    def fallback(self) -> dict[str, str]:
        """HTML and text for whatever cannot show a live view."""
        raise NotImplementedError

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take no state from a page: what is shown is said here alone, and a page would pass it on to all others."""

    def _on_message(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if not isinstance(content, dict):
            return
        if content.get("type") == "ready":
            self.page = self.page or str(content.get("page", ""))
            self.ready = True
        elif content.get("type") == "decide":
            self.take(content)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The live view, with the record for whatever cannot show one."""
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), **self.fallback()}, metadata


def read_arguments(given: Any) -> dict[str, Any] | None:
    """The arguments of an answer, None if they are none. A script sends them as JSON text, as it rounds numbers."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return None
    return given if isinstance(given, dict) else None


def read_seen(content: dict[str, Any]) -> frozenset[str]:
    """The keys of what was on display, as a script reports them; none, if it does not."""
    seen = content.get("seen")
    return frozenset(key for key in seen if isinstance(key, str)) if isinstance(seen, list) else frozenset()


def _honour_the_front_ends_subshell(comm: Any) -> None:
    """Let a click reach a kernel whose main thread is blocked.

    ipykernel 7.4 sends a comm's messages to the shell that last published on it, which is the blocked one; None makes
    it use the subshell that the front end asked for. The attribute is private: without it, the probe for `ready` fails
    and the prompt takes over.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = None  # noqa: SLF001 # see above
