"""Operations whose code runs in the sandbox, in a notebook: defined, shown, listed."""

from __future__ import annotations

import pytest

from tract_jupyter.notebook.panels import body_html, record_html
from tract_jupyter.operations import ActionDef
from tract_jupyter.review import Channel

CELL = '''%%tract_operation check --sandbox
"""Check it."""
n: int = 1

def go(pending, by: int = 1):
    """Count."""
    pending.fields["n"] += by
    pending.approve()
'''
BODIES = {
    "yaml": "%%tract_operation check --yaml\nactions:\n  go:\n    isolation: sandbox\n    code: pending.approve()\n",
    "json": '%%tract_operation check --json\n{"actions": {"go": {"isolation": "sandbox", "code": "pending.approve()"}}}',
}
PROPOSE = """
tract.autonomy.ceiling = "autonomous"
from tract_jupyter import ActionDef, OperationSpec
go = ActionDef("go", "", {}, "pending.approve()", isolation="sandbox")
tract.propose_operation(OperationSpec("helper", "Helps.", {}, {"go": go}), actor="agent:7")
"""


def test_the_panel_names_the_attributes_that_sandboxed_code_can_use(shell):
    result = shell.run(CELL)
    assert "It runs in the sandbox, and can use only pending.fields, approve and reject." in result.text
    assert "go(by: int = 1), in the sandbox" in result.text


def test_a_panel_and_its_record_say_so_too(tract, spec):
    go = ActionDef("go", "", {}, "pending.approve()", isolation="sandbox")
    ticket = tract.reviewer.show(tract.propose_operation(spec(actions={"go": go})))
    reach = "It runs in the sandbox, and can use only pending.fields, approve and reject."
    assert reach in body_html(ticket)
    ticket.pending.approve()
    assert reach in record_html(ticket)


def test_activated_it_runs_there_and_is_listed(shell):
    shell.run(CELL.replace("--sandbox", "--sandbox --activate"))
    shell.run("p = %tract_fire check n=2 --review")
    assert shell.run("p.go(by=3); p.fields, str(p.status)").text.rstrip().endswith("({'n': 5}, 'approved')")
    assert "sandboxed" in shell.run("%tract ops").text
    assert "operation, sandboxed" in shell.run("%tract trust").text


@pytest.mark.parametrize("form", BODIES)
def test_the_dict_forms_know_it(shell, form):
    assert "It runs in the sandbox" in shell.run(BODIES[form]).text
    wrong = shell.run(BODIES[form].replace("sandbox", "sandbx"))
    assert not wrong.ok
    assert "isolation must be 'kernel' or 'sandbox', not 'sandbx'. Did you mean 'sandbox'?" in wrong.text


def test_a_name_missing_in_the_sandbox_is_reported_with_the_line_of_the_cell(shell):
    wrong = shell.run(CELL.replace("pending.approve()", "pending.tract.compile()"))
    assert not wrong.ok
    assert "line 8" in wrong.text
    assert "the sandbox has no 'pending.tract'" in wrong.text


def test_an_error_has_the_actions_lines(shell):
    shell.run(CELL.replace("--sandbox", "--sandbox --activate").replace("+= by", "/= 0"))
    shell.run("p = %tract_fire check --review")
    told = shell.run("p.go()").text
    assert '<action:check.go>", line 1' in told
    assert "ZeroDivisionError: division by zero" in told
    assert "site-packages" not in told


def test_every_list_marks_an_operation_without_a_review(shell):
    shell.run(CELL.replace("--sandbox", "--activate"))
    shell.run(PROPOSE)
    listed = shell.run("%tract ops").text
    assert "sandboxed, not reviewed" in listed
    assert "operation, sandboxed, not reviewed" in shell.run("%tract trust").text
    assert "no user has reviewed it" in shell.run("%tract_fire helper --review").text


def test_a_user_can_review_an_active_operation_by_its_name(shell):
    shell.run(PROPOSE)
    assert "active without a review" in shell.run("%tract review helper").text
    tract = shell.namespace["tract"]
    tract.reviewer.channel = Channel()  # like in a script of the user
    tract.operations.review_quarantined("helper").approve()
    assert "not reviewed" not in shell.run("%tract ops").text


def test_a_persons_cell_that_says_the_same_is_shown(shell):
    shell.run(PROPOSE)
    same = "%%tract_operation helper --yaml\ndescription: Helps.\nactions:\n  go:\n    isolation: sandbox\n    code: pending.approve()\n"
    assert "Activate operation helper" in shell.run(same).text
