"""A shell whose tract has runs."""

import pytest

from tests.notebook.runs.examples import FIVE, run
from tests.notebook.runs.standin import Profiles, Runs
from tract_jupyter.tract import Tract


@pytest.fixture
def runs(shell, monkeypatch):
    """Runs as the shell's tract has them."""
    runs = Runs()
    shell.run("tract.status()")
    for name in ("runs", "run", "chat", "generate"):
        monkeypatch.setattr(Tract, name, _method(getattr(runs, name)), raising=False)
    monkeypatch.setattr(Tract, "profiles", Profiles(), raising=False)
    monkeypatch.setattr("tract_jupyter.notebook.runs.cell.project", lambda _: run(*FIVE, status="running"))
    return runs


def _method(function):
    return lambda _tract, *args, **options: function(*args, **options)
