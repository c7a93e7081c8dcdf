"""Agents that the user or a model creates, calls and improves while the notebook runs.

* `definition`: an agent as data. `file`: `.agent` files.
* `agents`: `Tract.agents`. `making`: creation, changes and their permission checks. `registry`: agents, calls and
  their stored records. `tools`: the tools that create and call agents. `details`: the details of an agent that the
  user reviews. `adoption`: the request to adopt a file.
* `running`: runs a call as one turn of the tool loop, in a separate tract. `outside_call`: the same for an agent that
  runs on an outside agent. `rights`: the tools that an agent may call.

Agents use the same loop, gate and executor as everything else. Knows `loop`, `toolkit`, `review`,
`analysis`, `llm` and `prompts`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
