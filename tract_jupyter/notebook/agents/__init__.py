"""Agents in the notebook: the live tree of agents, a cell that defines one, and the resuming of calls.

`watch` collects the events of agents, for the tree and for the rows of a turn. `tree` draws the state of all agents,
and `live` keeps it up to date in an output, and resumes a call. `cell` is `%%tract_agent`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
