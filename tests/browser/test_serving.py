"""An agent of another program runs code in the kernel; a person decides below `%tract serve`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx2
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from benchmarks.scripted_model import OVER, ScriptedModel, scripted

LOAD = "%load_ext tract_jupyter\nbirds = ['wren', 'owl']"
SERVE = "%tract serve"
CODE = "birds = birds + ['robin']\nprint(len(birds), 'birds')"


@asynccontextmanager
async def connected(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(60, read=None)) as http,
        Client(
            streamable_http_client(url, http_client=http),
            client_info=Implementation(name="claude-code", version="1"),
        ) as client,
    ):
        yield client


def token_file(lab):
    """Return the file that the output of `%tract serve` names."""
    return Path(re.search(r"the token in (\S+)", lab.text(1)).group(1))


@pytest.fixture
def agent():
    """Connect an agent to the kernel of a page. Return a function that begins a call."""
    with start_blocking_portal() as portal:
        closing = []

        def connect(lab):
            kernel = json.loads(token_file(lab).read_text())
            client = portal.wrap_async_context_manager(connected(kernel["url"], kernel["token"]))
            entered = client.__enter__()
            closing.append(client)
            return lambda tool, **arguments: portal.start_task_soon(
                partial(entered.call_tool, tool, arguments)
            )

        yield connect
        for client in closing:
            client.__exit__(None, None, None)


def test_an_agent_asks_below_the_cell_and_gets_the_result(open_lab, screenshot, agent):
    lab = open_lab(LOAD, SERVE, "print(birds)", "%tract inbox", viewport=(1100, 1400))
    lab.run_cell(0)
    lab.run_cell(1)
    begin = agent(lab)
    assert begin("variables").result(30).structured_content == {"birds": "list[2]"}

    run = begin("run_code", code=CODE)
    output = lab.output(1)
    keep = output.get_by_role("button", name=re.compile("^(Keep|Run)$"))  # Keep, if rehearsals work here
    keep.wait_for()
    screenshot(lab, "serve-request", 1)
    keep.click()
    assert run.result(60).structured_content["output"] == "3 birds\n"
    lab.run_cell(2)
    assert lab.text(2) == "['wren', 'owl', 'robin']\n"

    run = begin("run_code", code="birds.clear()")
    output.get_by_text("birds.clear()").first.wait_for()
    lab.reject(1, "I need the birds")
    result = run.result(60)
    assert (result.is_error, "I need the birds" in result.content[0].text) == (True, True)
    line = output.locator("[data-testid=tract-record] > summary").last
    assert line.evaluate("one => one.scrollHeight <= one.clientHeight + 1")  # its long title is cut
    screenshot(lab, "serve-decided", 1)

    # decided in the inbox, and kept for a client that has left
    run = begin("run_code", code="birds.append('crow')\nlen(birds)")
    output.get_by_text("crow").first.wait_for()
    run.cancel()
    output.get_by_text("The client no longer waits for this call").first.wait_for()
    lab.run_cell(3)
    inbox = lab.output(3)
    inbox.get_by_text("Run a script of the client 'claude-code'").first.wait_for()
    screenshot(lab, "serve-left", 3)
    lab.run_cell(2)
    assert lab.text(2) == "['wren', 'owl', 'robin']\n"


@pytest.fixture
def claude(tmp_path):
    """Start Claude Code in a terminal, with a scripted model, and the proxy as its only MCP server."""
    folder = os.environ.get("TRACT_AGENTS_FOLDER", "")
    program = Path(folder, "node_modules/@anthropic-ai/claude-agent-sdk-linux-x64/claude")
    if not folder or not program.exists():
        pytest.skip("TRACT_AGENTS_FOLDER has no Claude Code")
    model, started = ScriptedModel(), []

    def start(*codes, runtime):
        server = {"command": sys.executable, "args": ["-m", "tract_jupyter", "kernel-proxy"]}
        settings = tmp_path / "mcp.json"
        settings.write_text(json.dumps({"mcpServers": {"notebook": server}}))
        find = {"tool": ["ToolSearch"], "input": {"query": "select:mcp__notebook__run_code"}}
        runs = [{"tool": ["mcp__notebook__run_code"], "input": {"code": code}} for code in codes]
        options = ["--mcp-config", str(settings), "--strict-mcp-config", "--allowedTools", "mcp__notebook"]
        env = {**os.environ, "JUPYTER_RUNTIME_DIR": runtime, "HOME": str(tmp_path), "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "scripted",
               "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "MCP_TIMEOUT": "60000"}  # fmt: skip
        started.append(
            subprocess.Popen(
                [str(program), "-p", f"Do it. {scripted([find, *runs])}", *options], cwd=tmp_path, env=env,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
        )  # fmt: skip
        return started[-1]

    yield start, model
    for process in started:
        process.kill()
        process.wait(10)
        process.stdout.close()


def test_claude_in_a_terminal_runs_code_and_gets_a_reason(open_lab, screenshot, claude):
    start, model = claude
    lab = open_lab(LOAD, SERVE, "print(birds)", viewport=(1100, 1400))
    lab.run_cell(0)
    lab.run_cell(1)
    process = start(CODE, "birds.clear()", runtime=str(token_file(lab).parent))
    output = lab.output(1)
    output.get_by_role("button", name=re.compile("^(Keep|Run)$")).click(timeout=90_000)
    output.get_by_text("birds.clear()").first.wait_for()
    screenshot(lab, "serve-claude", 1)
    lab.reject(1, "I need the birds")
    assert OVER in process.communicate(timeout=60)[0]
    assert model.got("3 birds")
    assert model.got("I need the birds")
    screenshot(lab, "serve-claude-decided", 1)
    lab.run_cell(2)
    assert lab.text(2) == "['wren', 'owl', 'robin']\n"
