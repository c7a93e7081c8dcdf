"""Values: what is committed, compiled, described and decided. Plain data without side effects.

* What a commit holds: `content`. What is known of a commit: `commit`; of a whole tract: `status`. What a model is
  sent: `context`, in the shapes of providers: `provider_messages`; how large that may become: `budget`.
* Named, typed values and their forms, as JSON Schema, as Python types, as text: `schema`.
* What a message of the user carries beside its text: `attachment`.
* What a merge, a compression or a diff finds: `merge`, `compression`, `diff`. Tool calls in the providers' shapes:
  `toolcall`. How a turn of a model ends, and its result: `turn`; its limits: `allowance`; how much happens
  without a person: `autonomy`; when something starts by itself: `trigger`. Tracts of a store, their parents and
  children: `spawn`.
* How far a decision is: `pending`. What packages pass on without knowing it, such as a client: `protocols`.
* How far something is that takes its time: `progress`.
* What is sent beside a message of the user: `sent_context`.
* Plain data read as typed values: `reading`. Canonical JSON and the hashes made of it: `canonical`. Unknown text made
  fit to be shown: `text`. Checks of arguments and patterns: `checks`, `patterns`. Warnings at the line of
  whoever calls: `warning`.
* Files that only their owner can read: `private_files`.

Knows no other package, only `exceptions`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
