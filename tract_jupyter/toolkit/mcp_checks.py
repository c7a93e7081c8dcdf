"""What can be wrong with the description of an MCP server, before it is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import McpError
from tract_jupyter.hooks.dynamic.check import TOOL_PREFIX
from tract_jupyter.models.text import brief_repr
from tract_jupyter.toolkit.names import HELPERS, python_name

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_NAME: Final = 64


def check_server(name: str, command: Sequence[str] | None, url: str | None) -> None:
    """Check what a server is called, and how it is reached.

    Raises:
        McpError: the name is none, or there is not either a command or a URL.
    """
    _check_name(name)
    if (command is None) == (url is None):
        raise McpError(f"MCP server {name!r} needs either a command or a url")
    if url is not None and not str(url).startswith(("http://", "https://")):
        raise McpError(
            f"the url of MCP server {name!r} must begin with http:// or https://, got {brief_repr(url)}"
        )
    if command is not None and not (_is_list(command) and all(isinstance(word, str) for word in command)):
        raise McpError(
            f"the command of MCP server {name!r} must be a list of texts, the program first; shlex.split makes one of "
            f"a line of a shell. Got {brief_repr(command)}"
        )


def check_limits(name: str, **limits: float) -> None:
    """Check the bounds of a server.

    Raises:
        McpError: one is no number above 0.
    """
    for option, value in limits.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise McpError(
                f"{option} of MCP server {name!r} must be a number above 0, got {brief_repr(value)}"
            )


def checked_texts(name: str, option: str, given: Mapping[str, str] | None) -> dict[str, str]:
    """What an option says by name.

    Raises:
        McpError: it is no dict of texts.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(
        isinstance(word, str) for item in given.items() for word in item
    ):
        # without the values, which may be secrets
        raise McpError(
            f"{option} of MCP server {name!r} must be a dict of texts, such as {{'NAME': 'value'}}"
        )
    return dict(given)


def _check_name(name: str) -> None:
    is_name = isinstance(name, str) and name == python_name(name) and len(name) <= _LONGEST_NAME
    # models are given NAME_tool
    if not is_name or name in HELPERS or f"{name}_".startswith(("_", TOOL_PREFIX)):
        raise McpError(
            f"{brief_repr(name)} cannot be the name of an MCP server. Its tools are at tools.NAME, so it must be a "
            f"Python name of at most {_LONGEST_NAME} characters that does not begin with '_' or {TOOL_PREFIX!r}, and "
            f"none of {', '.join([*HELPERS, TOOL_PREFIX.rstrip('_')])}"
        )


def _is_list(command: Sequence[str]) -> bool:
    return isinstance(command, list | tuple) and bool(command)
