"""Dynamic operations: fields and actions as data, which a person reviews before any of their code runs.

* `spec`: the data. `check`: what must hold before anything is made of it. `advice`: what the analysis says of
  its code. `abilities`: what the code can do, in a sentence.
* `rehearsal`: what its code does in the sandbox on drawn values. `writing`: having a model write one.
* `activation`: the question whether it becomes active. `lifecycle`: all operations of a tract, stored, active,
  quarantined.
* `registry` and `action`: the classes and functions that are made of an approved spec. `pending`: what firing
  one makes.
* `hooks`: the handlers of a tract (the part `Tract.hooks`). `handlers`: saved ones, which go the same way.
  `rebuilding`: a pending of another process, decided here.

Knows `review`, `context`, `storage`, `analysis`, `sandbox` for actions that run there, and `llm` and
`prompts` for a model that writes one.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
