"""What a user waits for before the first cell: processor time of cold processes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.timing import SAMPLES, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAVY = ("sqlalchemy", "pydantic", "anywidget", "ipywidgets", "tiktoken", "yaml", "pygments.lexers.python")

_CLOCK = "from time import process_time as clock; import json, sys; "
_SHELL_STARTS = f"{_CLOCK} print(json.dumps(clock()))"
_SHELL_LOADS = (
    f"{_CLOCK} get_ipython().run_line_magic('load_ext', 'tract_jupyter'); print(); print(json.dumps(clock()))"
)
_HEAVY_LOADED = (
    f"{_CLOCK} known = set(sys.modules); get_ipython().run_line_magic('load_ext', 'tract_jupyter'); print(); "
    f"print(json.dumps([name for name in {_HEAVY!r} if name in sys.modules and name not in known]))"
)
_PACKAGE = f"{_CLOCK} began = clock(); import tract_jupyter; print(json.dumps(clock() - began))"
_FIRST_USE = (
    f"{_CLOCK} get_ipython().run_line_magic('load_ext', 'tract_jupyter'); began = clock(); tract.status(); print(); "
    "print(json.dumps(clock() - began))"
)
_FIRST_PANEL = (
    f"{_CLOCK} from tract_jupyter import Tract; from benchmarks.samples import RISKY; "
    "from tract_jupyter.review.channel import Ticket; ticket = Ticket(Tract.open().propose_operation(RISKY), print); "
    "began = clock(); from tract_jupyter.notebook.panels.panel import Panel; Panel(ticket); "
    "print(json.dumps(clock() - began))"
)


def rows() -> Iterator[Row]:
    """Each sample is a process of its own."""
    alone = _best([*_ipython(), _SHELL_STARTS])
    yield Row("IPython starts, without the extension (CPU)", alone, "s")
    yield Row("%load_ext tract_jupyter adds (CPU)", _best([*_ipython(), _SHELL_LOADS]) - alone, "s", 0.4)
    heavy = _run([*_ipython(), _HEAVY_LOADED])
    named = f" ({', '.join(heavy)})" if heavy else ""
    yield Row(f"heavy packages that %load_ext imports{named}", len(heavy), "packages", 0)
    yield Row("import tract_jupyter (CPU)", _best([sys.executable, "-c", _PACKAGE]), "ms")
    yield Row("first use of tract: imports, opens a new store (CPU)", _best([*_ipython(), _FIRST_USE]), "s")
    yield Row("first panel: imports, draws (CPU)", _best([sys.executable, "-c", _FIRST_PANEL]), "s")


def _ipython() -> list[str]:
    return [sys.executable, "-m", "IPython", "--no-banner", "--no-confirm-exit", "-c"]


def _best(command: list[str]) -> float:
    return min(float(_run(command)) for _ in range(SAMPLES))


def _run(command: list[str]) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 # our own
    return json.loads(done.stdout.strip().splitlines()[-1])
