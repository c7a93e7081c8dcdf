"""The command of `%tract` that tells the user elsewhere that a request waits."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.commands.command import Command, option
from tract_jupyter.notebook.notify import AFTER, NotifySettings, check_typed
from tract_jupyter.notebook.views.html import GridView

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession

_USAGE: Final = "notify [URL ... | off] [--type] [--test] [--after SECONDS] [--content]"


def _notify(notebook: NotebookSession, words: list[str]) -> GridView:
    notifier = notebook.notifier
    is_test, words = option(words, "--test")
    is_typed, words = option(words, "--type")
    has_content, words = option(words, "--content")
    after, words = _after(words)
    if words == ["off"]:
        notifier.settings = NotifySettings()
    elif words or is_typed or has_content or after is not None:
        check_typed(words)
        typed = _type_addresses() if is_typed else []
        addresses = (*words, *typed) or notifier.settings.addresses
        notifier.settings = NotifySettings(addresses, AFTER if after is None else after, has_content)
    if is_test:
        notifier.send("Test of tract_jupyter", "Requests of your notebook are announced here.")
    return GridView("Notifications", (*notifier.describe(), *(["The test was sent."] if is_test else [])))


def _after(words: list[str]) -> tuple[float | None, list[str]]:
    if "--after" not in words:
        return None, words
    at = words.index("--after")
    try:
        seconds = float(words[at + 1])
    except (IndexError, ValueError):
        seconds = -1.0
    if not 0 <= seconds <= 86_400:  # noqa: PLR2004 # a day
        raise OperationError(f"--after needs a number of seconds up to 86,400. Usage: %tract {_USAGE}")
    return seconds, [*words[:at], *words[at + 2 :]]


def _type_addresses() -> list[str]:
    """Ask for addresses in a field that shows nothing."""
    try:
        return getpass.getpass("Addresses, separated by spaces: ").split()
    except Exception:  # noqa: BLE001 # each front end without input raises another error
        raise OperationError("no user is available to type an address. Nothing was changed") from None


COMMANDS = (
    Command(
        _USAGE, "send a message to your phone, chat or mail if a request waits", _notify,
        ("off", "--type", "--test", "--after", "--content"),
    ),
)  # fmt: skip
