"""A workspace, and rehearsals in it at each level that this machine permits."""

from __future__ import annotations

import contextlib

import pytest

from tract_jupyter.rehearsal import Backups, Rehearser, probe


def skip_unless(level: str) -> str:
    """Return the level, or skip the test."""
    if probe().name == "none" or (level == "full" and probe().name != "full"):
        pytest.skip(probe().reason)
    return level


@pytest.fixture(params=["full", "basic"])
def level(request):
    """Each level that this machine permits."""
    return skip_unless(request.param)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """An empty folder, which is the working folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def rehearser(workspace, tmp_path):
    """A rehearser of the workspace, at the full level unless `level` is given."""

    def make(level="full", **options):
        return Rehearser(workspace, Backups(tmp_path / "backups"), level=skip_unless(level), **options)

    return make


@pytest.fixture
def rehearse(rehearser):
    """Rehearses code at the full level, and returns the effects."""
    with contextlib.ExitStack() as stack:

        def run(code, namespace=None, *, level="full", tools=None, stop=None, **options):
            rehearsal = rehearser(level, **options).rehearse(
                code, {} if namespace is None else namespace, tools=tools, stop=stop
            )
            stack.callback(rehearsal.discard)
            return rehearsal.effects

        yield run
