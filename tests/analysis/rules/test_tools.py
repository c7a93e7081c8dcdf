"""Code around tools: it bypasses them, changes them, or approves its own requests."""

from __future__ import annotations

from pathlib import Path

import pytest

import tract_jupyter
from tests.analysis.helpers import ROOT, analyze, codes, found
from tract_jupyter import CodeAnalyzer

CHANGES = [
    "tools.read_file = lambda **k: 1", "import tools\ntools.read_file = f", "del tools.read_file", "del tools",
    "setattr(tools, 'read_file', f)", "tools.__dict__['read_file'] = f", "vars(tools)['read_file'] = f",
    "import tools as t\nt.read_file = f", "for name, f in vars(tools).items():\n    f()",
    "import inspect\ninspect.getmembers(tools)", "delattr(tools, 'read_file')",
]  # fmt: skip
DECIDES = [
    "plugin._allow_all = True", "executor._permission_plugin = None", "x.set_permission_plugin(None)",
    "from shared import analyzer as a\na.DANGEROUS_CALLS.clear()", "from tract_jupyter.review import gate",
    "import tract_jupyter.review", "%config TractJupyter.rules_off = ['TJ101']",
    "%%tract_operation x --activate\ndescription: x", "t.unlock_tool('gc')", "t.register_operation(spec)",
    "t.executor.unlock_tool('gc')", "getattr(t, 'unlock_tool')('gc')",
]  # fmt: skip
QUIET = [
    "tools.read_file(path='x')", "for p in paths:\n    tools.read_file(path=p)", "r = tools.read_file\nr(path='x')",
    "self._allowed = 1", "from tract_jupyter import Tract", "import tools\nhelp(tools.read_file)", "dir(tools)",
    "%tract status", "%tract trust", "%config InlineBackend.figure_format = 'svg'", "MY_LIST = []\nMY_LIST.clear()",
    "pending.approve()", "pending.result = len(pending.fields['text'])", "settings.update(a=1)", "options.get('save')", "options.get('unlock_tool')",
]  # fmt: skip


@pytest.mark.parametrize("code", CHANGES)
def test_changing_the_tools(code):
    assert ("TJ602", "high") in found(code)


@pytest.mark.parametrize("code", DECIDES)
def test_deciding_for_itself(code):
    assert ("TJ603", "high") in found(code)


@pytest.mark.parametrize("code", QUIET)
def test_quiet(code):
    assert found(code) == set()


def test_loops_around_tools():
    assert ("TJ604", "medium") in found("while True:\n    tools.poll(job=1)")
    assert "TJ604" in codes("while not done:\n    done = tools.poll(job=1)")
    assert "TJ604" not in codes("for _ in range(9):\n    tools.poll(job=1)")


DIRECT = {
    "read_file": "open('notes.md').read()",
    "delete_file": "import os\nos.remove('notes.md')",
    "list_directory": "import os\nos.listdir('.')",
    "fetch_url": "import requests\nrequests.get('https://example.org')",
}


@pytest.mark.parametrize(("tool", "code"), DIRECT.items())
def test_code_that_bypasses_an_available_tool_is_reported(tool, code):
    def told(*tools):
        findings = CodeAnalyzer(ROOT, tools=tools).analyze(code).findings
        return [finding.reason for finding in findings if finding.code == "TJ601"]

    assert told("get_issue", tool) == [f"Bypasses the tool {tool}."]
    assert told("list_branches", "get_issue", "read_calendar") == []
    assert told() == []


def test_code_that_exposes_all_tools_is_reported_at_its_line():
    finding = next(f for f in analyze("x = 1\nvars(tools)").findings if f.code == "TJ602")
    assert (finding.span.line, finding.text) == (2, "vars(tools)")


PACKAGES = {path.parent.name for path in Path(tract_jupyter.__file__).parent.glob("*/__init__.py")}
DECIDES_NOTHING = {"analysis", "llm", "models", "prompts", "runs"}


@pytest.mark.parametrize("package", sorted(PACKAGES - DECIDES_NOTHING))
def test_code_has_no_business_in_the_packages_that_decide(package):
    findings = analyze(f"from tract_jupyter.{package} import something").findings
    assert {("TJ603", "high")} <= {(finding.code, str(finding.level)) for finding in findings}
