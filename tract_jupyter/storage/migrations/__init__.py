"""Upgrading older stores. An Alembic script directory; `versions` has one script for each version after the first.

There is no `env.py`, no ini file and no table `alembic_version`: a store says its version in `tract_meta`, once, and
`upgrade` runs the scripts that lead from there to the present. Scripts are frozen: they name tables and columns as they
were, and never use `storage.schema`, which moves on. A new store is made from `storage.schema` and runs no script.
"""

from pathlib import Path

SCRIPTS = Path(__file__).parent
