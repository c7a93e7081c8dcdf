"""Runs as a person sees them.

`view` shows one, with the graph (`graph`, `picture`), the prompt (`prompt`), profiles (`profiles`), and their
`%tract` commands.
"""
