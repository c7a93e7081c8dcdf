"""The rows of the matrix: a kernel, and over which way its front end sends what panels say."""

from __future__ import annotations

import os
import sys
from enum import Enum
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping


class Row(Enum):
    """Its value: the major version of ipykernel, and whether the front end uses subshells."""

    MAIN_7 = (7, False)
    """The newest ipykernel, before a front end without subshells."""
    SUBSHELL_7 = (7, True)
    """The same before JupyterLab, which sends comm messages to a subshell."""
    MAIN_6 = (6, False)
    """The newest 6.x, which has no subshells."""

    @property
    def version(self) -> int:
        return self.value[0]

    @property
    def subshells(self) -> bool:
        return self.value[1]

    def python(self) -> str:
        """The interpreter with this row's ipykernel; the test is skipped where there is none."""
        if self.version == 7:
            return sys.executable
        python = os.environ.get("TRACT_KERNEL6_PYTHON", "")
        if not python and os.environ.get("TRACT_REQUIRE_KERNEL6"):
            pytest.fail("TRACT_KERNEL6_PYTHON is to name the python of an environment with ipykernel<7")
        if not python:
            pytest.skip("TRACT_KERNEL6_PYTHON names no python with ipykernel<7")
        return python


def on(*rows: Row | tuple[Row, str], codes: Mapping[str, str] | None = None) -> pytest.MarkDecorator:
    """Run a test on these rows; with pairs, each with its own code in the cell, by its name in `codes`."""
    if isinstance(rows[0], Row):
        return pytest.mark.parametrize("kernel", rows, ids=lambda row: row.name, indirect=True)
    pairs = [pytest.param(row, (codes or CODE)[way], id=f"{row.name}-{way}") for row, way in rows]
    return pytest.mark.parametrize(("kernel", "code"), pairs, indirect=["kernel"])


CODE = {
    "await": "p = %tract_fire write x=1 --review\nawait p",
    "block": "tools.fire_write(x=1)",
    "worker": "import asyncio\nawait asyncio.to_thread(tools.fire_write, x=1)",
}
"""The ways in which code waits for a decision."""
LATER = "p = %tract_fire write x=1 --review"
