"""Kinds: what an operation of a run does inside.

* Asking a model: `llm`, `guard` (yes or no), with `json_output` to read the reply. Searching: `rag`.
* Computing: `template`, `transform`, `compute` (a Python function).
* Acting, by the tract's own rules: `tool`, `dynamic` (fires a dynamic operation).

`base` has the protocol, `decisions` the pendings of `dynamic` and `tool`, `registry` the list: those built in, and
those of other packages (entry points `tract_jupyter.run_kinds`). A kind checks an operation's `params` when a profile
is saved, and makes a function of the context that gives a value or effects.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
