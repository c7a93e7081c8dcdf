"""The tools for running scripts: they do not bypass the gate."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter.toolkit import Permission

AGENT = "agent:1"
NOTE = {"content_type": "dialogue", "role": "user", "text": "x"}


@pytest.fixture
def call(tract):
    def execute(name, **arguments):
        return tract.executor.execute(name, arguments, actor=AGENT)

    return execute


def test_a_models_sandbox_script_runs_without_a_request(tract, call):
    tract.reviewer.channel = FakeChannel()
    result = call("notebook_execute", code="print(tools.status()['branch'])\n1 + 1")
    assert result.success
    assert result.output["output"] == "main\n"
    assert (result.output["status"], result.output["result"], result.output["tool_calls"]) == (
        "completed",
        "2",
        1,
    )
    assert tract.reviewer.channel.shown == []
    assert tract.events("script")[0].data["author"] == AGENT


def test_writing_calls_of_a_sandbox_script_need_approval(tract, call):
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="no"))
    result = call("notebook_execute", code=f"tools.commit(content={NOTE})")
    assert "commit: no" in result.output["output"]
    assert result.output["failed_calls"] == ["commit: no"]
    assert tract.head is None


def test_in_the_kernel_the_code_is_approved_first(tract, call):
    channel = tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    result = call("notebook_execute", code="import os\nos.getcwd()\n'ran'", backend="kernel")
    assert result.output["result"] == "'ran'"
    request, _ = channel.shown[0]
    assert request.title == "Run a script in the kernel, with the variables of 'main'"
    assert request.code[0].code == "import os\nos.getcwd()\n'ran'"
    assert "The model wrote this code" in request.why


def test_findings_show_code_that_bypasses_tools_or_changes_decisions(tract, call):
    def read_file(path: str) -> str:
        """Read a file."""
        return path

    tract.tool(read_file)
    channel = tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject"))
    call(
        "notebook_execute",
        code="text = open('notes.md').read()\nt.executor.unlock_tool('gc')",
        backend="kernel",
    )
    request, _ = channel.shown[0]
    reasons = {finding.code: finding.reason for finding in request.code[0].findings}
    assert reasons["TJ601"] == "Bypasses the tool read_file."
    assert "TJ603" in reasons


def test_waiting_for_the_approval_is_not_the_scripts_time(tract):
    run = tract.scripts.prepare("1")
    assert run.meter.clock.seconds == 0
    assert tract.scripts.execute(run).seconds > 0


def test_a_rejected_script_does_not_run(tract, call, tmp_path):
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="too much"))
    result = call("notebook_execute", code=f"open({str(tmp_path / 'x')!r}, 'w')", backend="kernel")
    assert (result.success, result.denied) == (False, True)
    assert "too much" in result.error
    assert not (tmp_path / "x").exists()


def test_a_kernel_script_without_a_channel_is_refused(tract, call):
    result = call("notebook_execute", code="1", backend="kernel")
    assert not result.success
    assert "no user is available" in result.error


OTHER_NAMES = """notebook_execute:stream Notebook_Execute tools.notebook_execute notebook-execute
    fire_notebook_execute functions.notebook_execute notebook_execute_ notebook_execute\0"""


@pytest.mark.parametrize("name", [*OTHER_NAMES.split(), " notebook_execute", ""])
def test_notebook_execute_has_no_other_names(call, name):
    result = call(name, code="1", backend="kernel")
    assert not result.success
    assert "no tool" in result.error


def test_every_tool_asks_reads_or_says_why_not(tract):
    """Every tool needs approval for other actors than the user, except read-only tools and tools
    with their own request."""
    free = {
        name
        for name, tool in tract.executor.tools().items()
        if tract.executor.permission(tool, AGENT) is Permission.ALLOW
    }
    reading = {name for name, tool in tract.executor.tools().items() if tool.traits.read_only}
    # the calls of a called agent are reviewed one by one
    itself = {"notebook_execute", "notebook_create", "notebook_reset", "propose_operation", "agent_call"}
    assert free - reading == itself


@pytest.mark.parametrize("backend", ["sandbox", "kernel"])
def test_no_script_runs_a_script(tract, call, backend):
    tract.reviewer.channel = FakeChannel(*[lambda ticket: click(ticket, "approve")] * 3)
    result = call("notebook_execute", code="tools.notebook_execute(code='1')", backend=backend)
    assert "cannot run another script" in result.output["output"]


def test_a_denied_tool_is_also_denied_within_a_script(tract, call):
    usual = tract.executor.permission
    tract.executor.permission = lambda tool, actor: (
        Permission.DENY if tool.name == "status" and actor != "user" else usual(tool, actor)
    )
    result = call("notebook_execute", code="tools.status()")
    assert "has no permission to call 'status'" in result.output["output"]


@pytest.mark.parametrize("backend", ["sandbox", "kernel"])
def test_notebooks(tract, call, backend):
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    assert call("notebook_create", notebook_id="work", backend=backend).success
    assert "already" in call("notebook_create", notebook_id="work", backend=backend).error
    assert call("notebook_execute", code="n = 1\nrows = [1]", notebook_id="work", backend=backend).success
    variables = call("notebook_variables", notebook_id="work", backend=backend).output
    assert {name: kind.partition("[")[0] for name, kind in variables.items()} == {"n": "int", "rows": "list"}
    assert call("notebook_list").output == [{"notebook_id": "work", "backend": backend, "variables": 2}]
    assert call("notebook_reset", notebook_id="work", backend=backend).output["forgotten"] == 2
    assert call("notebook_variables", notebook_id="work", backend=backend).output == {}
    assert (
        "no script notebook 'wrok'" in call("notebook_variables", notebook_id="wrok", backend=backend).error
    )


def test_an_invalid_script_call_has_a_clear_error(call):
    assert "line 1" in call("notebook_execute", code="x = (").error
    assert "invalid id" in call("notebook_execute", code="1", notebook_id="a b").error
    assert "backend" in call("notebook_execute", code="1", backend="moon").error


def test_a_models_kernel_script_can_use_the_users_variables_by_notebook_id(tract, call):
    channel = tract.reviewer.channel = FakeChannel(*[lambda ticket: click(ticket, "approve")] * 2)
    own = tract.scripts.notebooks.user_namespace = {"rows": [1, 2]}
    result = call("notebook_execute", code="n = len(rows)\nn", backend="kernel", notebook_id="user")
    assert result.output["result"] == "2"
    assert own["n"] == 2
    assert channel.shown[0][0].title == "Run a script in the kernel, with your variables"
    assert "NameError" in call("notebook_execute", code="rows", backend="kernel").output["output"]


@pytest.mark.parametrize(
    ("code", "notebook", "found"),
    [
        ("calc('1')", "a", {"TJ102"}),
        ("calc('1')", "b", set()),
        ("drop(x)", "user", {"TJ203"}),
        ("drop(x)", "a", set()),
    ],
)
def test_the_review_of_kernel_code_considers_earlier_code_of_the_notebook(tract, call, code, notebook, found):
    channel = tract.reviewer.channel = FakeChannel(*[lambda ticket: click(ticket, "approve")] * 2)
    notebooks = tract.scripts.notebooks
    notebooks.user_namespace = {}
    notebooks.user_cells = lambda: ["import os, numpy as np", "drop = np.vectorize(os.remove)"]
    call("notebook_execute", code="def calc(x):\n    return eval(x)", backend="kernel", notebook_id="a")
    call("notebook_execute", code=code, backend="kernel", notebook_id=notebook)
    request, _ = channel.shown[-1]
    assert request.code[0].code == code
    assert {each.code for each in request.code[0].findings if each.level >= "high"} == found


def test_the_users_variables_are_not_in_the_sandbox_or_the_list_of_notebooks(tract, call):
    tract.scripts.notebooks.user_namespace = {"rows": [1, 2]}
    assert "cannot access" in call("notebook_execute", code="rows", notebook_id="user").error
    assert "no script notebook" in call("notebook_variables", notebook_id="user", backend="kernel").error
    for backend in ("kernel", "sandbox"):
        assert "of the user" in call("notebook_create", notebook_id="user", backend=backend).error


def test_without_a_users_notebook_its_id_is_an_error(call):
    assert (
        "does not exist here"
        in call("notebook_execute", code="1", backend="kernel", notebook_id="user").error
    )


def test_the_user_may_edit_the_code_before_approval_and_the_model_sees_the_change(tract, call):
    channel = tract.reviewer.channel = FakeChannel(
        lambda ticket: click(ticket, "approve", edits={"code": "'mine'"})
    )
    result = call("notebook_execute", code="'yours'", backend="kernel")
    assert (result.output["result"], result.output["changed_by_the_person"]) == ("'mine'", "'mine'")
    assert [field.name for field in channel.shown[0][0].fields] == ["code"]
    assert tract.events("script")[0].data["code"] == "'mine'"
    (decision,) = tract.review.decisions()
    assert decision.arguments == {"edits": {"code": "'mine'"}}


def test_code_that_is_not_changed_into_python_is_not_decided(tract, call):
    channel = tract.reviewer.channel = FakeChannel(
        lambda ticket: click(ticket, "approve", edits={"code": "x ="}),
        lambda ticket: click(ticket, "approve"),
    )
    result = call("notebook_execute", code="'yours'", backend="kernel")
    assert result.output["result"] == "'yours'"
    assert "changed_by_the_person" not in result.output
    assert "invalid syntax" in channel.shown[1][0].note
