"""Tables of what Python and well-known packages can do, symbol by symbol: data for the rules, one file per ability.

`effects` lists library calls, `magics` IPython's magics, `known_modules` the packages whose import is not a finding,
and `reading` the names that reading code may use. Tables are text, which people can read and extend. `reader` defines
the format.
"""
