"""Tables of what Python and well-known packages can do, symbol by symbol: data for the rules, one file per ability.

`effects` are library calls, `magics` IPython's, `known_modules` the packages whose import is unremarkable. A table is
text, because that is how it is read and extended; see `reader` for the format.
"""
