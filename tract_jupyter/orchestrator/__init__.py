"""Orchestrators: a model looks after a context; policies decide when, an orchestrator decides how.

* `orchestrator`: a run: it chats in a tract of its own, with the tools of the tract that it looks after. `own`:
  `Tract.orchestrator`, whose settings are saved.
* `config`: the settings. `assessment`: what the model is told about the context. `toolset`: the tools as it has them.
* `proposals`: calls that are decided about by a person's function. `steps`: what came of each call, and when a run ends
  since nothing changes. `result`: what came of a run.

The loop, the gate and the executor are those that everybody uses. Knows `policy`, `loop`, `toolkit`, `review`, `llm`
and `prompts`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
