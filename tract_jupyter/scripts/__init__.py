"""Scripts: code that calls tools, run as a whole, with a record of what it did."""

from __future__ import annotations

from tract_jupyter.scripts.limits import ScriptLimits
from tract_jupyter.scripts.result import ScriptCall, ScriptError, ScriptOutput, ScriptResult, ScriptStatus

__all__ = ["ScriptCall", "ScriptError", "ScriptLimits", "ScriptOutput", "ScriptResult", "ScriptStatus"]
