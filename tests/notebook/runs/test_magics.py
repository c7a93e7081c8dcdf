"""`%%tract_run` and the subcommands about runs and profiles, in a shell."""

import re

import pytest

from tract_jupyter.notebook.awaiting import await_waiting_cells
from tract_jupyter.runs.terms import Trigger

pytestmark = pytest.mark.usefixtures("runs")


def test_a_cell_is_what_the_user_says(shell, runs):
    result = shell.run("%%tract_run --profile research --model small --out r\nWhich is newest?\n")
    assert result.ok, result.error
    ((text, options),) = runs.asked
    assert text == "Which is newest?"
    assert (options["profile"], options["model"]) == ("research", "small")
    assert shell.namespace["r"].text == "The survey."
    assert "Run 7f3a9c1e: done" in result.text
    assert 'data-testid="tract-run-graph"' in result.html


def test_an_empty_cell_has_the_context_answered(shell, runs):
    assert shell.run("%%tract_run\n").ok
    assert shell.run("%%tract_run --regenerate\n\n").ok
    assert [(text, options["trigger"]) for text, options in runs.asked] == [
        (None, Trigger.GENERATE), (None, Trigger.REGENERATE),
    ]  # fmt: skip
    assert all("profile" not in options for _, options in runs.asked)


def test_a_run_that_failed_is_shown_with_one_line_of_error(shell, runs):
    runs.fails = True
    result = shell.run("%%tract_run\nWhich?")
    assert not result.ok
    assert result.error == "run 7f3a9c1e failed in the main call"
    assert "Run 7f3a9c1e: failed" in result.text
    assert "Traceback" not in result.text


def test_a_mistake_is_one_line(shell, runs):
    result = shell.run("%%tract_run --regenerate\nAnd this?")
    assert not result.ok
    assert "leave the cell empty" in result.error
    assert runs.asked == []
    assert not shell.run("%%tract_run --nothing\nx").ok


def test_the_cell_is_awaited():
    (line,) = await_waiting_cells(["%%tract_run --model x\n", "one\n", "two"])
    assert line == "await get_ipython().run_cell_magic('tract_run', '--model x', 'one\\ntwo')\n"
    assert await_waiting_cells(["%%tract_runs\n"]) == ["%%tract_runs\n"]


def test_runs_are_listed(shell):
    result = shell.run("%tract runs")
    assert re.search(r"7f3a9c1e .*generate  done +research +5 of 5  4\.00 s  The survey\.", result.text)
    assert "failed: main_llm" in result.text
    assert "7f3a0000" not in shell.run("%tract runs 1").text


def test_a_run_that_is_a_value_is_shown(shell):
    result = shell.run("from IPython.display import display\ndisplay(tract.runs()[0])")
    assert "Run 7f3a9c1e: done" in result.text
    assert 'data-testid="tract-run-graph"' in result.html


def test_no_runs_yet(shell, runs):
    runs.kept = []
    assert "None yet" in shell.run("%tract runs").text
    assert "there are no runs yet" in shell.run("%tract run").error


def test_one_run_by_its_beginning(shell):
    result = shell.run("%tract run 7f3a9")
    assert "Run 7f3a9c1e: done" in result.text
    assert 'data-testid="tract-run-prompt"' in result.html
    assert "Run 7f3a9c1e" in shell.run("%tract run").text
    assert shell.run("%tract run 7f3a9 --prompt").text.startswith("Prompt of run 7f3a9c1e: 12 messages")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run 7f3a", "2 runs begin with '7f3a': 7f3a9c1e55aa, 7f3a0000"),
        ("run abc", "this tract has no run 'abc'"),
        ("run a b", "%tract run [ID] [--prompt] is how it is used"),
        ("run --all", "%tract run [ID] [--prompt] is how it is used"),
        ("runs all", "takes one number"),
        ("profiles all", "takes no arguments"),
        ("profile nothing", "there is no profile 'nothing'"),
        ("profile nothing --activate", "there is no profile 'nothing'"),
        ("profile", "no profile is active"),
        ("profile --activate", "is how it is used"),
        ("profile research --off", "is how it is used"),
        ("profile research --activate --off", "is how it is used"),
        ("profile --of", "is how it is used"),
    ],
)
def test_a_users_mistake_is_one_line(shell, line, said):
    result = shell.run(f"%tract {line}")
    assert not result.ok
    assert said in result.error


def test_profiles_are_listed_and_shown(shell):
    assert re.search(r"research +2\b", shell.run("%tract profiles").text)
    result = shell.run("%tract profile research")
    assert "Profile research: not active (runs concurrent, version 2, session default" in result.text
    assert "! style.artifact: nobody reads art.style" in result.text
    assert 'data-testid="tract-profile-graph"' in result.html
    assert "nobody reads art.style" in result.html
    assert "It has no operations." in shell.run("%tract profile my diary").text


def test_a_profile_is_activated_and_put_aside(shell):
    assert "Profile my diary: active" in shell.run("%tract profile my diary --activate").text
    assert re.search(r"→ +my diary", shell.run("%tract profiles").text)
    assert "Profile my diary: active" in shell.run("%tract profile").text
    assert "No profile is active" in shell.run("%tract profile --off").text
    assert "→" not in shell.run("%tract profiles").text


def test_help_tells_of_them(shell):
    text = shell.run("%tract help").text
    for usage in ("%tract runs [N]", "%tract run [ID] [--prompt]", "%tract profile [NAME]", "%%tract_run"):
        assert usage in text


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%tract run 7f", {"7f3a9c1e", "7f3a0000"}),
        ("%tract run 7f3a9c1e --", {"--prompt"}),
        ("%tract run 7f3a9c1e 7", set()),
        ("%tract profile re", {"research"}),
        ("%tract profile research --a", {"--activate"}),
        ("%%tract_run --profile r", {"research"}),
        ("%%tract_run --re", {"--regenerate"}),
    ],
)
def test_completions(shell, line, offered):
    context = type("Context", (), {"line_with_cursor": line, "cursor_position": len(line)})
    found = shell.ip.Completer.custom_matchers[-1](context)
    assert {one.text for one in found["completions"]} == offered
