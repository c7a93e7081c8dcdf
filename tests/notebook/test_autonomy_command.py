"""`%tract autonomy`: show and set the level, and mistakes."""

from __future__ import annotations

import pytest
from IPython.core.completer import CompletionContext


def test_the_command_shows_and_sets_the_level(shell):
    assert "Policies and orchestrators ask you before each change" in shell.run("%tract autonomy").text
    assert "destructive actions still need your approval" in shell.run("%tract autonomy autonomous").text
    assert "including destructive actions" in shell.run("%tract autonomy --destructive").text
    assert (
        shell.run("print(tract.autonomy)").text == "<Autonomy: autonomous at most, destructive tools too>\n"
    )
    assert (
        "report their proposals and change nothing"
        in shell.run("%tract autonomy manual --no-destructive").text
    )
    assert shell.run("print(tract.autonomy)").text == "<Autonomy: manual at most>\n"


def test_the_command_reports_a_lower_ceiling_of_the_orchestrator(shell):
    told = shell.run("%tract autonomy autonomous").text
    assert "The settings of the orchestrator limit it to the level collaborative" in told
    shell.run("from tract_jupyter import OrchestratorConfig")
    shell.run("tract.orchestrator.config = OrchestratorConfig(autonomy_ceiling='autonomous')")
    assert "The settings of the orchestrator" not in shell.run("%tract autonomy").text


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("total", "'total' is not a level of autonomy; use one of manual, collaborative, autonomous"),
        ("manual autonomous", "usage: %tract autonomy"),
        ("autonomous --destructive --no-destructive", "got both options"),
        ("--all", "%tract autonomy has no option '--all'"),
        ("sky --destructive", "is not a level"),
    ],
)
def test_invalid_input_gives_an_error_and_changes_nothing(shell, typed, told):
    result = shell.run(f"%tract autonomy {typed}")
    assert not result.ok
    assert told in result.text
    assert shell.run("print(tract.autonomy)").text == "<Autonomy: collaborative at most>\n"


def test_the_levels_complete(shell):
    context = CompletionContext("", "%tract autonomy ", 16, 0, None)
    found = shell.ip.Completer.custom_matchers[-1](context)["completions"]
    assert [one.text for one in found] == [
        "manual",
        "collaborative",
        "autonomous",
        "--destructive",
        "--no-destructive",
    ]
