"""Runs: operations around a model's call, executed in parallel, committed in one order, and recorded as events.

* Data: `model`, `terms`, `reading` (JSON from outside), `profile` (the operations of a run), `kinds` (the work of
  operations), `templates`.
* Entry points: `service` (the part `Tract.runs`), `preview` (a run without requests).
* Execution: `engine` (a run from start to end), `main_call`, `activation`, `plan`,
  `schedule` (which operation may start; pure), `coordinator`, `workers`, `attempt`.
* Effects: `effect_types` and `effects` (data and checks), `commit_queue`, `prompt`,
  `turn`, `artifacts`, `targets`.
* Costs: `costs` (the part `Tract.costs`). The same conversation with another model or prompt: `forks`.
* Records: `events` (the source of truth, and the endings of a run), `log`, `projection` (runs from events, root hash),
  `store`, `verification` (damage, replay).

A code such as R53, G20, E14 or X04 in a docstring is a rule. The table at the end of `docs/runs.md` states each rule
in a sentence, with its tests.

Code that runs in another process (`kinds`, `templates`, `attempt`) receives plain data and no tract. Knows `loop`,
`toolkit`, `llm`, `review`, `context` and `storage`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
