"""The database: its tables, transactions, and the rows of each kind.

* Opening a store: `database`, `engines` (SQLite, PostgreSQL), `connections`. Errors in our words: `errors`.
  Damage: `columns`, `soundness`.
* `transaction`: short, on the thread's own connection, nestable. `interrupts`: blocks that Ctrl-C does not
  cut.
* `schema` has the tables. Rows: `commits`, `refs`, `tracts`, `questions` (pendings and decisions), `signed`
  (what a user vouched for), `journal` (what happened), `runs`.

Functions of rows take the caller's connection, so that a caller puts several changes and their event into one
transaction. Nothing here knows what the rows are for. Knows `models`.
"""
