"""Python features that are missing in the sandbox."""

from __future__ import annotations

import pytest
from pydantic_monty import MontyError

from tract_jupyter.sandbox import MODULES, SandboxPool, unsupported

MEMBERS = {"pending": frozenset({"fields", "approve"}), "tools": frozenset()}


def found(code, *names):
    return [(lack.line, lack.what) for lack in sorted(unsupported(code, names, MEMBERS))]


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("class A(B): pass", "no inheritance of classes"),
        ("class A(metaclass=B): pass", "no inheritance of classes"),
        ("def f():\n    yield 1", "no 'yield'"),
        ("def f():\n    yield from []", "no 'yield from'"),
        ("del x", "no 'del' (for a key, d.pop(key))"),
        ("try: pass\nexcept* ValueError: pass", "no 'except*'"),
        ("import os", "no module 'os'"),
        ("import json, numpy.linalg as la", "no module 'numpy.linalg'"),
        ("from subprocess import run", "no module 'subprocess'"),
        ("from . import x", "no module '.'"),
        ("open('x')", "no 'open'"),
        ("globals()['x']", "no 'globals'"),
        ("pending.tract", "no 'pending.tract'"),
        ("x = [lambda: pending.__class__]", "no 'pending.__class__'"),
        ("tools.status()", "no 'tools.status'"),
    ],
)
def test_features_missing_in_the_sandbox_are_found(code, what):
    assert [text for _, text in found(code)] == [what]


@pytest.mark.parametrize(
    "code",
    [
        "import json, re\nfrom datetime import date\nfrom collections.abc import Mapping",
        "pending.fields['x'] = 1\npending.approve()",
        "def open(x): return x\nopen(1)",
        "for pending in []: pending.tract",
        "class A:\n    def f(self): return self.g",
        "x = {'del': 'yield'}\n'import os'",
    ],
)
def test_available_features_and_own_names_are_not_reported(code):
    assert found(code) == []


def test_parameters_are_known_and_the_first_line_comes_first():
    assert found("input(1)\nimport os\nopen(2)", "input") == [(2, "no module 'os'"), (3, "no 'open'")]
    assert next(unsupported("pending.x", (), MEMBERS)).hint == "pending has only approve, fields"


def test_the_listed_modules_can_be_imported_in_the_sandbox():
    pool = SandboxPool()
    with pool.opened().checkout() as session:
        for name in sorted(MODULES):
            session.feed_run(f"import {name}")
        for name in ("socket", "subprocess", "ctypes"):
            with pytest.raises(MontyError, match="No module"):
                session.feed_run(f"import {name}")
    pool.close()
