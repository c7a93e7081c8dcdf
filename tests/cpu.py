"""The processor time of a block of a test."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def cpu_seconds() -> Iterator[list[float]]:
    """Append the seconds of a block to the list. No collection runs in it: its time depends on all earlier tests."""
    seconds: list[float] = []
    gc.disable()
    began = time.thread_time()
    try:
        yield seconds
    finally:
        seconds.append(time.thread_time() - began)
        gc.enable()
