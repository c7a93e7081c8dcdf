"""`%%tract_run` and the subcommands about runs, in a shell with a tract and a scripted model."""

import re

import pytest

from tests.review.scripted import ScriptedClient, said
from tract_jupyter.notebook import await_waiting_cells
from tract_jupyter.runs.profile import OperationProfile, run_operation

pytestmark = pytest.mark.usefixtures("model")
ASK = "%%tract_run --profile research --out answer\nWhich is newest?\n"
NEVER = ValueError("the provider is away")


def ran(shell, cell=ASK):
    """The run of a cell, by its id in the store."""
    assert shell.run(cell).ok
    return shell.namespace["tract"].runs()[0].run_id


def test_the_text_of_a_cell_is_sent_as_the_message_of_the_user(shell, model):
    result = shell.run(ASK.replace("--out", "--model small --out"))
    assert result.ok, result.error
    ((messages, options),) = model.asked
    assert [one["content"] for one in messages] == ["Be careful. Be brief.", "Which is newest?"]
    assert options == {"model": "small"}
    assert shell.namespace["answer"].text == "THE SURVEY."
    assert re.search(r"Run \w{8}: done \(trigger generate, profile research, branch main", result.text)
    assert "Its condition does not hold: question.is_question is true, and should be false." in result.text
    assert "Committed before the main call: question → style" in result.text
    assert 'data-testid="tract-run-operations"' in result.html
    assert said(shell.namespace["tract"])[-1] == ("assistant", "THE SURVEY.")


def test_a_cell_may_have_another_model_asked(shell, model):
    other = ScriptedClient("Other.", "A vendor's.")
    shell.namespace["tract"].models.add("mine", other)
    assert shell.run("%%tract_run --profile research --model mine\nWhich?").ok
    assert said(shell.namespace["tract"])[-1] == ("assistant", "OTHER.")
    assert (model.asked, len(other.asked)) == ([], 1)
    # a server with names like 'vendor/one' accepts any model name
    shell.namespace["tract"].models.add("router", other, model="vendor/one", replace=True)
    shell.namespace["tract"].models.use("router")
    assert shell.run("%%tract_run --model vendor/two\nWhich?").ok
    assert other.asked[-1][1]["model"] == "vendor/two"


def test_an_empty_cell_has_the_context_answered(shell):
    shell.namespace["tract"].user("Which?")
    assert "trigger generate" in shell.run("%%tract_run\n").text
    result = shell.run("%%tract_run --regenerate\n\n")
    assert "trigger regenerate" in result.text
    assert said(shell.namespace["tract"])[1:] == [("user", "Which?"), ("assistant", "The census.")]


def test_without_a_profile_it_is_a_run_all_the_same(shell):
    result = shell.run("%%tract_run\nWhich?")
    assert "profile none" in result.text
    assert "No operations: the context was sent without changes." in result.html
    assert len(shell.namespace["tract"].runs()) == 1


def test_the_active_profile_is_used(shell):
    shell.namespace["tract"].profiles.activate("research")
    assert "profile research" in shell.run("%%tract_run\nWhich?").text


def test_a_run_that_failed_is_shown_with_one_line_of_error(shell, model):
    model.replies = [NEVER]
    result = shell.run(ASK)
    assert not result.ok
    assert re.fullmatch(
        r"Run \w{8}: the main call failed: provider_error: ValueError: the provider is away", result.error
    )
    assert re.search(r"Run \w{8}: failed", result.text)
    assert "Traceback" not in result.text


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("%%tract_run --regenerate\nAnd this?", "leave the cell empty"),
        ("%%tract_run --profile reserch\nAnd this?", "There is no profile 'reserch'"),
        ("%%tract_run --nothing\nx", "%%tract_run has no option '--nothing'"),
    ],
)
def test_a_mistake_in_a_cell_says_nothing_to_the_model(shell, model, cell, told):
    result = shell.run(cell)
    assert not result.ok
    assert told in result.error + result.text
    assert model.asked == []
    assert said(shell.namespace["tract"]) == [("system", "Be careful.")]


def test_the_cell_is_awaited():
    (line,) = await_waiting_cells(["%%tract_run --model x\n", "one\n", "two"])
    assert line == "await get_ipython().run_cell_magic('tract_run', '--model x', 'one\\ntwo')\n"
    assert await_waiting_cells(["%%tract_runs\n"]) == ["%%tract_runs\n"]


def test_runs_are_listed(shell, model):
    model.replies.insert(1, NEVER)
    run_id = ran(shell)
    shell.run(ASK)
    result = shell.run("%tract runs")
    assert re.search(rf"{run_id[:8]} .*generate  done +research +3 of 4 .* THE SURVEY\.", result.text)
    assert "failed: main_llm" in result.text
    assert run_id[:8] not in shell.run("%tract runs 1").text


def test_no_runs_yet(shell):
    assert "None yet" in shell.run("%tract runs").text
    assert "there are no runs yet" in shell.run("%tract run").error


def test_a_stored_run_is_shown_with_the_time_of_its_main_call(shell):
    run_id = ran(shell)
    result = shell.run(f"%tract run {run_id[:6]}")
    assert f"Run {run_id[:8]}: done" in result.text
    assert "its own time is not known" not in result.html
    assert 'data-testid="tract-run-prompt"' in result.html
    assert result.text == shell.run("%tract run").text


def test_the_prompt_of_a_run_is_counted_as_the_tract_counts(shell):
    run_id = ran(shell)
    text = shell.run(f"%tract run {run_id} --prompt").text
    assert text.startswith(f"Prompt of run {run_id[:8]}: 2 messages: 1 changed, 1 unchanged")
    tract = shell.namespace["tract"]
    counts = [tract.tokenizer.count_text(one.content) for one in tract.runs.get(run_id).prompt]
    tokens = sum(map(tract.corrected, counts))
    assert re.search(rf"\b{tokens} tokens", text)


@pytest.mark.parametrize("expression", ["tract.runs.get(run_id)", "answer"], ids=["run", "response"])
def test_a_run_that_is_a_value_is_shown(shell, expression):
    shell.namespace["run_id"] = run_id = ran(shell)
    result = shell.run(f"from IPython.display import display\ndisplay({expression})")
    assert f"Run {run_id[:8]}: done" in result.text
    assert 'data-testid="tract-run-operations"' in result.html


def test_a_plain_call_with_an_active_profile_shows_its_run(shell):
    shell.namespace["tract"].profiles.activate("research")
    result = shell.run("tract.chat('Which?')")
    assert re.search(r"Run \w{8}: done", result.text)


@pytest.mark.slow
def test_ctrl_c_in_a_plain_call_ends_the_run_as_aborted(shell, model):
    model.chat = interrupted
    assert "KeyboardInterrupt" in shell.run("tract.chat('Which?', profile='research')").text
    (run,) = shell.namespace["tract"].runs()
    assert run.status == "aborted"
    assert not run.reply
    assert "It was aborted. Nothing was committed afterwards." in shell.run("%tract run").text


def interrupted(*_, **__):
    raise KeyboardInterrupt


# --- resuming


def crash(shell, model):
    """A run whose process ended before the main call returned."""
    tract = shell.namespace["tract"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tract_jupyter.runs.main_call.MainCaller.make", interrupted_hard)
        with pytest.raises(SystemExit):
            tract.chat("Which?", profile="research")
    return tract.runs()[0].run_id[:8]


def interrupted_hard(*_, **__):
    raise SystemExit


def test_a_crashed_run_says_how_to_go_on_and_does(shell, model):
    run_id = crash(shell, model)
    told = shell.run(f"%tract run {run_id}")
    assert f"its process has ended. %tract run {run_id} --resume continues it" in (told.text)
    assert f"Run {run_id}: interrupted" in told.text
    assert ">interrupted<" in told.html
    assert re.search(rf"{run_id} .* interrupted ", shell.run("%tract runs").text)
    result = shell.run(f"%tract run {run_id} --resume")
    assert result.ok, result.error
    assert f"Run {run_id}: done" in result.text
    assert len(model.asked) == 1
    assert "has ended. generate() makes another one" in shell.run(f"%tract run {run_id} --resume").error


def test_a_waiting_run_can_be_resumed_after_the_decision(shell):
    shell.run(
        "%%tract_operation confirm --activate --ask\ntext: str\ndef yes(pending):\n    pending.approve()\n"
    )
    tract = shell.namespace["tract"]
    asks = run_operation(
        "sure", "dynamic", order=1, operation="confirm", fields={"text": "ask it?"}, required=True
    )
    tract.profiles.save(OperationProfile.of("careful", [asks]), activate=True)
    result = shell.run("%%tract_run\nWhich?")
    run_id = tract.runs()[0].run_id[:8]
    assert f"Run {run_id} waits for a decision about 'sure'" in result.error
    assert f"%tract inbox. Then %tract run {run_id} --resume resumes it." in result.text
    assert not shell.run("%tract run --resume").ok
    (waiting,) = tract.review.inbox()
    tract.operations.rebuild(waiting).approve()
    assert f"Run {run_id}: done" in shell.run("%tract run --resume").text


def test_a_replay_tells_the_root_hash(shell, model):
    run_id = ran(shell)
    result = shell.run(f"%tract run {run_id[:8]} --replay")
    assert f"Run {run_id[:8]}: the replay gives the same result" in result.text
    assert shell.namespace["tract"].runs.get(run_id).root_hash in result.text
    assert len(model.asked) == 1


def test_a_run_that_has_not_ended_is_not_replayed(shell, model):
    run_id = crash(shell, model)
    assert (
        "has not ended, so it cannot be replayed. Resume it, or wait for its end"
        in shell.run(f"%tract run {run_id} --replay").error
    )


# --- mistakes, help, completion


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("run xyz", "There is no run 'xyz'. tract.runs() or %tract runs lists them."),
        ("run a b", "usage: %tract run [ID] [--prompt | --resume | --replay]"),
        ("run --all", "Usage: %tract "),
        ("run --prompt --replay", "usage: %tract "),
        ("runs all", "takes one number"),
    ],
)
def test_a_users_mistake_is_one_line(shell, line, told):
    result = shell.run(f"%tract {line}")
    assert not result.ok
    assert told in result.error


def test_help_tells_of_them(shell):
    text = shell.run("%tract help").text
    for usage in ("%tract runs [N]", "%tract run [ID]", "%tract profile [NAME]", "%%tract_run"):
        assert usage in text


def test_completions(shell):
    run_id = ran(shell)[:8]
    for line, offered in {
        f"%tract run {run_id[:2]}": {run_id},
        f"%tract run {run_id} --": {"--prompt", "--resume", "--replay", "--dry"},
        f"%tract run {run_id} {run_id[:1]}": set(),
        "%tract profile re": {"research"},
        "%tract profile research --a": {"--activate", "--adopt"},
        "%%tract_run --profile r": {"research"},
        "%%tract_run --re": {"--regenerate"},
    }.items():
        typed = {"line_with_cursor": line, "cursor_position": len(line), "full_text": line, "cursor_line": 0}
        context = type("Context", (), typed)
        found = shell.ip.Completer.custom_matchers[-1](context)
        assert {one.text for one in found["completions"]} == offered, line


def test_a_run_that_failed_tells_its_error_once(shell, model):
    model.replies = [NEVER, NEVER]
    for cell in (ASK, "%%tract_run\nAgain?\n"):
        before, _, shown = shell.run(cell).text.partition("\nRun ")
        assert re.fullmatch(r"Run \w{8} failed: see above\.", before)
        assert "The provider failed: ValueError: the provider is away." in shown
