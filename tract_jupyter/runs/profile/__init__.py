"""Profiles: the operations of a run, as data. Nothing here plans or runs anything (E19).

* `model`: the data. `build`: operations in one line each. `own`: a profile of the tract's operations that are part of
  each run.
* What is wrong with one: `validate` reads it and reports everything at once, `rules` look at all operations together,
  `warnings` tell what is allowed and probably not meant.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
