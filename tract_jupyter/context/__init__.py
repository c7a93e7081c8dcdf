"""A context under version control: commit, compile, search, and rewrite history.

* Entry points: `repository` (one tract's commits, branches and tags, in one object) and `versioned` (the methods that
  `Tract` inherits).
* Commits to messages: `commits` (create and read), `writer` (the only way to add commits), `timeline` (a history and
  its state), `compile` (the messages for a model), `toolsets` (the tools for a model), `tokens`.
* Navigation: `refs`, `tags`, `identity`, `log`, `diff`, `undo`.
* Rewriting: `merge` and `rebase` (which compare branches with `ancestry` and `sides`), `splice`, `compress` with
  `summaries`, `tool_turns`, `gc`.
* Children and agents: `spawn`.
* `files`: attachments from a workspace. `verification`: checks of all hashes and links of a store.

Each rewrite creates a `writer.Plan`: drafts, a branch move and an event. No other package writes commits. Knows
`storage` and `models`, and `llm` and `prompts` for summaries by a model.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
