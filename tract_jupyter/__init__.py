"""Operations a model may propose, a person reviews and a notebook runs; with the LLM's context under version control.

`%load_ext tract_jupyter` puts `tract` and `tools` into a notebook. `Tract.open(path)` does the same work in a script.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Imported when first used: loading the extension must stay quick.
_HOME = {
    "ActionDef": "tract_jupyter.operations",
    "Block": "tract_jupyter.runs.profile",
    "CodeAnalyzer": "tract_jupyter.analysis",
    "CommitInfo": "tract_jupyter.models.commit",
    "CompiledContext": "tract_jupyter.models.context",
    "OpenAIClient": "tract_jupyter.llm.openai",
    "OperationSpec": "tract_jupyter.operations",
    "Pending": "tract_jupyter.hooks",
    "PendingStatus": "tract_jupyter.hooks",
    "Priority": "tract_jupyter.models.content",
    "Profile": "tract_jupyter.runs.profile",
    "Refusal": "tract_jupyter.notebook.verify",
    "RunFailedError": "tract_jupyter.exceptions",
    "RunOptions": "tract_jupyter.runs.engine",
    "Session": "tract_jupyter.session",
    "ToolDeniedError": "tract_jupyter.exceptions",
    "ToolExecutionError": "tract_jupyter.exceptions",
    "Tract": "tract_jupyter.tract",
    "TractError": "tract_jupyter.exceptions",
    "mcp_server": "tract_jupyter.toolkit.mcp.server",
    "operation": "tract_jupyter.runs.profile",
    "run_function": "tract_jupyter.runs.perform",
    "verify": "tract_jupyter.notebook.verify",
    "verify_store": "tract_jupyter.notebook.verify",
}

__all__ = [*_HOME, "__version__", "load_ipython_extension", "unload_ipython_extension"]  # noqa: PLE0604 # all are text


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext tract_jupyter` calls with the `InteractiveShell`."""
    from tract_jupyter.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext tract_jupyter` calls with the `InteractiveShell`."""
    from tract_jupyter.notebook.extension import unload

    unload(shell)
