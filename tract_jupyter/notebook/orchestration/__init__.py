"""The cell `%tract_orchestrate`: a run of an orchestrator, shown while it goes on, and drawn again from the store.

A run is a turn of the orchestrator's own tract, and is shown as one: `chat` has the rows, the live page and the static
one. `parts` has the additional rows of a run, and `log` adds them to the log of a turn. `source` reads runs from the
store. `cell` reads the line and carries a run out.
"""
