"""The tools that work on the context itself. They return plain data, as a script or a model needs it.

To add one, write a function whose first parameter is the tract, and decorate it with `context_tool`. Its type hints
describe the other parameters, its docstring is what a model is told. A new module of such functions is imported here.
"""

from __future__ import annotations

from tract_jupyter.toolkit.context_tools import changing, reading
from tract_jupyter.toolkit.context_tools.registry import context_tool, context_tools

__all__ = ["changing", "context_tool", "context_tools", "reading"]
