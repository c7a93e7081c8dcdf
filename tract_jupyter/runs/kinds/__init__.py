"""Kinds: the work of a run's operations.

* Models: `llm`, `guard` (yes or no), with `json_output` to read the reply. Search: `rag`.
* Computing: `template`, `transform`, `compute` (a Python function).
* Acting, with the tract's own permissions: `tool`, `dynamic` (fires a dynamic operation).

`base` has the protocol, `decisions` the pendings of `dynamic` and `tool`, and `registry` the kinds: built-in, and of
other packages (entry points `tract_jupyter.run_kinds`). A kind checks an operation's `params` when a profile is saved,
and makes a function of the context that returns a value or effects.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
