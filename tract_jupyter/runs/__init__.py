"""Runs: operations around a model's call, executed in parallel, committed in one order, on record as events.

* What there is: `model`, `terms`, `reading` (JSON from outside), `profile` (the operations of a run, as data),
  `kinds` (what an operation does inside), `templates`.
* The beginning: `service` (the part `Tract.runs`), `preview` (a run without requests).
* What happens: `engine` (a run from beginning to end), `main_call`, `run` (how a run ends), `activation`, `plan`,
  `schedule` (which operation may start; pure), `coordinator`, `workers`, `attempt`.
* What comes of it: `effect_types` and `effects` (data, and its check), `patterns` (what is replaced or taken out),
  `commit_queue`, `prompt`, `turn`, `artifacts`, `targets`.
* What it costs: `costs` (the part `Tract.costs`). The same conversation with another model or prompt: `forks`.
* What is kept: `events` (the truth), `log`, `projection` (what they tell, root hash), `store`,
  `verification` (damage, replay).

A code such as R53, G20, E14 or X04 in a docstring is a rule: the table at the end of `docs/runs.md` says each in a
sentence, with the tests that hold it.

What runs in another process (`kinds`, `templates`, `attempt`) is given plain data and no tract. Knows `loop`,
`toolkit`, `llm`, `review`, `context`, `storage`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
