"""A context under version control: committing, compiling, finding, and rewriting history.

* `repository`: one tract's commits, branches and tags, and all that follows, in one object. `versioned`: the verbs of
  a context, which `Tract` inherits.
* Straight down: `commits` (make and read them), `writer` (the one way into a history), `timeline` (what a history
  stands for), `compile` (the messages that a model is sent), `toolsets` (the tools that it is offered), `tokens`.
* Where one is: `refs`, `tags`, `identity`, `log`, `diff`, `undo`.
* Rewriting: `merge` and `rebase`, which compare two branches (`ancestry`, `sides`); `splice`, `compress` with
  `summaries`, `tool_turns`, `gc`. Children and agents: `spawn`; what they inherit: `inheritance`, `curation`.
* `files`: attachments, read from within a workspace, and kept once.
* `verification`: is the store what it says it is?

Everything that rewrites makes a `writer.Plan` of drafts, a branch's move and an event; no other package writes commits.
Knows `storage` and `models`, and `llm` and `prompts` for summaries that a model writes.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
