"""Kinds of other packages, from a real distribution in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KIND = """
from tract_jupyter.runs.kinds.base import OperationOutput

class Echo:
    name = "echo"
    def check(self, operation):
        return [] if "text" in operation.config.params else [("text_required", "text: is missing")]
    def prepare(self, operation, services):
        return lambda context: OperationOutput(operation.config.params["text"] + context.run_id)

class Failing:
    def __init__(self):
        raise KeyError("x")
"""
ASK = """
import json, sys
from tests.runs.kinds.operations import context, operation
from tract_jupyter.runs.kinds.registry import KindRegistry
name = sys.argv[1]
kinds = KindRegistry()
try:
    kind = kinds[name]
    one = operation(name, {"text": "a"})
    told = [kind.prepare(one, None)(context()).value, kind.check(operation(name, {}))]
except Exception as error:
    told = [type(error).__name__, str(error)]
print(json.dumps([name in kinds, list(kinds), *told]))
"""


@pytest.fixture
def ask(tmp_path):
    def _ask(name, *entries):
        info = tmp_path / "house-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join(["[tract_jupyter.run_kinds]", *entries]))
        (tmp_path / "house.py").write_text(KIND)
        ran = subprocess.run(
            [sys.executable, "-c", ASK, name], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return json.loads(ran.stdout)

    return _ask


def test_a_kind_of_another_package_is_used(ask):
    """R16: `kind` may be any other string."""
    is_there, names, value, problems = ask("echo", "echo = house:Echo")
    assert (is_there, value, problems) == (True, "ar1", [["text_required", "text: is missing"]])
    assert {"echo", "llm", "tool"} <= set(names)


def test_another_package_cannot_replace_a_built_in_kind(ask):
    _, names, error, _ = ask("transform", "transform = house:Echo")
    assert error == "OperationFailed", "that of the built-in kind, for which these parameters are wrong"
    assert names.count("transform") == 1


@pytest.mark.parametrize(
    "entry", ["bad = house:Failing", "bad = house:Nothing", "bad = nosuch:Echo", "bad = house:KIND"]
)
def test_an_unusable_kind_of_another_package_is_an_error(ask, entry):
    is_there, _, error, message = ask("bad", entry)
    assert (is_there, error) == (True, "RunError")
    assert "'bad' of another package" in message


def test_an_unknown_kind_is_an_error_with_a_suggestion(ask):
    is_there, _, error, message = ask("ekho", "echo = house:Echo")
    assert (is_there, error) == (False, "RunError")
    assert "Did you mean 'echo'" in message
