"""What went wrong with a script in the sandbox, in words."""

from __future__ import annotations

import re
from typing import Any

from tract_jupyter.sandbox.errors import LACKS, Hints, explained
from tract_jupyter.scripts.result import ScriptError

_FILENAME = re.compile(r"<python-input-\d+>")
_HINTS = Hints(
    lacks=f"{LACKS}. Write it otherwise, or have a person approve it for the kernel",
    modules="Of modules it has tools, and a part of the standard library: json, re, math, datetime, collections, ...",
    closed="The sandbox has no files, no network and no environment; tools are its only way out: tools.NAME(...)",
)


def script_error(error: Any, filename: str) -> ScriptError:
    """An error of `pydantic_monty` as a script's."""
    return ScriptError(*explained(error, _FILENAME.sub(filename, error.display()), _HINTS))
