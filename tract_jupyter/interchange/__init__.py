"""Import and export: conversations of other programs, and notebooks.

Readers (`chat`, `notebook`) give *entries* (`entries`): dicts of keyword arguments for `Tract.commit`, in order.
`notebook` shows them as cells, too; `outputs` has the text of a cell's outputs. Nothing here opens a store, and
nothing that is read is executed. Knows only `models`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
