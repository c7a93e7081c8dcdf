"""The database: tables, transactions, and rows.

* Opening a store: `database`, `engines` (SQLite, PostgreSQL), `connections`. Errors: `errors`.
* Detecting damage: `columns`, `soundness`, and `mark` (lost writes).
* Transactions: `transaction` (short, one per thread, nestable). `interrupts` delays Ctrl-C until the end of a block.
* Tables: `schema`. Rows: `commits`, `refs`, `tracts`, `questions` (pendings and decisions) and `runs`. `signed` (rows
  with a user's signature) and `journal` (append-only rows) are based on `rows`. `columns` also converts times.

Row functions take the caller's connection. The caller can therefore write several changes and their event in one
transaction. This package does not interpret the rows. Knows `models`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
