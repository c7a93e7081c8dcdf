"""Values: commits, contexts, descriptions and decisions as plain data without side effects.

* The contents of commits: `content`, with their models: `content_types`. Facts about a commit: `commit`; about a
  tract: `status`. The messages for a model: `context`, in the shapes of providers: `provider_messages`. Limits of a
  context, and of turns: `budget`.
* Named, typed values and their forms as JSON Schema, Python types and text: `schema`.
* Files and other context attached to a user message: `attachment`.
* Results of a merge, a compression or a diff: `merge`, `compression`, `diff`. The result of a turn, and its tool calls
  in the providers' shapes: `turn`. Automatic starts and autonomy levels: `trigger`. Tracts of a store, their parents
  and children: `spawn`.
* Protocols between packages, such as a client: `protocols`.
* The progress of slow work, and warnings at the caller's line: `progress`.
* Plain data read as typed values: `reading`. Canonical JSON and its hashes: `canonical`. Unknown text prepared for
  display: `text`. The changed lines of a text: `line_diff`. Checks of arguments and patterns: `checks`,
  `patterns`.
* Files that only their owner can read: `private_files`. The administrator's limits: `administrator`. The
  variables of the process that no code can change: `start_environment`.

Knows no other package, only `exceptions`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
