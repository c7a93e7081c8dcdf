"""Which lines of a traceback are a user's own."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Final

_FOREIGN: Final = (str(Path(__file__).parents[1]), os.path.dirname(os.__file__))  # noqa: PTH120 # as frames name it


def own_lines(error: BaseException) -> list[str]:
    """The frames of cells and actions: neither ours, nor those of libraries."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_FOREIGN)]
    own = [f for f in frames if "site-packages" not in f.filename]
    return [f"{_place(f)}, line {f.lineno}: {f.line or ''}" for f in own]


def _place(frame: traceback.FrameSummary) -> str:
    if frame.filename.startswith("<action:"):
        return frame.filename
    return "cell" if frame.name == "<module>" else frame.name
