"""`%tract_propose` without a front end: its line, its texts, its template, and a user at a prompt."""

from __future__ import annotations

import pytest

from tests.operations.test_writing import BROKEN, FINE, SYNTAX, WANTED, written
from tests.review.scripted import ScriptedClient
from tract_jupyter.notebook import await_waiting_cells, parse_cell
from tract_jupyter.operations import check_code, check_spec
from tract_jupyter.prompts import operation_template


@pytest.fixture
def model(shell):
    """A function that gives the shell's tract a scripted model."""

    def use(*proposals):
        client = ScriptedClient(*written(*proposals))
        shell.namespace["client"] = client
        assert shell.run("tract.configure_llm(client)").ok
        return client

    return use


# --- the line

MISTAKES = {
    "": "describe the operation: %tract_propose",
    "''": "describe the operation",
    "--tmplate x": "no option '--tmplate'. Did you mean '--template'?",
    "--tries x y": "--tries takes a number from 1 to 20, not 'x'",
    "--tries=0 y": "--tries takes a number from 1 to 20, not '0'",
    "--versions": "--versions needs a value",
    "--model --out x": "--model needs a value",
    "--out 1a text": "--out takes the name of a variable, not '1a'",
    "--out tract text": "--out cannot replace 'tract'",
}


@pytest.mark.parametrize(("line", "told"), MISTAKES.items(), ids=[name or "nothing" for name in MISTAKES])
def test_a_mistake_gives_an_error_and_nothing_is_sent(shell, model, line, told):
    client = model(FINE)
    result = shell.run(f"%tract_propose {line}".rstrip())
    assert told in result.error
    assert result.error.endswith("Nothing was sent")
    assert client.asked == []


def test_a_cell_takes_its_text_below(shell, model):
    client = model(FINE)
    assert "put the text below it" in shell.run("%%tract_propose check it\nall of it").error
    assert "describe the operation" in shell.run("%%tract_propose --tries 2\n  ").error
    assert client.asked == []


def test_without_a_model_it_says_how_to_choose_one(shell):
    result = shell.run(f"%tract_propose {WANTED}")
    assert "no language model is configured; type %tract model" in result.error
    assert "--template needs no model" in result.error


@pytest.mark.parametrize(
    ("typed", "run"),
    [
        ('%tract_propose "it\'s a {x} $y"\n', "await get_ipython().run_line_magic('tract_propose', '\"it\\'s a {x} $y\"')\n"),
        ("%tract_propose\n", "await get_ipython().run_line_magic('tract_propose', '')\n"),
        ("%tract_propose?\n", "%tract_propose?\n"),
        ("%tract_proposer x\n", "%tract_proposer x\n"),
    ],
)  # fmt: skip
def test_a_line_is_awaited(typed, run):
    assert await_waiting_cells([typed]) == [run]


def test_a_cell_is_awaited():
    assert await_waiting_cells(["%%tract_propose --tries 2\n", "check it\n"]) == [
        "await get_ipython().run_cell_magic('tract_propose', '--tries 2', 'check it\\n')\n"
    ]


def test_tab_offers_the_options(shell):
    assert "--template" in shell.complete("%tract_propose --t")


# --- the template

TEXTS = (
    "",
    WANTED,
    'a """quoted""" \\ text\nin two lines',
    "import class def",
    "Ünïcode “quotes” 日本",
    "x" * 300,
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_unchanged_template_is_a_valid_operation(text):
    first, _, body = operation_template(text).partition("\n")
    parsed = parse_cell(first.removeprefix("%%tract_operation "), body, "python")
    spec = check_spec(parsed.spec)
    for action in spec.actions.values():
        check_code(action)
    assert spec.description


def test_the_template_goes_into_the_next_prompt(shell):
    result = shell.run(f"%tract_propose --template {WANTED}")
    assert result.ok
    shown = result.text + (getattr(shell.ip, "rl_next_input", None) or "")
    assert "%%tract_operation check_citation_survives" in shown
    assert '"""Check that every citation survives."""' in shown


# --- in a terminal, and headless


def test_without_a_user_the_proposal_waits_and_the_cell_says_so(shell, model):
    model(SYNTAX, FINE)
    result = shell.run(f'%tract_propose --out written "{WANTED}"')
    assert "there is no operation" in result.error
    assert "inbox" in result.error
    assert result.text.count("no user is available here") == 1
    assert "Refused before your review: action 'verify', line 1" in result.text
    assert shell.namespace["written"].pending.status == "pending"


def test_given_up_it_says_why(shell, model):
    client = model(BROKEN, BROKEN)
    result = shell.run(f"%tract_propose --tries=2 {WANTED}")
    assert "given up after 2 tries" in result.error
    assert len(client.asked) == 2


def test_a_kernel_asks_at_a_prompt_and_shows_how_it_went(kernel):
    setup = "from tests.review.scripted import ScriptedClient\nfrom tests.operations.test_writing import *\n"
    kernel.run(f"import sys; sys.path.insert(0, {str(__import__('pathlib').Path().resolve())!r})\n{setup}")
    kernel.run("tract.configure_llm(ScriptedClient(*written(BROKEN, DANGEROUS, FINE)))")
    result = kernel.run(f"%tract_propose {WANTED}", typed=("reject", "no programs", "approve"))
    assert result.ok, result.text
    assert "citations is active" in result.html
    assert "1 refused" in result.html
    assert "1 rejected" in result.html
    assert "A rehearsal cannot start a process: grep -r http ." in result.text
    assert "Rehearsal: Rehearsed on 5 inputs: 5 returned (5 approved)." in result.text
    assert "verify(): urls=[]" in result.text
