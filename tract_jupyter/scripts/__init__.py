"""Scripts: code that calls tools, run as a whole, with a record of what it did."""

from __future__ import annotations

from tract_jupyter.scripts.limits import ScriptLimits
from tract_jupyter.scripts.result import ScriptOutput, ScriptError, ScriptResult, ScriptStatus, ScriptCall

__all__ = ["Budget", "Output", "ScriptError", "ScriptResult", "ScriptStatus", "ToolCall"]
