"""The fixtures of the matrix: a kernel of the row, its store seen from this process, and what its actions did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.provisioning import local_provisioner

from tests.kernels.kernel import Kernel
from tests.kernels.outcome import Outcome
from tract_jupyter import Tract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kernels.rows import Row

HERE = Path(__file__).parent
DEFINE = """%%tract_operation write --activate --ask
x: int

def go(pending):
    with open({path!r}, "a") as file:
        file.write(f"{{pending.fields['x']}}\\n")
    pending.approve()
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder."""
    files = {path for path in {item.path for item in items} if path.is_relative_to(HERE)}
    for item in items:
        if item.path in files:
            item.add_marker(pytest.mark.kernel)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture
def kernel(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    launch_warm: Callable[..., Any],
) -> Iterator[Kernel]:
    """The kernel of a row, with an operation `write` that asks, and whose action `go` writes a line into a file."""
    row: Row = request.param
    monkeypatch.setattr(local_provisioner, "launch_kernel", launch_warm)
    made = Kernel(row.python(), tmp_path, subshells=row.subshells)
    try:
        version = made.run("import ipykernel; print(ipykernel.__version__)").text
        assert version.startswith(f"{row.version}.")
        made.run("%load_ext tract_jupyter")
        made.run(DEFINE.format(path=str(tmp_path / "effects")))
        yield made
    finally:
        made.close()


@pytest.fixture
def no_probe(kernel: Kernel) -> None:
    """Hardly a moment, not three seconds, for a panel's front end; for tests that are about the prompt after that."""
    kernel.run("from tract_jupyter.notebook import channels; channels.PROBE_SECONDS = 0.1")


@pytest.fixture
def store(kernel: Kernel) -> Iterator[Tract]:
    """The kernel's store, opened by this process too, as a second notebook does."""
    with Tract.open(kernel.folder / ".tract" / "tract.db") as tract:
        yield tract


@pytest.fixture
def outcome(kernel: Kernel, store: Tract) -> Outcome:
    """What came of the requests."""
    return Outcome(store, kernel.folder / "effects")
