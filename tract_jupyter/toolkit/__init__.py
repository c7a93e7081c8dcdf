"""Tools: named functions with a JSON Schema, one executor for all callers, and `tools` for code.

* `definitions`: tools. `code_identity`: the code that an approval of a tool covers. `executor`: runs every tool call.
  `call`: the executor's steps for one call (find, permit, ask, make). `delegation`: the link from a child tract to
  the parent tract whose tools it calls.
* `ambient`: the caller, the turn and the rights of the running call. `callers`: permissions, and the script that a
  thread belongs to. `autonomy`: calls that need no approval. `policy`: tools that a policy calls. `pendings`: the
  request about a call. `results`: the result of a call. `savings`: the tokens that scripts save.
  `recorded`: the effects of turns outside of the context, for their undo.
* `stubs`: the functions of `tools`. `names`: tool names in Python and for model providers. `toolset`: the tools in
  the form that a model receives. `profiles`: the selection and descriptions of these tools. `discovery`: search, and
  a ranking by likely need.
* `workspace`: the files that may be attached to messages, and the right to add more.
* `built_in`: the tools that work on the context. `operation_tools`: `fire_NAME`. `mcp`: clients for MCP servers, and
  this store as a server.

Knows `operations`, `context`, `review`, `storage`, and for the texts and replies of models `prompts` and `llm`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
