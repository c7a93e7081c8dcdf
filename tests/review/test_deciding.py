"""Blocks of `deciding` record who decides, and do not protect their code from a stop."""

from tests.storage.stopped import can_be_stopped
from tract_jupyter.review import deciding


def test_code_that_decides_can_be_stopped():
    assert can_be_stopped(deciding("code", "ada"))
