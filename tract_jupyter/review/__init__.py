"""Pendings, their decisions, and the gate that stores each decision and carries it out once.

* `pending`: a question, the fields that an approval binds to, and the actions. `field_pending`: adds typed fields.
  `introspection`: descriptions for models, forms and users. `builtin`: the package's pendings for compress, gc, merge,
  rebase, a reply and a tool result.
* Handlers and models: `bus` (routes a pending through its handlers), `firing` (approves or asks if no handler decides),
  `consulting` (a model decides through the same actions).
* `review`: inbox, decisions and grants of one tract (the part `Tract.review`).
* The content of a request: `request`; `view`, which is computed once, and written by `text` and by the notebook's
  panels; `effect_lines` (the effects of a rehearsal as lines); `display` (an approval binds to the visible lines).
* The question to the user: `reviewer`, `channel` (the protocol of a way to reach a user), `prompt`, `answers`.
* Decisions: `decision`, `gate` (every decision goes through it), `ledger` (the rows: asked, decided, begun, ended),
  `records`.
* Decisions without a question: `grants` (standing approvals), `lock` (recorded decisions, for runs without a user).
* The origin of a question: `process`, `source` (the line of code). Captured output: `streams`.
* Approvals of this user: `trust` signs, `signed_store` saves signed items, such as settings, and ignores unsigned ones.

A new channel is one async function that takes a `ReviewRequest` and returns an `Answer`, with `personal_channel` as its
decorator. Assign it to `tract.reviewer.channel`.

Knows `context`, `storage`, `models`, of `analysis` its findings, of `rehearsal` the effects, and `llm` and `prompts`
for a model that decides or replies.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
