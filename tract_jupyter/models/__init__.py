"""Values: commits, contexts, descriptions and decisions as plain data without side effects.

* The contents of commits: `content`. Facts about a commit: `commit`; about a tract: `status`. The messages for a
  model: `context`, in the shapes of providers: `provider_messages`; the limit of their size: `budget`.
* Named, typed values and their forms as JSON Schema, Python types and text: `schema`.
* Files of a user message: `attachment`.
* Results of a merge, a compression or a diff: `merge`, `compression`, `diff`. Tool calls in the providers' shapes:
  `toolcall`. The result of a turn: `turn`; its limits: `allowance`; autonomy levels: `autonomy`; automatic starts:
  `trigger`. Tracts of a store, their parents and children: `spawn`.
* The status of a decision: `pending`. Protocols between packages, such as a client: `protocols`.
* The progress of slow work: `progress`.
* Context attached to a user message: `sent_context`.
* Plain data read as typed values: `reading`. Canonical JSON and its hashes: `canonical`. Unknown text prepared for
  display: `text`. Checks of arguments and patterns: `checks`, `patterns`. Warnings at the caller's line: `warning`.
* Files that only their owner can read: `private_files`.

Knows no other package, only `exceptions`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
