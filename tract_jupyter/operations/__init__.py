"""Dynamic operations: fields and actions as data. The user reviews them before any of their code runs.

* `spec`: the data. `check`: its validation. `advice`: the analysis of its code, and the abilities of its
  code in a sentence.
* `rehearsal`: runs its code on drawn values, in the sandbox or in contained copies of the kernel. `writing`: lets a
  model write one.
* `activation`: the requests to activate an operation or a handler. `lifecycle`: all operations of a tract: stored,
  active, quarantined.
* `registry`, `action` and `sandboxed`: the classes and functions for an approved spec. `pending`: the base class of
  fired operations.
* `handlers`: the handlers of a tract (`Tract.hooks`), also stored ones, with the same review. `rebuilding`: pendings
  of other processes, decided in this one.

Knows `review`, `context`, `storage`, `analysis`, `sandbox` for sandboxed actions, `rehearsal` for kernel code, and
`llm` and `prompts` for a model that writes an operation.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
