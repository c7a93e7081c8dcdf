"""The environment variables at the start of this process. Code in a notebook cannot change them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final


def _at_start() -> dict[str, str]:
    # this module may be imported after a cell has changed os.environ; Linux keeps the first values
    try:
        data = Path("/proc/self/environ").read_bytes()
    except OSError:  # another system
        return dict(os.environ)
    entries = reversed(data.split(b"\0"))  # of two entries with one name, the first counts, as in os.environ
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return {name: value for name, _, value in pairs}


START_ENVIRONMENT: Final = _at_start()
"""The variables by name: on Linux at the start of the process, elsewhere at the import of this module."""
