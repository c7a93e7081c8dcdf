"""Tables of what Python and well-known packages can do, symbol by symbol: data for the rules, one file per ability.

`effects` are library calls, `magics` IPython's, `known_modules` the packages whose import is unremarkable, `reading`
what code may use if it only reads. A table is text, so that people can read and extend it; see `reader` for the format.
"""
