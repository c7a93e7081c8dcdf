"""Views of runs and profiles, and the cell that makes a run.

`view` shows one, with the graph (`graph`, `picture`), the prompt (`prompt`), profiles (`profiles`), and their
`%tract` commands.
"""
