"""The administrator's limits in a notebook: no command or method widens them, and the doctor shows them."""

from __future__ import annotations

import os
import shlex

import pytest

from tests.toolkit.servers import command
from tract_jupyter import mcp_server
from tract_jupyter.__main__ import main
from tract_jupyter.exceptions import AdminLimitError
from tract_jupyter.models import AutonomyLevel, admin_limits
from tract_jupyter.toolkit import McpServer

ASKS = "Ask your administrator"


def test_autonomy(tract, admin_file):
    tract.autonomy.ceiling = "autonomous"
    admin_file.write_text('autonomy = "manual"')
    assert tract.autonomy.ceiling is AutonomyLevel.MANUAL  # at once, without a restart
    assert tract.autonomy.effective("autonomous") is AutonomyLevel.MANUAL
    with pytest.raises(AdminLimitError, match="They allow manual at most"):
        tract.autonomy.ceiling = "collaborative"
    admin_file.write_text('autonomy = "full"')
    assert tract.autonomy.ceiling is AutonomyLevel.MANUAL
    admin_file.unlink()
    assert tract.autonomy.ceiling is AutonomyLevel.AUTONOMOUS


@pytest.mark.parametrize("limits", ["outside_agents = false", "outside_agent = true"])
def test_outside_agents(shell, tract, admin_file, limits):
    admin_file.write_text(limits)
    for attempt in (
        lambda: tract.chat("Hi", agent="/bin/agent"),
        lambda: tract.outside.use("claude"),
        lambda: mcp_server(tract),
    ):
        with pytest.raises(AdminLimitError, match=ASKS):
            attempt()
    result = shell.run("%tract serve")
    assert not result.ok
    assert "administrator" in result.text + str(result.error)


@pytest.mark.parametrize(
    "limits", ["mcp_servers = ['https://mcp.example.org/*', '/opt/wiki --read *']", "mcp = 1"]
)
def test_mcp_servers(tract, admin_file, limits):
    admin_file.write_text(limits)
    for arguments in (
        {"command": command("honest")},
        {"command": ["/opt/wiki"]},
        {"url": "https://other.example.org/mcp"},
        {"url": "http://mcp.example.org/x"},
    ):
        with pytest.raises(AdminLimitError, match=ASKS):
            tract.mcp.add("tools", **arguments)
        with pytest.raises(AdminLimitError, match=ASKS), McpServer("tools", **arguments) as server:
            server.call("go")
    assert not tract.mcp.servers


@pytest.mark.parametrize("setting", [{"env": {"PYTHONPATH": "/evil"}}, {"cwd": "/evil"}])
def test_an_allowed_mcp_command_cannot_get_another_env_or_cwd(tract, admin_file, setting):
    allowed = command("honest")
    admin_file.write_text(f"mcp_servers = [{shlex.join(allowed)!r}]")
    with pytest.raises(AdminLimitError, match=f"do not allow {next(iter(setting))}.* Leave"):
        tract.mcp.add("tools", command=allowed, **setting)
    with McpServer("tools", command=allowed, env={}) as server:
        assert server.list_tools()


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("http://*.example.org/*", "http://127.0.0.1:1/.example.org/x"),
        ("http://*.example.org/*", "http://127.0.0.1:1?.example.org/x"),
        ("http://*.example.org/*", "http://127.0.0.1:1#.example.org/x"),
        ("http://*.example.org/*", "http://127.0.0.1:1\\.example.org/x"),
        ("http://localhost:*/mcp", "http://localhost:1@127.0.0.1:1/mcp"),
        ("http://mcp.example.org/*", "http://mcp.example.org/a/b"),
        ("http://mcp.example.org/*/mcp", "http://mcp.example.org/../mcp"),
        ("http://mcp.example.org/*/mcp", "http://mcp.example.org/%2E./mcp"),
        ("*", "http://mcp.example.org/a"),
    ],
)
def test_a_wildcard_matches_only_within_one_part_of_a_url(admin_file, pattern, url):
    admin_file.write_text(f"mcp_servers = ['{pattern}']")
    with pytest.raises(AdminLimitError, match=ASKS):
        admin_limits().check_mcp_url(url, url)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://*.example.org/*", "https://mcp.example.org/x"),
        ("https://mcp.example.org/*/mcp", "https://mcp.example.org/team/mcp"),
        ("http://localhost:*/mcp", "http://localhost:8000/mcp"),
    ],
)
def test_a_wildcard_allows_one_part_of_a_url(admin_file, pattern, url):
    admin_file.write_text(f"mcp_servers = ['{pattern}']")
    admin_limits().check_mcp_url(url, url)


def test_a_url_allows_no_program_with_its_name(admin_file):
    admin_file.write_text("mcp_servers = ['https://mcp.example.org/x']")
    with (
        pytest.raises(AdminLimitError, match=ASKS),
        McpServer("tools", command=["https://mcp.example.org/x"]) as server,
    ):
        server.call("go")


def test_the_doctor(shell, capsys, admin_file, monkeypatch):
    assert "✓ administrator's limits: none" in shell.run("%tract doctor").text
    admin_file.write_text("looking = false\nredaction = true")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert main(["doctor"]) == 0
    assert f"✓ administrator's limits: {admin_file}; looking: off; redaction: on" in capsys.readouterr().out
    monkeypatch.setattr(os, "access", lambda *_: True)
    text = shell.run("%tract doctor").text
    assert f"· administrator's limits: {admin_file}" in text
    assert "you can change this file yourself" in text
    admin_file.write_text("\nlooks = false")
    assert main(["doctor"]) == 1
    assert "✗ administrator's limits: the administrator's limits in" in (text := capsys.readouterr().out)
    assert "line 2: unknown name 'looks'" in text
