"""The kernel as an MCP server for agents of other programs.

`endpoint` serves the notebook's tract over HTTP on this machine, and `lane` runs approved code in line with the user's
cells.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
