"""Agents that are made, called and refined while the notebook runs.

* `definition`: what an agent is, as data. `file`: `.agent` files. `findings`: what to notice in their text.
* `agents`: `Tract.agents`. `making`: making and changing one, and who may. `registry`: agents and calls, and what the
  store keeps of them. `tools`: the tools that make and call them. `details`: what a person is shown before an agent is
  made. `adoption`: the question about a file.
* `running`: a call: one turn of the tool loop, in a tract of its own. `rights`: what it may call. `budgets`: what it
  may take.

The loop, the gate and the executor are those that everybody uses. Knows `loop`, `toolkit`, `review`,
`analysis`, `llm` and `prompts`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
