"""Scripts: code that calls tools, run as a whole, with a record of what it did."""

from __future__ import annotations

from tract_jupyter.scripts.budget import Budget
from tract_jupyter.scripts.result import Output, ScriptError, ScriptResult, ScriptStatus, ToolCall

__all__ = ["Budget", "Output", "ScriptError", "ScriptResult", "ScriptStatus", "ToolCall"]
