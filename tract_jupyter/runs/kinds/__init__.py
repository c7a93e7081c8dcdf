"""Kinds: what an operation of a run does inside.

`base` has the protocol, `registry` the list: those built in, and those of other packages (entry points
`tract_jupyter.run_kinds`). A kind checks an operation's `params` when a profile is saved, and makes a
function of the context that gives a value or effects.
"""
