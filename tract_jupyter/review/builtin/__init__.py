"""The pendings of the package's operations.

* `verbs`: the methods compress, merge, rebase and gc. `history`: their pendings.
* One pending for each other decision: `generation` (a model's reply), `tool_result` (a tool's answer).
* `base`: their base classes. `stored`: validates fields from a store, which may hold anything.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
