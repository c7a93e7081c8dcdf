"""Every text that the package itself sends to a model, and nothing else.

A module for each occasion: `tool_descriptions`, `tool_calls`, `turns` (calls that were not made), `summaries`,
`operations` (writing one), `orchestrator` (its task, and what it may say beside a call), and `replies` (decisions,
and replies that were not good enough). No logic, and no other package: the code that sends a text imports it
from here.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
