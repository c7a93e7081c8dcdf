"""Scripts: code that calls tools, run as a whole, with a record of what it did.

* `runner`: runs scripts, and keeps what came of them. `run`: one run while it goes on. `result`: what it
  gives back.
* Where it runs: `kernel` (this process), `sandbox` (a process whose only door are the tools). Variables:
  `notebooks`.
* `calls`: its tool calls, counted and recorded. `limits`: how many it may make, and how much time
  and memory it has. `call_log`: so that a second
  run repeats none.
* `tools`: the tools by which a model runs scripts. `pendings`: a program that waits, and is gone on with.

Knows `toolkit`, `hooks`, `review`, `sandbox`, `storage`, and `prompts` for what models are told of scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.doors import door

if TYPE_CHECKING:
    from tract_jupyter.scripts.limits import ScriptLimits
    from tract_jupyter.scripts.result import ScriptCall, ScriptError, ScriptOutput, ScriptResult, ScriptStatus
else:
    __getattr__ = door(
        __name__,
        {
            "ScriptCall": "tract_jupyter.scripts.result",
            "ScriptError": "tract_jupyter.scripts.result",
            "ScriptLimits": "tract_jupyter.scripts.limits",
            "ScriptOutput": "tract_jupyter.scripts.result",
            "ScriptResult": "tract_jupyter.scripts.result",
            "ScriptStatus": "tract_jupyter.scripts.result",
        },
    )

__all__ = [
    "ScriptCall",
    "ScriptError",
    "ScriptLimits",
    "ScriptOutput",
    "ScriptResult",
    "ScriptStatus",
]
