"""Views of runs, and the cell that makes a run.

`view` shows a run, with the times of its operations (from the data of `pictures`) and its prompt (`prompt`).
`pictures` also has the parts that the view of a profile shares. `cell` makes a run, and shows it live.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
