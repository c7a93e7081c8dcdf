"""The command of `%tract` that tells the user elsewhere that a request waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.commands.command import Command, hidden_input, option, option_value
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
        typed = (
            hidden_input("Addresses, separated by spaces", "Nothing was changed").split() if is_typed else []
        )
        addresses = (*words, *typed) or notifier.settings.addresses
        notifier.settings = NotifySettings(addresses, AFTER if after is None else after, has_content)
    if is_test:
        notifier.send("Test of tract_jupyter", "Requests of your notebook are announced here.")
    return GridView("Notifications", (*notifier.describe(), *(["The test was sent."] if is_test else [])))


def _after(words: list[str]) -> tuple[float | None, list[str]]:
    value, others = option_value(words, "--after")
    if value is None:
        return None, words
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:  # noqa: PLR2004 # a day
        raise OperationError(f"--after needs a number of seconds up to 86,400. Usage: %tract {_USAGE}")
    return seconds, others


COMMANDS = (
    Command(
        _USAGE, "send a message to your phone, chat or mail if a request waits", _notify,
        ("off", "--type", "--test", "--after", "--content"),
    ),
)  # fmt: skip
