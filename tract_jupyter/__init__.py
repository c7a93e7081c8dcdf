"""Operations a model may propose, a person reviews and a notebook runs; with the LLM's context under version control.

`%load_ext tract_jupyter` puts `tract` and `tools` into a notebook. `Tract.open(path)` does the same work in a script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.doors import door

if TYPE_CHECKING:  # what type checkers and completers see; the same names as in `_HOME`
    from tract_jupyter.analysis import CodeAnalyzer
    from tract_jupyter.exceptions import RunFailedError, ToolDeniedError, ToolExecutionError, TractError
    from tract_jupyter.hooks import Pending, PendingStatus
    from tract_jupyter.llm.openai import OpenAIClient
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.content import Priority
    from tract_jupyter.models.context import CompiledContext
    from tract_jupyter.notebook.verify import Refusal, verify, verify_store
    from tract_jupyter.operations import ActionDef, OperationSpec
    from tract_jupyter.runs.engine import RunOptions
    from tract_jupyter.runs.perform import run_function
    from tract_jupyter.runs.profile import Block, OperationProfile, run_operation
    from tract_jupyter.session import Session
    from tract_jupyter.toolkit.mcp import mcp_server
    from tract_jupyter.tract import Tract

__version__ = "0.1.0"

__all__ = [
    "ActionDef",
    "Block",
    "CodeAnalyzer",
    "CommitInfo",
    "CompiledContext",
    "OpenAIClient",
    "OperationProfile",
    "OperationSpec",
    "Pending",
    "PendingStatus",
    "Priority",
    "Refusal",
    "RunFailedError",
    "RunOptions",
    "Session",
    "ToolDeniedError",
    "ToolExecutionError",
    "Tract",
    "TractError",
    "__version__",
    "load_ipython_extension",
    "mcp_server",
    "run_function",
    "run_operation",
    "unload_ipython_extension",
    "verify",
    "verify_store",
]

_HOME = {
    "ActionDef": "tract_jupyter.operations",
    "Block": "tract_jupyter.runs.profile",
    "CodeAnalyzer": "tract_jupyter.analysis",
    "CommitInfo": "tract_jupyter.models.commit",
    "CompiledContext": "tract_jupyter.models.context",
    "OpenAIClient": "tract_jupyter.llm.openai",
    "OperationProfile": "tract_jupyter.runs.profile",
    "OperationSpec": "tract_jupyter.operations",
    "Pending": "tract_jupyter.hooks",
    "PendingStatus": "tract_jupyter.hooks",
    "Priority": "tract_jupyter.models.content",
    "Refusal": "tract_jupyter.notebook.verify",
    "RunFailedError": "tract_jupyter.exceptions",
    "RunOptions": "tract_jupyter.runs.engine",
    "Session": "tract_jupyter.session",
    "ToolDeniedError": "tract_jupyter.exceptions",
    "ToolExecutionError": "tract_jupyter.exceptions",
    "Tract": "tract_jupyter.tract",
    "TractError": "tract_jupyter.exceptions",
    "mcp_server": "tract_jupyter.toolkit.mcp",
    "run_function": "tract_jupyter.runs.perform",
    "run_operation": "tract_jupyter.runs.profile",
    "verify": "tract_jupyter.notebook.verify",
    "verify_store": "tract_jupyter.notebook.verify",
}
"""Where each name is imported from when it is first used: loading the extension must stay quick."""

if not TYPE_CHECKING:  # which would take it for a promise that there is every name
    __getattr__ = door(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Load the extension: what `%load_ext tract_jupyter` calls with the `InteractiveShell`."""
    from tract_jupyter.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Unload the extension: what `%unload_ext tract_jupyter` calls with the `InteractiveShell`."""
    from tract_jupyter.notebook.extension import unload

    unload(shell)
