"""Tables of what Python and well-known packages can do, symbol by symbol: data for the rules, one file per ability.

A table is text, because that is how it is read and extended; see `reader` for the format.
"""
