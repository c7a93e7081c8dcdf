"""A script for each store version after the first: `2.py`, with `revision`, `down_revision`, `upgrade(operations)`.

There is none yet: version 1 is what `storage.schema` makes. The first script has `down_revision = None`.
"""
