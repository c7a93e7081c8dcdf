"""Scripts: code that calls tools and runs as a whole, with a record of its calls.

* `script`: the code. `runner`: runs scripts and keeps their results. `run`: one active run, with its tool calls.
  `result`: the result of a run.
* Backends: `kernel` (this process, with variables that scripts share), and `sandbox` (a separate process that reaches
  the outside only through tools). `check` finds certain errors before a script runs in the sandbox.
* `limits`: limits on calls, time and memory. `stopper`: stops a script from another thread. `call_log`: prevents a
  second run from repeating calls. `pendings`: paused scripts, and scripts that need approval.
* `tools`: the tools that let a model run scripts, and its instructions about scripts.
* `rehearsing`: rehearsals of scripts for the kernel, scripts that only look, and the third backend, a contained
  process with packages. `effects`: the effects of a copy as a result. `figures`: a script's figures for a model.

Knows `loop`, `toolkit`, `rehearsal`, `review`, `sandbox`, `storage`, `analysis`, `llm` and `prompts`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
