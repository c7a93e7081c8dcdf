"""Scripts: code that calls tools, run as a whole, with a record of what it did.

* `script`: the code. `runner`: runs scripts, and keeps what came of them. `run`: one run while it goes on, with its
  tool calls. `result`: what it gives back.
* Where it runs: `kernel` (this process, with the variables that scripts share), `sandbox` (a process that
  reaches the outside by tools only, after `check` has looked for certain errors).
* `limits`: how many calls it may make, and how much time and memory it has. `stopper`: ends it from another thread.
  `call_log`: keeps a second run from repeating a call. `check`: finds calls that can never work. `pendings`: a program
  that waits, and is gone on with.
* `tools`: the tools by which a model runs scripts. `instructions`: what it is told about them.
* `known`: the types of the kernel's variables, for scripts that only read.

Knows `loop`, `toolkit`, `review`, `sandbox`, `storage`, `analysis`, `llm` and `prompts`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
