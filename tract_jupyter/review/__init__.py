"""Pendings, the decisions about them, and the gate that carries each decision out once and stores it.

* `pending`: a question, the fields that an approval binds to, and the actions. `field_pending`: with typed fields.
  `introspection`: descriptions for a model, a form, a user. `builtin`: the pendings of the package: compress, gc,
  merge, rebase, a reply, an answer of a tool.
* Handlers and models: `bus` (routes a pending through its handlers), `firing` (approves or asks if no handler
  decides), `consulting` (a model decides, through the same actions).
* `review`: inbox, decisions and grants of one tract (the part `Tract.review`).
* The content of a request: `request`; `view`, computed once, and written by `text` and by the notebook's panels;
  `display` (an approval binds to the visible lines).
* Who decides, and how: `reviewer`, `channel` (the protocol of a way to reach a person), `prompt`, `answers`.
* What was decided: `decision`, `gate` (every decision goes through it), `ledger` (the rows: asked, decided, begun,
  ended), `records`.
* What decides without asking: `grants` (standing approvals), `lock` and `recorded` (for runs in which nobody can be
  asked).
* Where a question comes from: `process`, `source` (the line of code). What is printed meanwhile, and who keeps it:
  `streams`.
* What this user has approved: `trust` signs, `signed_store` keeps what is signed, and leaves unused what is not;
  `settings` are one kind of it.

A new channel is one async function of a `ReviewRequest` that returns an `Answer`, with `personal_channel` as its
decorator; `tract.reviewer.channel` holds it.

Knows `context`, `storage`, `models`, of `analysis` its findings, and `llm` and `prompts` for a model that decides or
replies.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
