"""The worker processes of a tract."""

from __future__ import annotations

import sys

import pytest

from tract_jupyter.exceptions import NoSandboxError
from tract_jupyter.sandbox import SandboxPool


def test_a_pool_opens_once_and_can_be_opened_again_after_close():
    pool = SandboxPool()
    first = pool.opened()
    assert pool.opened() is first
    with first.checkout() as session:
        assert session.feed_run("1 + 1") == 2
    pool.close()
    pool.close()
    assert pool.opened() is not first
    pool.close()


def test_scripts_and_actions_share_it(tract):
    assert tract.scripts.run("1 + 1", backend="sandbox").value == 2
    assert tract.sandboxes.opened() is tract.sandboxes.opened()


def test_without_the_extra_the_error_says_how_to_install_it(tract, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(NoSandboxError, match=r"pip install 'tract_jupyter\[sandbox\]'"):
        tract.scripts.run("1", backend="sandbox")
