"""`%tract_orchestrate` without a front end: its line, its final view, and stored runs."""

from __future__ import annotations

import re

import pytest

from tests.orchestrator.conftest import SUMMARY, compress, thinks
from tests.review.scripted import ScriptedClient
from tract_jupyter.models import TokenBudget
from tract_jupyter.notebook import await_waiting_cells


@pytest.fixture
def model(shell):
    """A function that gives the shell's tract, which is over its budget, a scripted model."""

    def use(*replies):
        tract = shell.namespace["tract"]
        tract.system("Count the birds of the lake.", priority="pinned")
        for number in range(6):
            tract.user(f"In week {number} there were {number * 7} birds, {'and so on ' * 30}.")
        tract.budget = TokenBudget(200, action="callback", callback=lambda *_: None)
        client = ScriptedClient(*replies)
        tract.configure_llm(client)
        return client

    return use


# --- the line

MISTAKES = {
    "--autonomie manual": "no option '--autonomie'. Did you mean '--autonomy'? It takes --autonomy, --steps",
    "--autonomy": "--autonomy needs a value",
    "--autonomy total": "'total' is not a level of autonomy; use one of manual, collaborative, autonomous",
    "--steps 0": "--steps takes a number of calls from 1 to 1,000, not '0'",
    "--steps many": "--steps takes a number of calls from 1 to 1,000, not 'many'",
    "--profile ful": "no tool profile 'ful'",
    "--out 1a": "--out takes the name of a variable, not '1a'",
    "--out tract": "--out cannot replace 'tract'",
    "--resume because": "a resumed run keeps its reason",
    "--resume --autonomy manual": "a resumed run keeps its reason",
    "--resume run-7": "there are no runs yet",
}


@pytest.mark.parametrize(("line", "told"), MISTAKES.items(), ids=list(MISTAKES))
def test_a_mistake_gives_a_one_line_error_and_nothing_is_sent(shell, model, line, told):
    client = model("Fine.")
    result = shell.run(f"%tract_orchestrate {line}")
    assert told in result.error
    assert "\n" not in result.error
    assert client.asked == []


@pytest.mark.slow
def test_a_cell_takes_its_reason_below(shell, model):
    client = model("Fine.")
    assert "put the reason below it, not 'now'" in shell.run("%%tract_orchestrate now\nall of it").error
    assert client.asked == []
    assert shell.run("%%tract_orchestrate --steps 3\nit's near its budget").ok
    assert "You were called because: it's near its budget" in client.asked[0][0][-1]["content"]


def test_without_a_model_it_says_how_to_choose_one(shell):
    shell.namespace["tract"].user("Hello")
    assert "the orchestrator has no model" in shell.run("%tract_orchestrate").error


def test_the_model_option_works_without_a_configured_model(shell, model):
    model("Not asked.")
    tract = shell.namespace["tract"]
    other = ScriptedClient("Fine.", "Fine.")
    tract.models.use(None)
    tract.models.add("router", other, model="vendor/one")
    assert shell.run("%tract_orchestrate --model router").ok
    assert len(other.asked) == 1
    tract.models.use("router")
    assert shell.run("%tract_orchestrate --model vendor/two").ok
    assert other.asked[-1][1]["model"] == "vendor/two"


def test_of_an_empty_context_no_model_is_asked(shell):
    assert "The context is empty" in shell.run("%tract_orchestrate").text


@pytest.mark.parametrize(
    ("typed", "run"),
    [
        ("%tract_orchestrate it's \"full\"\n", "await get_ipython().run_line_magic('tract_orchestrate', 'it\\'s \"full\"')\n"),
        ("%tract_orchestrate\n", "await get_ipython().run_line_magic('tract_orchestrate', '')\n"),
        ("%tract_orchestrate?\n", "%tract_orchestrate?\n"),
        ("%%tract_orchestrate\n", "await get_ipython().run_cell_magic('tract_orchestrate', '', '\\n')\n"),
    ],
)  # fmt: skip
def test_the_magic_is_awaited(typed, run):
    assert await_waiting_cells([typed]) == [run]


NOT_RUN = {
    "if True:\n    %tract_orchestrate it is full": "%tract_orchestrate did not run",
    "for _ in range(1):\n    %tract_orchestrate": "%tract_orchestrate did not run",
    "def look():\n    %tract_orchestrate\nlook()": "%tract_orchestrate did not run",
    "get_ipython().run_line_magic('tract_orchestrate', ''); None": "%tract_orchestrate did not run",
    "if True:\n    %tract_propose check it": "%tract_propose did not run",
    "if True:\n    %tract chat resume": "%tract chat resume did not run",
    "get_ipython().run_cell_magic('tract_chat', '', 'Hello'); None": "%%tract_chat did not run",
    "get_ipython().run_cell_magic('tract_script', '', '1 + 1'); None": "%%tract_script did not run",
}


@pytest.mark.parametrize(
    ("cell", "told"), NOT_RUN.items(), ids=[str(number) for number in range(len(NOT_RUN))]
)
def test_a_magic_that_cannot_be_awaited_says_that_it_did_not_run(shell, model, cell, told):
    client = model("Fine.")
    result = shell.run(cell)
    assert result.ok, result.error
    assert f"{told}, because a block, a function or an expression cannot wait for it" in result.text
    assert result.text.count("did not run") == 1
    assert "never awaited" not in result.text
    assert client.asked == []


def test_a_magic_stored_in_a_variable_can_be_awaited_later(shell, model):
    client = model("Fine.")
    kept = shell.run("run = %tract_orchestrate\nrun")
    assert "%tract_orchestrate has not run" in kept.text
    assert client.asked == []
    assert shell.run("await run").ok
    assert len(client.asked) == 1
    assert "did not run" not in shell.run("del run").text


def test_tab_offers_options_and_their_values(shell, model):
    model("Fine.")
    shell.run("%tract_orchestrate")
    assert "--autonomy" in shell.complete("%tract_orchestrate --a")
    assert "manual" in shell.complete("%tract_orchestrate --autonomy m")
    assert "supervisor" in shell.complete("%tract_orchestrate --profile s")
    assert "run-1" in shell.complete("%tract_orchestrate --resume r")
    assert "run-1" in shell.complete("%tract orchestrator show r")


# --- a run


def test_a_run_is_shown_and_drawn_again_from_the_store(shell, model):
    model(thinks("I read it.", compress(reasoning="1,000 % of the budget")), "Compressed.")
    shell.run("%tract autonomy autonomous --destructive")
    shown = shell.run("%tract_orchestrate --autonomy autonomous --out result near the budget").text
    assert re.search("Looks after main of tract [0-9a-f]{12} · autonomous: it acts without asking you", shown)
    assert "Why: near the budget" in shown
    assert "Request to the model" in shown
    assert "Why: 1,000 % of the budget" in shown
    assert "✓ compress" in shown
    assert 'reasoning="' not in shown
    result = shell.namespace["result"]
    context = f"context {result.tokens_before:,} → {result.tokens_after:,} of 200 tokens"
    assert context in shown
    assert "1 change made %tract undo --yes takes it back" in shown
    again = shell.run("%tract orchestrator show 1")
    assert again.ok, again.error
    assert "Why: 1,000 % of the budget" in again.text
    assert "1 change made" in again.text
    assert context in again.text
    assert "data-turn=" in again.html
    listed = shell.run("%tract orchestrator").text
    assert re.search(r"run-1 .*near the budget.*autonomous.*1.*1 change made", listed)
    assert shell.namespace["tract"].compile().messages[-1].content == SUMMARY
    shell.run("%tract undo --yes")
    assert shell.namespace["tract"].status().token_count == result.tokens_before


def test_with_autonomy_manual_a_call_is_reported_but_not_run(shell, model):
    model(thinks(None, compress()), "I would compress it.")
    shown = shell.run("%tract_orchestrate --autonomy manual").text
    assert "manual: it reports its proposals and changes nothing" in shown
    assert "reported, not run" in shown
    assert "Nothing was changed; 1 proposal reported but not executed, because autonomy was manual" in shown


def test_without_a_user_the_run_waits_and_can_be_resumed(shell, model):
    client = model(thinks(None, compress(reasoning="too full")), "Compressed.")
    result = shell.run("%tract_orchestrate")
    assert "calls wait for a decision" in result.error
    assert "Waits for decisions: see above. Queued cells did not run." in result.text
    assert "%tract_orchestrate --resume continues" in result.text
    tract = shell.namespace["tract"]
    (waiting,) = tract.review.inbox()
    assert waiting.fields["content"] == SUMMARY
    again = shell.run("%tract_orchestrate --resume run-1")
    assert "Resumed where it stopped." in again.text
    assert len(client.asked) == 1  # the reply is already stored, and its call needs approval again
    assert [one.fields["content"] for one in tract.review.inbox()] == [SUMMARY]


def test_a_run_that_came_to_its_end_is_only_shown_when_resumed(shell, model):
    client = model("It is fine as it is.")
    shell.run("%tract_orchestrate")
    again = shell.run("%tract_orchestrate --resume")
    assert again.ok, again.error
    assert "It is fine as it is." in again.text
    assert "Nothing was changed" in again.text
    assert len(client.asked) == 1


def test_text_of_the_model_is_escaped(shell, model):
    model(thinks("<script>bad()</script>", compress(reasoning="<img src=x onerror=bad()>")), "Done.")
    shell.run("%tract_orchestrate --autonomy manual '<b>why</b>'")
    page = shell.run("%tract orchestrator show").html
    assert "&lt;img src=x" in page
    assert "&lt;b&gt;why" in page
    assert not re.search(r"<(script|img|b>why)", page)


def test_an_unknown_run_gives_an_error(shell, model):
    model("Fine.")
    shell.run("%tract_orchestrate")
    assert "there is no run 'run-9'; the newest are run-1" in shell.run("%tract orchestrator show 9").error
    assert "usage: %tract orchestrator" in shell.run("%tract orchestrator draw").error
