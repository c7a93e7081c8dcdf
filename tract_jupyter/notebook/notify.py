"""Messages outside the notebook: "a request waits", through apprise. Deciding stays in the notebook.

A message names the notebook and the kind of the request, never its content, unless the user asks for it. A thread
sends the message after some seconds, unless the request is decided by then. Addresses contain secrets, so only their
scheme is shown.
"""

from __future__ import annotations

import contextvars
import logging
import os
import re
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from tract_jupyter.exceptions import AdminLimitError, OperationError
from tract_jupyter.models import counted, cut, one_line
from tract_jupyter.notebook.output import start_timer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.review import Ticket

ADDRESSES: Final = "TRACT_JUPYTER_NOTIFY"
"""The environment variable with addresses, separated by spaces."""
LINK: Final = "TRACT_JUPYTER_NOTIFY_LINK"
"""The environment variable with the link of each message, if the server has another address from outside."""
AFTER: Final = 30.0
"""Seconds that a request waits before its message."""
INSTALL: Final = 'pip install "tract_jupyter[notify]"'
_KIND: Final = 60
_TITLE: Final = 200


class NotifySettings(NamedTuple):
    """The settings of one kernel. They are never stored. `has_content` adds the titles of requests to messages."""

    addresses: tuple[str, ...] = ()
    after: float = AFTER
    has_content: bool = False


class Notifier:
    """Tells the user elsewhere that requests of this kernel wait."""

    def __init__(self, notebook: NotebookSession) -> None:
        self._notebook = notebook
        self._settings: NotifySettings | None = None
        self._waiting: dict[str, Ticket] = {}
        """The open requests that no message has named."""
        self._timer: threading.Timer | None = None
        self._has_failed = False
        self._lock = threading.Lock()

    @property
    def settings(self) -> NotifySettings:
        """The settings of `%tract notify`, or of the environment."""
        if self._settings is not None:
            return self._settings
        return NotifySettings(tuple(os.environ.get(ADDRESSES, "").split()))

    @settings.setter
    def settings(self, settings: NotifySettings) -> None:
        """Use other settings. Raises `OperationError` if an address is not valid or apprise is missing."""
        if settings.addresses:
            _check_limits()
            _service(settings.addresses)
        self._settings, self._has_failed = settings, False

    def take(self, ticket: Ticket) -> None:
        """Note a new request, or a change of one."""
        pending_id = ticket.pending.pending_id
        with self._lock:
            if not ticket.status.is_open:
                self._waiting.pop(pending_id, None)
                return
            if not self.settings.addresses or self._notebook.front_end.is_headless:
                return
            self._waiting.setdefault(pending_id, ticket)
            if self._timer is None:
                context = contextvars.copy_context()  # a line about a failure goes to this cell
                self._timer = start_timer(self.settings.after, context.run, self._send_waiting)

    def close(self) -> None:
        """Send nothing any more."""
        with self._lock:
            self._settings = NotifySettings()
            self._waiting.clear()
            if self._timer is not None:
                self._timer.cancel()

    def _send_waiting(self) -> None:
        with self._lock:
            self._timer = None
            tickets = [ticket for ticket in self._waiting.values() if ticket.status.is_open]
            self._waiting.clear()
        if not tickets:
            return
        try:
            self.send(*self._message(tickets))
            self._has_failed = False
        except (OperationError, AdminLimitError) as error:
            self._tell_failure(one_line(str(error), _TITLE))
        except Exception as error:  # noqa: BLE001 # a service can raise anything, and a turn must not fail
            self._tell_failure(f"{type(error).__name__} in {_schemes(self.settings.addresses)}")

    def _tell_failure(self, reason: str) -> None:
        """Print the first failure of several, in the cell of its request."""
        if not self._has_failed:
            self._has_failed = True
            print(f"No notification was sent: {reason}", file=sys.stderr)  # noqa: T201 # in its cell

    def send(self, title: str, body: str) -> None:
        """Send a message, and wait for the answers of the services."""
        _check_limits()
        addresses = self.settings.addresses
        if not addresses:
            raise OperationError(f"no address is set. Use %tract notify URL, or the variable {ADDRESSES}")
        if not _service(addresses).notify(title=title, body=body):
            raise OperationError(
                f"{_schemes(addresses)} did not take the message. %tract notify --test tries again"
            )

    def _message(self, tickets: list[Ticket]) -> tuple[str, str]:
        name = one_line(self._notebook.notebook_name or "a notebook", _TITLE)
        kinds = sorted({_kind(ticket) for ticket in tickets})
        title = (
            "A request waits for you"
            if len(tickets) == 1
            else f"{counted(len(tickets), 'request')} wait for you"
        )
        lines = [f"{name}: {', '.join(kinds)}"]
        if self.settings.has_content:
            lines += [one_line(ticket.request.title, _TITLE) for ticket in tickets]
        link = os.environ.get(LINK, "") or link_to(self._notebook.path)
        return title, "\n".join([*lines, *([link] if link else []), "Decide it in the notebook."])

    def describe(self) -> tuple[str, ...]:
        """Return the settings as lines, with schemes instead of addresses."""
        settings = self.settings
        if not settings.addresses:
            return ("Off. %tract notify URL tells you elsewhere that a request waits.",)
        content = "the titles of requests" if settings.has_content else "no content of requests"
        return (
            f"{_schemes(settings.addresses)}, if a request waits for {settings.after:g} s; with {content}.",
        )


def _check_limits() -> None:
    from tract_jupyter.models import admin_limits  # `%load_ext` imports no pydantic

    admin_limits().check_notifications()


def has_apprise() -> bool:
    """Return True if the extra is installed. This imports nothing."""
    return find_spec("apprise") is not None


def _service(addresses: tuple[str, ...]) -> Any:
    if not has_apprise():
        raise OperationError(f"notifications need apprise: {INSTALL}")
    import apprise

    logger = logging.getLogger("apprise")  # its lines have addresses
    logger.handlers, logger.propagate = [logging.NullHandler()], False
    service = apprise.Apprise()
    for number, address in enumerate(addresses, 1):
        if not service.add(address):
            raise OperationError(
                f"address {number} ({_schemes([address])}) is not a URL of apprise, such as mailto://USER:PASSWORD@HOST"
            )
    return service


def check_typed(addresses: Sequence[str]) -> None:
    """Check that addresses have nothing that apprise hides in its own output, because a notebook saves them."""
    for service in _service(tuple(addresses)) if addresses else ():
        if service.url(privacy=True) != service.url():
            raise OperationError(
                f"the address {_schemes([service.url()])} has a secret, which the notebook would save. Remove it from "
                "the line, and revoke it at the service. Nothing was changed; %tract notify --type asks for an address"
            )


def _schemes(addresses: tuple[str, ...] | list[str]) -> str:
    """Return the schemes of addresses. The rest can be a secret."""
    return ", ".join(
        f"{one_line(scheme, 20)}://…" if colon and scheme.isalnum() else "an address"
        for scheme, colon, _ in (address.partition("://") for address in addresses)
    )


def _kind(ticket: Ticket) -> str:
    """Return the name of the tool or operation. A server can choose a name with a link, so the link is broken."""
    pending = ticket.pending
    tool = getattr(pending, "tool_name", "")
    server, dot, name = str(tool or pending.operation).partition(".")
    return cut(server + dot + re.sub(r"\W", "_", name), _KIND)


def link_to(path: Path | None) -> str:
    """Return the address of a notebook on a Jupyter server of this user; empty if no server has it.

    The link is without the token of the server.
    """
    if path is None:
        return ""
    from jupyter_core.paths import jupyter_runtime_dir

    from tract_jupyter.toolkit import jupyter_servers

    for server in jupyter_servers(Path(jupyter_runtime_dir())):
        with suppress(ValueError, KeyError, TypeError):
            inside = path.relative_to(server["root_dir"])
            return f"{server['url'].rstrip('/')}/lab/tree/{quote(inside.as_posix())}"
    return ""
