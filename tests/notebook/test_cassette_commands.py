"""`%tract cassette` and `%tract fork`."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient


def head(shell):
    return shell.namespace["tract"].head


@pytest.fixture
def opened(shell):
    """Restart the session like a new kernel with an empty store."""

    def begin():
        shell.run("%config TractJupyter.store = ':memory:'")
        assert shell.run("%reload_ext tract_jupyter").ok
        return shell

    return begin


def test_a_notebook_is_recorded_and_replayed(opened, tmp_path):
    shell = opened()
    assert "No cassette is active" in shell.run("%tract cassette").text
    assert "are recorded until" in shell.run("%tract cassette record talk.jsonl").text
    shell.namespace["tract"].configure_llm(ScriptedClient("Hello.", "Bye."))
    for text in ("Hi", "Bye"):
        shell.run(f"tract.chat({text!r})")
    recorded = head(shell)
    assert "2 requests and 0 tool calls recorded" in shell.run("%tract cassette").text
    assert f"root hash {recorded}" in shell.run("%tract cassette stop").text
    shell = opened()
    assert "All replies come from the cassette" in shell.run("%tract cassette replay talk.jsonl").text
    for text in ("Hi", "Bye"):
        assert shell.run(f"tract.chat({text!r})").ok
    assert head(shell) == recorded
    assert "the same root hash" in shell.run("%tract cassette stop").text


def test_a_replay_reports_the_difference_to_the_recording(opened):
    shell = opened()
    shell.run("%tract cassette record talk.jsonl")
    shell.namespace["tract"].configure_llm(ScriptedClient("Hello."))
    shell.run("tract.chat('Hi')")
    assert "is being recorded" in shell.run("%tract cassette record other.jsonl").error
    shell.run("%tract cassette stop")
    assert "replace=True" in shell.run("%tract cassette record talk.jsonl").error
    shell = opened()
    shell.run("%tract cassette replay talk.jsonl")
    assert "messages[0].content: recorded 'Hi', now 'Ho'" in shell.run("tract.chat('Ho')").error
    assert "1 not used: request 1 (chat)" in shell.run("%tract cassette stop").text


@pytest.mark.parametrize("words", ["play x", "record", "replay a b", "stop now", "replay a --replace"])
def test_invalid_arguments_show_the_usage(shell, words):
    assert "usage: %tract cassette [record FILE" in shell.run(f"%tract cassette {words}").error


def test_forks_are_made_and_listed(shell):
    assert "there are no forks" in shell.run("%tract fork").text
    shell.namespace["tract"].configure_llm(ScriptedClient("Hello.", "Bye.", "Salve."))
    shell.run("tract.chat('Hi')")
    assert "Bye." in shell.run("%tract fork --model other").text
    result = shell.run("%tract fork HEAD --name more -- Say more, please")
    assert "<table" in result.html
    assert [word in result.text for word in ("main", "fork-1", "more", "Salve.", "model other")] == [True] * 5
    assert shell.namespace["tract"].current_branch == "main"
    assert "usage: %tract fork" in shell.run("%tract fork a b").error
    assert "usage: %tract fork" in shell.run("%tract fork --model").error


def test_the_prompt_of_a_fork_may_end_with_a_question_mark(shell):
    shell.namespace["tract"].configure_llm(ScriptedClient("Hello.", "Since.", "So."))
    shell.run("tract.chat('Hi')")
    assert "Since." in shell.run("%tract fork HEAD -- And why?").text
    assert "prompt 'And why?'" in str(shell.namespace["tract"].forks())
    assert shell.run("%tract?").error == ""


def test_one_fork_is_shown_as_the_table_shows_it(shell):
    shell.run("def broken(messages, **_):\n    raise ValueError('<b>no</b> ' + 20 * 'weights ')")
    shell.namespace["tract"].configure_llm(ScriptedClient("Hello.", "Bye."))
    shell.run("tract.chat('Hi')")
    shown = shell.run("display(tract.fork(model=broken))")
    assert "Fork fork-1" in shown.text
    assert "model broken" in shown.text
    assert 20 * "weights " in shown.text
    assert "&lt;b&gt;no" in shown.html
    assert "<b>no" not in shown.html


def test_a_replay_in_the_store_of_the_recording_says_how_to_replay(shell, tmp_path):
    shell.namespace["tract"].configure_llm(ScriptedClient("Hello."))
    file = tmp_path / "talk.cassette.jsonl"
    shell.run(f"%tract cassette record {file}")
    shell.run("tract.chat('Hi')")
    shell.run("%tract cassette stop")
    error = shell.run(f"%tract cassette replay {file}").error
    assert "Replay it in an empty store" in error
    assert "in a new kernel, %config TractJupyter.store = ':memory:' before the replay" in error


def test_its_words_complete(shell):
    assert {"record", "replay", "stop"} <= {one.split()[-1] for one in shell.complete("%tract cassette ")}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--name 'bad name'", "invalid branch name 'bad name'; use letters, digits"),
        ('--name "bad name" -- Say more', "invalid branch name 'bad name'"),
        ("HEAD --name 'bad name' --model other", "invalid branch name 'bad name'"),
        ("--name a..b", "invalid branch name 'a..b'"),
        ("--name ''", "usage: %tract fork"),
        ("--name", "usage: %tract fork"),
        ("--name main", "there is a branch 'main' already"),
        (
            "--name 'bad name",
            "a quotation mark is not closed in %tract fork --name 'bad name. Nothing was done",
        ),
        ("--nam bad", "has no option '--nam'. Did you mean '--name'?"),
        ("nowhere --name good", "there is no commit 'nowhere'"),
    ],
)
def test_a_fork_that_cannot_be_made_leaves_nothing(shell, line, told):
    client = ScriptedClient("Hello.")
    tract = shell.namespace["tract"]
    tract.configure_llm(client)
    shell.run("tract.chat('Hi')")
    before = head(shell)
    result = shell.run(f"%tract fork {line}")
    assert told in result.error
    assert "\n" not in result.error
    assert [one.name for one in tract.list_branches()] == ["main"]
    assert (tract.current_branch, head(shell)) == ("main", before)
    assert (len(client.asked), len(tract.forks())) == (1, 0)


def test_a_name_in_quotation_marks_is_one_without_them(shell, tmp_path):
    shell.run("%tract cassette record 'my talk.jsonl'")
    shell.run("%tract cassette stop")
    assert (tmp_path / "my talk.jsonl").exists()
    shell.namespace["tract"].configure_llm(ScriptedClient("Hello.", "Fine."))
    shell.run("tract.chat('Hi')")
    assert shell.run("%tract fork --name 'good' -- It's fine, isn't it?").ok
    assert "good" in [one.name for one in shell.namespace["tract"].list_branches()]
