"""Agents in the notebook: the live tree of agents, a cell that defines one, and the resuming of calls.

`live` collects the events of agents, for the rows of a turn and for the tree, which it keeps up to date in an output.
It also resumes a call. `tree` draws the state of all agents. `cell` is `%%tract_agent`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
