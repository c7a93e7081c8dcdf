"""The pendings that come with the package.

* `verbs`: the methods compress, merge, rebase and gc. `history`: their pendings.
* A pending for each other decision: `generation` (a model's reply), `tool_result` (an answer of a tool).
* `base`: what they share. `stored`: reading one back from a store that may hold anything.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
