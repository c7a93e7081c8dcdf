"""The database: its tables, transactions, and the rows of each kind.

* Opening a store: `database`, `engines` (SQLite, PostgreSQL), `connections`. Errors in our words: `errors`. Damage:
  `columns`, `soundness`, and `mark`: whether the newest writes are there.
* `transaction`: short, on the thread's own connection, nestable. `interrupts`: blocks that Ctrl-C does not cut.
* `schema` has the tables. Rows: `commits`, `refs`, `tracts`, `questions`
  (pendings and decisions), `runs`; `signed` (what a user vouched for) and `journal` (what happened), both on the
  generic `rows`. Times are in `columns`, too.

Functions of rows take the caller's connection, so that a caller puts several changes and their event into one
transaction. Nothing here knows what the rows are for. Knows `models`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
