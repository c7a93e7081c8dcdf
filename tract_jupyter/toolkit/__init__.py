"""Tools: named functions with a JSON Schema, one executor for all who call them, and `tools` for code.

* `definitions`: tools. `code_identity`: the code that an approval of a tool covers. `executor`: the one way to
  run one; `call`: its steps for one call: find, permit, ask, make. `delegation`: the same for a child of another tract,
  whose tools it calls.
* `ambient`: who calls, in which turn, with which rights. `callers`: permissions, and which script a thread belongs
  to; `autonomy`: what may be called without a person. `policy`: tools that a
  policy calls. `pendings`: a call that a person is asked about. `results`: what comes of a call. `savings`: what models
  are not sent because scripts make their calls.
* `stubs`: the functions of `tools`. `names`: in Python, and for providers of models. `toolset`: the tools as a model
  has them; `profiles`: which, in which words. `discovery`: finding tools, and which are likely to be needed.
* `workspace`: which files may be attached to messages, and who may widen that.
* `built_in`: the tools that work on the context itself. `operation_tools`: `fire_NAME`. `mcp`: servers used here, and
  this store as a server.

Knows `operations`, `context`, `review`, `storage`, and `prompts` and `llm` for what models are told and say.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
