"""Orchestrators: a model that maintains a context. Policies decide when it runs; the orchestrator decides how.

* `orchestrator`: runs the orchestrator. Each run is a conversation in a separate tract, with the tools of the
  maintained context. `TractOrchestrator` saves its settings.
* `config`: the settings. `assessment`: the description of the context for the model. `toolset`: the model's tools.
* `proposals`: decisions by a user's function. `result`: the result of a run and of each call, and the end of a run
  that changes nothing.

Orchestrators use the normal loop, gate and executor. Knows `policy`, `loop`, `toolkit`, `review`, `storage`, `llm` and
`prompts`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
