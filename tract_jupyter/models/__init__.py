"""Values: what is committed, compiled, described and decided. Plain data without side effects.

* What a commit holds: `content`. What is known of a commit: `commit`. What a model is sent: `context`.
* Named, typed values and their forms, as JSON Schema, as Python types, as text: `schema`.
* What a merge, a compression or a diff finds: `merge`, `compression`, `diff`. Tool calls in the providers'
  shapes: `toolcall`.
* Canonical JSON and the hashes made of it: `canonical`. Unknown text made fit to be shown: `text`.

Knows no other room, only `exceptions` and `protocols`.
"""
