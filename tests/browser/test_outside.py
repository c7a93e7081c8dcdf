"""A turn of an outside agent in a real JupyterLab: files, a shell command, code in the kernel, and a rejection."""

import json
import sys

import pytest

from tests.browser.chat import end
from tests.outside.conftest import FAKE, call

DIFF = {"type": "diff", "path": "clean.py", "oldText": None, "newText": "import pandas as pd\n"}
PLAN = {
    "entries": [
        {"content": "write clean.py", "status": "completed"},
        {"content": "run it", "status": "pending"},
    ]
}


@pytest.fixture
def agent(tmp_path):
    """A function that writes a scripted agent program and returns its path."""

    def make(**script):
        place = tmp_path / "bird-agent.json"
        place.write_text(json.dumps(script))
        path = tmp_path / "bird-agent"
        path.write_text(
            f"#!{sys.executable}\nimport sys, runpy\nsys.argv[1:] = [open({str(place)!r}).read()]\n"
            f"runpy.run_path({str(FAKE)!r}, run_name='__main__')\n"
        )
        path.chmod(0o755)
        return str(path)

    return make


def test_an_outside_agent_writes_a_file_runs_code_and_gets_a_rejected_command(
    open_lab, agent, screenshot, tmp_path
):
    edit = call("c1", title="Write clean.py", content=[DIFF])
    shell = call("c2", title="Look", kind="execute", rawInput={"command": "rm -rf data\ntouch done"})
    code = call(
        "c3",
        title="run_code",
        name="mcp__kernel__run_code",
        kind="other",
        rawInput={"code": "answer = 6 * 7"},
    )
    log = tmp_path / "log.jsonl"
    first = [
        ["thought", "A plan first."], ["update", "plan", PLAN], ["text", "I write **clean.py**."], ["call", edit],
        ["ask", {"call": edit, "does": [["write", "clean.py", "import pandas as pd\n"]]}],
        ["text", "Now a command."], ["call", shell], ["ask", {"call": shell}],
        ["text", "Now code."], ["call", {**code, "status": "in_progress"}], ["kernel", "answer = 6 * 7"],
        ["progress", {"toolCallId": "c3", "status": "completed"}], ["text", "The answer is there."],
    ]  # fmt: skip
    path = agent(prompts=[first, [["text", "I keep data."]]], log=str(log))
    lab = open_lab(
        "%load_ext tract_jupyter", f"%%tract_chat --agent {path}\nClean the data.", viewport=(1240, 1300)
    )
    assert lab.run_cell(0), lab.text(0)
    lab.run_cell(1, wait=False)
    out = lab.output(1)
    out.get_by_role("button", name="Allow once").and_(out.locator("[aria-disabled=false]")).click()
    out.get_by_text("Now a command.").wait_for()
    out.get_by_text("wants to run a shell command").wait_for()
    screenshot(lab, "outside-command", 1)
    out.get_by_role("button", name="Reject").first.click()
    reason = out.get_by_role("textbox").first
    reason.fill("keep data")
    out.get_by_role("button", name="Reject").last.click()
    question = out.locator(".tract.turn section.q").filter(has_text="Run a script of the client")
    question.wait_for()
    screenshot(lab, "outside-code", 1)
    question.locator("[data-action=keep], [data-action=approve]").and_(
        out.locator("[aria-disabled=false]")
    ).first.click()
    out.get_by_text("I keep data.").wait_for()
    page = end(lab)
    screenshot(lab, "outside-turn", 1)
    assert "keep data" in page.inner_text()
    assert lab.execute("print(answer)").strip() == "42"
    paths = lab.execute("import os; print(os.path.exists('done'), os.path.exists('clean.py'))")
    assert paths.split() == ["False", "True"]
    assert lab.execute("print(os.path.exists('done'), os.path.exists('clean.py'))").strip() == "False True"
