"""The wait before the first cell: processor time of cold processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from tempfile import TemporaryDirectory
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
_FLOOR = f"{_CLOCK} import sqlalchemy, sqlalchemy.dialects.sqlite, pydantic, sqlite3; print(json.dumps([clock(), 0]))"
_OURS = "print(json.dumps([clock(), sum(name.startswith('tract_jupyter') for name in sys.modules)]))"
_FIRST_MESSAGE = f"""{_CLOCK}
from tract_jupyter import Tract
with Tract.open(sys.argv[1]) as t:
    t.user("x")
    t.compile()
{_OURS}"""
_FIRST_OPERATION = f"""{_CLOCK}
from tract_jupyter import ActionDef, OperationSpec, Tract
with Tract.open(sys.argv[1]) as t:
    go = ActionDef("go", "Goes.", {{}}, "pending.approve()")
    t.register_operation(OperationSpec("first", "The first.", {{"n": {{"type": "int"}}}}, {{"go": go}}))
    t.fire("first", {{"n": 1}})
{_OURS}"""


def rows() -> Iterator[Row]:
    """Measure each sample in a separate process."""
    alone = _best([*_ipython(), _SHELL_STARTS])
    yield Row("IPython starts, without the extension (CPU)", alone, "s")
    yield Row("%load_ext tract_jupyter adds (CPU)", _best([*_ipython(), _SHELL_LOADS]) - alone, "s", 0.4)
    heavy = _run([*_ipython(), _HEAVY_LOADED])
    named = f" ({', '.join(heavy)})" if heavy else ""
    yield Row(f"heavy packages that %load_ext imports{named}", len(heavy), "packages", 0)
    yield Row("import tract_jupyter (CPU)", _best([sys.executable, "-c", _PACKAGE]), "ms")
    yield Row("first use of tract: imports, opens a new store (CPU)", _best([*_ipython(), _FIRST_USE]), "s")
    yield Row("first panel: imports, draws (CPU)", _best([sys.executable, "-c", _FIRST_PANEL]), "s")
    yield from _first_uses()


def _first_uses() -> Iterator[Row]:
    floor, _ = _cold(_FLOOR)
    yield Row("SQLAlchemy and pydantic alone are imported (CPU)", floor, "s")
    for what, code, most in [
        ("first message is committed", _FIRST_MESSAGE, 1.7),
        ("first operation is fired", _FIRST_OPERATION, 2.5),
    ]:
        seconds, modules = _cold(code)
        yield Row(f"{what}, over these two (CPU)", seconds / floor, "x", most)
        yield Row(f"modules of ours by then: {what}", modules, "modules")


def _cold(code: str) -> tuple[float, int]:
    """Return the processor time of a new process on a new store, and the number of imported modules of ours."""
    with TemporaryDirectory() as folder:
        commands = [[sys.executable, "-c", code, f"{folder}/{number}.db"] for number in range(SAMPLES)]
        seconds, modules = min(_run(command) for command in commands)
    return float(seconds), int(modules)


def _ipython() -> list[str]:
    return [sys.executable, "-m", "IPython", "--no-banner", "--no-confirm-exit", "-c"]


def _best(command: list[str]) -> float:
    return min(float(_run(command)) for _ in range(SAMPLES))


def _run(command: list[str]) -> Any:
    # an installed package has its bytecode, whatever this process was told
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603 # our own
    lines = reversed(done.stdout.splitlines())  # the extension may greet after what was measured
    return json.loads(next(line for line in lines if line[:1].isdigit() or line[:1] == "["))
