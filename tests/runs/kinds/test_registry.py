"""Which kinds there are."""

import subprocess
import sys
from importlib import metadata

import pytest

from tests.runs.kinds.support import operation_of
from tract_jupyter.exceptions import RunError
from tract_jupyter.runs.kinds import GROUP, KindRegistry


class Third:
    """A kind of another package."""

    name = "third"

    def check(self, operation):
        return []

    def prepare(self, operation, services):
        return lambda context: None


def broken():
    raise ImportError("no such library")


def bring(monkeypatch, **values):
    points = [metadata.EntryPoint(name, value, GROUP) for name, value in values.items()]
    monkeypatch.setattr(
        "tract_jupyter.runs.kinds.registry.entry_points", lambda group: points if group == GROUP else []
    )


def test_a_registry_has_the_kinds_that_it_is_given():
    """R16, X07: any string may be a kind; what is not there is known before anything runs."""
    kinds = KindRegistry(["template", "guard"], {"mine": Third()})
    assert list(kinds) == ["guard", "mine", "template"]
    assert len(kinds) == 3
    assert "llm" not in kinds
    assert kinds["template"].name == "template"
    assert kinds["template"] is kinds["template"]
    with pytest.raises(RunError, match="Unknown kind of operation: 'templat'. Did you mean 'template'"):
        kinds["templat"]


def test_other_packages_may_bring_kinds(monkeypatch):
    bring(monkeypatch, third=f"{__name__}:Third", broken=f"{__name__}:broken", template=f"{__name__}:Third")
    kinds = KindRegistry()
    assert {"third", "broken", "llm", "guard", "tool"} <= set(kinds)
    assert kinds["third"].name == "third"
    assert kinds["template"].name == "template"  # nobody else's
    with pytest.raises(RunError, match="'broken' of another package cannot be loaded: no such library"):
        kinds["broken"]


def test_only_some_kinds_know_attempts_of_their_own():
    kinds = KindRegistry(["llm"], {"third": Third()})
    asking = operation_of("llm", {"prompt": "p", "timeoutMs": 9})
    assert kinds.configured(asking).config.timeout_ms == 9
    for kind in ("third", "unknown"):
        assert kinds.configured(operation_of(kind)) == operation_of(kind)


def test_kinds_are_imported_when_they_are_used():
    code = "import sys; from tract_jupyter.runs.kinds.registry import KindRegistry; k = KindRegistry(); 'llm' in k; print('pydantic' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )
