"""What tests of every part share: a home of their own, an in-memory tract, and the example operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest
from hypothesis import settings

from tract_jupyter import Tract
from tract_jupyter.hooks import ActionDef, OperationSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# a loaded machine is slow, not wrong; the same examples in every run, nothing written into the tree
settings.register_profile("tract", deadline=None, derandomize=True, database=None)
settings.load_profile("tract")

VERIFY = """\
compiled = pending.tract.compile()
text = " ".join(m["content"] for m in compiled.to_dicts())
missing = [u for u in pending.fields["urls"] if u not in text]
if missing and strict:
    pending.reject(f"Missing {len(missing)} URLs: {missing}")
else:
    pending.fields["verified"] = True
    pending.approve()
"""


class MakeSpec(Protocol):
    """Type of the fixture `spec`."""

    def __call__(self, code: str = ..., **changes: Any) -> OperationSpec:
        """The citation_check example; `code` is that of its action `verify`, `changes` are parts of the spec."""


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jupyter's data directory of this test; the signing secret never touches the user's own."""
    folder = tmp_path / "jupyter-data"
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(folder))
    return folder


@pytest.fixture
def tract() -> Iterator[Tract]:
    """An empty in-memory tract."""
    with Tract.open() as opened:
        yield opened


@pytest.fixture
def spec() -> MakeSpec:
    """A factory of the design document's example operation."""

    def make(code: str = VERIFY, **changes: Any) -> OperationSpec:
        verify = ActionDef("verify", "Check all URLs are present in context", {"strict": "bool"}, code)
        parts: dict[str, Any] = {
            "name": "citation_check",
            "description": "Verify source URLs survive compression",
            "fields": {
                "urls": {"type": "list[str]", "description": "URLs to verify"},
                "verified": {"type": "bool", "default": False},
            },
            "actions": {"verify": verify},
        }
        return OperationSpec(**{**parts, **changes})

    return make
