"""The administrator's file: valid settings, and errors with line numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tract_jupyter.exceptions import AdminLimitError
from tract_jupyter.models import (
    START_ENVIRONMENT,
    AutonomyLevel,
    admin_allows_looking,
    admin_autonomy,
    admin_limits,
)

ALL = """
models = ["gpt-6-*"]
base_urls = ["https://gateway.example.org/v1/"]
autonomy = "manual"
looking = false
outside_agents = false
mcp_servers = []
redaction = true

[budget]
day = {usd = 5.5, tokens = 100_000}
[budget.month]
usd = 50
"""
LINES = [
    "models: gpt-6-*",
    "base URLs: https://gateway.example.org/v1",
    "budget per day: 100,000 tokens and 5.50 USD",
    "budget per month: 50.00 USD",
    "autonomy: manual at most",
    "looking: off",
    "outside agents: off",
    "MCP servers: none",
    "redaction: on",
]


def test_no_file_limits_nothing(admin_file):
    limits = admin_limits()
    assert (limits.source, limits.lines()) == ("", [])
    assert admin_allows_looking()
    assert admin_autonomy() is AutonomyLevel.AUTONOMOUS


def test_each_limit_is_read_and_read_again(admin_file):
    admin_file.write_text(ALL)
    assert admin_limits().lines() == LINES
    assert admin_limits().source == str(admin_file)
    admin_file.write_text("")
    assert admin_limits().lines() == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("looking = true\n\nmodel = []", "line 3: unknown name 'model'. Did you mean 'models'?"),
        ("# modles\nmodles = []", "line 2: unknown name 'modles'"),
        ("[budget]\nweek = {usd = 1}", "line 2: unknown name 'budget.week'"),
        ("[budget.day]\neur = 1", "line 2: unknown name 'budget.day.eur'"),
        ("budget.day.usd = 0", "0"),
        ("[budget.day]", "has no limit"),
        ("[budget]", "[budget] has no limit"),
        ("budget = 3", "budget must be a table"),
        ("models = 'gpt'", "models must be a list of texts"),
        ("mcp_servers = [1]", "mcp_servers must be a list of texts"),
        ("looking = 'no'", "looking must be true or false"),
        ("autonomy = 'full'", "autonomy must be manual, collaborative, autonomous"),
        ("models = 1 2", "line 1"),
        (b"models = ['\xff']", "utf-8"),
        ("#" * 100_001, "100,000 bytes"),
        ("models = " + "[" * 5_000, "nested too deeply"),
    ],
)
def test_an_error_names_its_place_and_allows_nothing(admin_file, text, problem):
    admin_file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(AdminLimitError) as raised:
        admin_limits()
    assert problem in str(raised.value)
    assert str(admin_file) in str(raised.value)
    assert "Ask your administrator" in str(raised.value)
    assert admin_autonomy() is AutonomyLevel.MANUAL
    assert not admin_allows_looking()


def test_a_file_that_cannot_be_read_allows_nothing(admin_file):
    admin_file.mkdir()
    with pytest.raises(AdminLimitError, match="cannot be used: it is not a regular file"):
        admin_limits()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes")
def test_a_pipe_is_refused_at_once(admin_file):
    os.mkfifo(admin_file)
    with pytest.raises(AdminLimitError, match="cannot be used: it is not a regular file"):
        admin_limits()


@pytest.mark.parametrize("place", ["policy.toml", "policy.toml/more.toml", "limits/policy.toml"])
def test_a_dangling_link_or_a_file_as_its_folder_allows_nothing(tmp_path, monkeypatch, place):
    (tmp_path / "policy.toml").symlink_to(tmp_path / "missing")
    (tmp_path / "limits").write_text("")
    monkeypatch.setattr("tract_jupyter.models.administrator.ADMIN_FILE", tmp_path / place)
    with pytest.raises(AdminLimitError, match="cannot be used"):
        admin_limits()


@pytest.mark.parametrize(
    ("value", "problem"), [("", None), ("own.toml", "absolute path"), ("./own.toml", "absolute path")]
)
def test_the_variable_is_an_absolute_path_or_empty(admin_file, tmp_path, monkeypatch, value, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text("")
    monkeypatch.setitem(START_ENVIRONMENT, "TRACT_JUPYTER_POLICY", value)
    if problem is None:
        assert not admin_limits().source
        return
    with pytest.raises(AdminLimitError, match=problem):
        admin_limits()


EARLY = """
import os, sys
os.environ.pop("TRACT_JUPYTER_POLICY")
if sys.argv[1:]:
    os.environ["TRACT_JUPYTER_POLICY"] = os.devnull
from tract_jupyter.models import admin_limits
print(admin_limits().lines())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
@pytest.mark.skipif(os.path.exists("/etc/tract_jupyter/policy.toml"), reason="this machine has limits")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [[], ["other"]])
def test_code_before_the_import_cannot_change_the_variable(tmp_path, arguments):
    path = tmp_path / "own.toml"
    path.write_text("looking = false")
    environment = {**os.environ, "TRACT_JUPYTER_POLICY": str(path)}
    command = [sys.executable, "-c", EARLY, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "['looking: off']\n"


VARIABLE = """
import os
from tract_jupyter.exceptions import AdminLimitError
from tract_jupyter.models import admin_limits
os.environ["TRACT_JUPYTER_POLICY"] = os.devnull  # too late
try:
    print(admin_limits().lines())
except AdminLimitError as error:
    print(error)
"""


@pytest.mark.skipif(os.path.exists("/etc/tract_jupyter/policy.toml"), reason="this machine has limits")  # noqa: PTH110
@pytest.mark.parametrize(
    ("text", "found"), [("looking = false", "['looking: off']"), (None, "does not exist")]
)
def test_the_variable_of_the_process_counts_and_code_cannot_change_it(tmp_path, text, found):
    path = tmp_path / "own.toml"
    if text is not None:
        path.write_text(text)
    environment = {**os.environ, "TRACT_JUPYTER_POLICY": str(path)}
    command = [sys.executable, "-c", VARIABLE]
    assert (
        found in subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.skipif(os.path.exists("/etc/tract_jupyter/policy.toml"), reason="this machine has limits")  # noqa: PTH110
def test_the_fixed_file_comes_before_the_variable(admin_file, monkeypatch, tmp_path):
    monkeypatch.setitem(START_ENVIRONMENT, "TRACT_JUPYTER_POLICY", str(tmp_path / "missing.toml"))
    admin_file.write_text("redaction = true")
    assert admin_limits().redaction
    admin_file.unlink()
    with pytest.raises(AdminLimitError, match="TRACT_JUPYTER_POLICY"):
        admin_limits()
