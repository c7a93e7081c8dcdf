"""The cell `%tract_orchestrate`: a run of an orchestrator, live and from the store.

A run is a turn of the orchestrator's own tract and looks like one: `chat` has the rows, the live page and the static
page. `log` adds the rows that only a run has, and reads runs from the store. `cell` parses the line and executes the
run.
"""
