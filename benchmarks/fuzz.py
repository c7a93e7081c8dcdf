"""Fuzzing of the analysis: every text gets a verdict in time. Atheris, if installed, guides it by coverage."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SECONDS = 1.0
_RUNS = re.compile(r"Done (\d+) runs in")


def rows(seconds: int = 300) -> Iterator[Row]:
    """Analyze texts from atheris in a separate process, for a number of seconds."""
    if find_spec("atheris") is None:
        print("atheris is not installed; it comes with the extra test, on Linux", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "benchmarks.fuzz", str(report), f"-max_total_time={seconds}"]
        command += ["-max_len=2048", "-timeout=20", f"-artifact_prefix={folder}/"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        seen: dict[str, Any] = {"slowest": 0.0, "wrong": 1, "text": ran.stderr, "slow": ""}
        if report.exists():
            seen = json.loads(report.read_text())
        count = _RUNS.search(ran.stderr)
        if seen["wrong"]:
            print(f"a text that went wrong: {seen['text']!r}", file=sys.stderr)
        if seen["slowest"] > MOST_SECONDS:
            print(f"the slowest: {seen['slow']!r}", file=sys.stderr)
        yield Row(f"texts analysed in {seconds} s", int(count[1]) if count else 0, "texts")
        yield Row("of them without a verdict, or with an error of the analysis", seen["wrong"], "texts", 0)
        yield Row("slowest verdict", seen["slowest"], "ms", MOST_SECONDS * 1000)


def fuzz(report: Path, arguments: list[str]) -> None:
    """Run atheris, and write a report after each new worst text."""
    import atheris

    with atheris.instrument_imports(include=["tract_jupyter.analysis"]):
        from benchmarks.fuzzed import Judge
    judge = Judge(report)
    atheris.Setup([sys.argv[0], *arguments], judge.look)
    atheris.Fuzz()


if __name__ == "__main__":
    fuzz(Path(sys.argv[1]), sys.argv[2:])
