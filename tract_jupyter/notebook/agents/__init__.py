"""Agents in the notebook: the tree of them, live; one by hand in a cell; one taken over from a file.

`watch` takes what agents do as it comes, for the tree and for the rows of a turn that calls them. `tree` is how all of
them stand, a value that is drawn; `live` has it on display, and follow. `cell` is `%%tract_agent`, `resume` goes on
with a call.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
