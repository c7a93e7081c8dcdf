"""The SDK of the Model Context Protocol, which is an extra."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import (
    McpStartError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needing_sdk() -> Iterator[None]:
    """Say how to install it, where an import within this does not find it.

    Raises:
        McpStartError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise McpStartError(
            f"MCP needs a package that is not installed ({error.name}): "
            "python -m pip install 'tract_jupyter[mcp]'"
        ) from None
