"""Hostile templates: each is read and rendered within a second."""

from __future__ import annotations

import gc
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Row
from tests.runs.templates.hostile import DATA, FILTERS, TEMPLATES, in_a_loop
from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_MS = 1_000.0


def rows() -> Iterator[Row]:
    """The slowest template of 100,000 characters, and the slowest filter on much data."""
    slowest = max(_seconds(source, DATA) for source in TEMPLATES)
    yield Row(f"the slowest of {len(TEMPLATES)} hostile templates of up to 100 kB", slowest, "ms", _MOST_MS)
    slowest = max(_seconds(in_a_loop(filters), {"value": value}) for filters, value in FILTERS)
    yield Row(f"the slowest of {len(FILTERS)} filters on large values, in a loop", slowest, "ms", _MOST_MS)


def _seconds(source: str, data: Mapping[str, Any]) -> float:
    gc.collect()
    started = time.process_time()
    with suppress(TemplateError):
        parse(source).render(data)
    return time.process_time() - started
