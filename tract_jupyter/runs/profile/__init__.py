"""Profiles: the operations of a run, as data. Nothing here plans or runs anything (E19).

* `model`: the data. `build`: operations in one line each, and the tract's operations that fire in each run.
* Problems: `validate` reads a profile and reports all problems at once, `rules` check all operations together, and
  `warnings` find settings that are allowed but probably wrong.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
