"""Agents of other programs, such as Claude Code, in a turn of the tract, over the Agent Client Protocol (ACP).

* `outside`: `Tract.outside`. `agents`: the table of known agents and their settings.
* `turn`: one turn: messages become commits and events. `calls`: tool calls, joined from several messages.
  `requests`: a request of an agent as a request of the gate. `files`: diffs, and the comparison with them.
* `session`: the handshake, and the mode that asks. `process`: the program, and its messages in order. `guard`: its
  parent process, which ends it with the kernel. `traffic`: the messages on a cassette.

An agent acts with its own tools. The gate holds as far as the agent asks. Knows `loop`, `toolkit`, `review`,
`rehearsal`, `context`, `llm` and `prompts`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
