"""Names of processes: in rows of the store, and for users."""

from __future__ import annotations

import os
import subprocess
import sys

from tract_jupyter import Tract
from tract_jupyter.review import process_text


def test_a_program_with_an_invalid_text_name_can_make_requests(tmp_path):
    program = tmp_path / os.fsdecode(b"caf\xe9.py")
    program.write_text(
        "from tract_jupyter import Tract\n"
        "with Tract.open('t.db') as t:\n"
        "    t.hooks.propose_handler('gc', 'no', 'pending.reject()')\n"
    )
    subprocess.run([sys.executable, program], cwd=tmp_path, check=True)
    with Tract.open(tmp_path / "t.db") as t:
        (stored,) = t.review.inbox()
        assert process_text(stored.origin) == "caf\ufffd.py"


def test_the_stored_name_of_a_process_is_cleaned_for_display():
    assert process_text("host:1:ab:\x1b[2J\u202egpj.ipynb\nx") == "\ufffd[2J\ufffdgpj.ipynb x"
    assert process_text("h\x1bt:\n1") == "process 1 on h\ufffdt"
    assert len(process_text("host:1:ab:" + "n" * 10_000)) == 200
