"""Views of runs, and the cell that makes a run.

`view` shows one, with its graph and time line (`graph`, or `stages` of many operations, from the data in `pictures`)
and its prompt (`prompt`); `page` has the parts that a profile shares with them. `cell` makes a run, and shows it while
it goes on. `preview` shows what would be sent, without a run.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
