"""Dangerous snippets, run in a process to throw away that notes whatever reaches out of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VECTORS = Path(__file__).parent / "vectors"

_PROBE = """
import json, sys
from tract_jupyter import Tract

tract = Tract.open()
{define}
touched = []
watched = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.", "pty.", "webbrowser.", "urllib.", "ftplib.", "smtplib.")
state = {{"on": False}}

def reaches_out(event, arguments):
    if event == "open":  # for writing
        return isinstance(arguments[1], str) and bool(set(arguments[1]) & set("wax+"))
    if event == "exec":  # the code itself, in this process
        return arguments[0].co_filename.startswith({own_code!r})
    return event.startswith(watched) and event != "os.kill"  # of the sandbox's process, whose time is over

def hook(event, arguments):
    if state["on"] and reaches_out(event, arguments):
        touched.append((event, str(arguments)[:200]))

sys.addaudithook(hook)
found = {{}}
for name, code in json.load(open(sys.argv[1])).items():
    touched.clear()
    state["on"] = True
    try:
        status = run(code)
    except Exception as error:
        status = type(error).__name__
    state["on"] = False
    found[name] = [status, list(touched)]
json.dump(found, open(sys.argv[2], "w"))
"""


def adversarial() -> Iterator[tuple[str, str]]:
    """The critical snippets of the vectors, and all adversarial ones of the sets that were written later."""
    labelled = json.loads((VECTORS / "analyzer.json").read_text())
    yield from ((each["id"], each["code"]) for each in labelled if each["suggested_risk"] == "critical")
    unseen = json.loads((VECTORS / "unseen.json").read_text())
    yield from ((each["id"], each["code"]) for each in unseen if each["kind"] == "adversarial")


def effects_of(
    snippets: dict[str, str], define: str, *, own_code: str, folder: Path
) -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Run each snippet, and give back what came of it and the audit events that reach out.

    Args:
        snippets: code by name.
        define: code that defines `run(code)`, which returns a text; it finds `tract`.
        own_code: how the file name begins that the snippets would have if they ran in the process itself.
        folder: an empty one. Nothing may be written to the working directory within it.
    """
    (folder / "codes.json").write_text(json.dumps(snippets))
    (folder / "probe.py").write_text(_PROBE.format(define=define, own_code=own_code))
    work = folder / "work"
    work.mkdir()
    environment = {**os.environ, "JUPYTER_DATA_DIR": str(folder / "data"), "HOME": str(work)}
    subprocess.run(
        [sys.executable, folder / "probe.py", folder / "codes.json", folder / "found.json"],
        cwd=work, env=environment, check=True, timeout=280,
    )  # fmt: skip
    assert list(work.iterdir()) == []
    found: dict[str, tuple[str, list[tuple[str, str]]]] = json.loads((folder / "found.json").read_text())
    return found
