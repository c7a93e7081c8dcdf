"""Runs: operations around a model's call, executed in parallel, committed in one order, on record as events.

* What there is: `model`, `terms`, `profile` (the operations of a run, as data), `kinds` (what an operation
  does inside), `templates`.
* Who begins one: `service` (the part `Tract.runs`), `generation` (a reply with or without a profile), `turns`
  (who answers on a branch).
* What happens: `run` (the loop), `engine` (what its steps work with), `activation`, `plan`, `schedule` (who may
  start; pure), `execute`, `workers`, `perform`, `deciding`.
* What comes of it: `effects`, `commit`, `prompt`, `turn`, `artifacts`, `targets`.
* What is kept: `events` (the truth), `log`, `projection`, `store`, `lease`, `replay`, `root_hash`.

A code such as R53 or G20 in a docstring is a rule: the table at the end of `docs/runs.md` says each in a sentence, with
the tests that hold it.

What runs in another process (`kinds`, `templates`, `perform`) is given plain data and no tract. Knows
`toolkit`, `llm`, `hooks`, `review`, `context`, `storage`.
"""
