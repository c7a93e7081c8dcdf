"""`%%tract_chat` and `%tract chat` in a shell: texts, refusals and results."""

from __future__ import annotations

import re

import pytest

from tests.notebook.conftest import MODEL
from tract_jupyter.notebook.chat import find_turn, stored_log, stored_view


def offered(chat):
    """The names of the tools in each request to the model."""
    return [
        [one["function"]["name"] for one in options.get("tools") or ()]
        for _, options in chat.namespace["asked"]
    ]


@pytest.fixture
def chat(shell):
    """A shell whose model is scripted."""
    assert shell.run(MODEL).ok
    return shell


def test_a_message_is_answered_and_the_answer_is_displayed(chat):
    result = chat.run("%%tract_chat --out r\nHow are you?")
    assert result.ok
    assert "Hello *you*." in result.text
    assert "[scripted" in result.text
    assert chat.namespace["r"].text == "Hello *you*."


def test_the_model_has_scripts_or_tools_or_nothing(chat):
    for line in ("", "--direct --profile self", "--plan"):
        chat.run(f"%%tract_chat {line}\nHi")
    in_code, direct, plan = offered(chat)
    assert "notebook_execute" in in_code
    assert "commit" not in in_code
    assert "commit" in direct
    assert plan == []
    assert "nothing runs" in chat.namespace["asked"][-1][0][-1]["content"]


def test_a_script_runs_and_its_row_is_printed(chat):
    chat.run("replies.append(reply(None, call('notebook_execute', {'code': 'tools.status()'})))")
    assert "✓ Ran 1 tool call in one script status" in chat.run("%%tract_chat\nLook").text


def test_named_variables_and_files_are_sent_and_displayed(chat, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo")
    chat.run("df = [1, 2, 3]")
    result = chat.run("%%tract_chat --vars df --files a.txt\nWhat is this?")
    message = chat.namespace["asked"][-1][0][-1]["content"]
    assert "- 1\n- 2\n- 3" in message
    assert "one\ntwo" in message
    assert message.endswith("What is this?")
    for told in ("With df list, 3 items", "With a.txt file, 2 lines"):
        assert told in result.text


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("%%tract_chat\n", "the cell is empty"),
        (
            "%%tract_chat --bogus\nhi",
            "%%tract_chat has no option '--bogus'. %%tract_chat? explains them. Nothing was sent",
        ),
        ("%%tract_chat --fils a\nhi", "has no option '--fils'. Did you mean '--files'?"),
        (
            "%%tract_chat what is it\nhi",
            "'what is it' is too much in the line of %%tract_chat: write it below. Nothing was sent",
        ),
        (
            "%%tract_chat --vars 'asked\nhi",
            "a quotation mark is not closed in --vars 'asked. Nothing was sent",
        ),
        ('%%tract_chat --model ""\nhi', "nothing in the quotation marks after --model"),
        ("%%tract_chat --model openai/\nhi", "does not name a model, so no request was sent"),
        ("%%tract_chat --model opnai/thing\nhi", "Did you mean 'openai'?"),
        ("%%tract_chat --vars\nhi", "--vars needs a value: --vars NAME. Nothing was sent"),
        ("%%tract_chat --files 'no such file.txt'\nhi", "there is no file 'no such file.txt'"),
        ("%%tract_chat --vars nothing_here\nhi", "there is no variable 'nothing_here'"),
        ("%%tract_chat --files ../x.txt\nhi", "outside of the workspace"),
        ("%%tract_chat --files /etc/passwd\nhi", "outside of the workspace"),
        ("%%tract_chat --cells [99]\nhi", "there is no cell [99]"),
        ("%%tract_chat --cells x\nhi", "--cells takes 3"),
        ("%%tract_chat --profile ful\nhi", "Did you mean 'full'?"),
        ("%%tract_chat --plan --direct\nhi", "--plan gives the model no tools"),
        ("%%tract_chat --retry\nhi", "Leave the cell empty"),
        ("%%tract_chat --retry --vars asked\n", "send a new message"),
        *(
            (f"%%tract_chat --out {name}\nhi", told)
            for name, told in {
                "1x": "the name of a variable",
                "class": "the name of a variable",
                "tract": "cannot replace",
                "tools": "cannot replace",
                "In": "cannot replace",
            }.items()
        ),
        ("%%tract_chat --retry\n", "no turn yet"),
        ("%tract chat resume", "no turn yet"),
        ("%tract chat show", "no turn yet"),
        ("%tract chat nonsense", "%tract chat has no 'nonsense'. Usage: %tract chat"),
        ("%tract chat udno", "Did you mean 'undo'?"),
        ("%tract chat new one", "usage: %tract chat"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_sent(chat, cell, told):
    result = chat.run(cell)
    assert not result.ok
    assert told in result.error
    assert "\n" not in result.error
    assert chat.namespace["asked"] == []
    assert chat.run("print(tract.log())").text.strip() == "[]"


SECRETS = {
    "--vars": ("settings = {'password': 'hunter22'}", "key = 'ghp_abcdefghijklmnopqrstuvwxyz0123456789'"),
    "--files": ("password = hunter22", "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQ" * 20),
}


@pytest.mark.parametrize("option", SECRETS)
def test_a_possible_secret_needs_send_anyway_and_a_likely_key_is_never_sent(chat, tmp_path, option):
    def ask(text, *more):
        (tmp_path / "a.txt").write_text(text)
        named = {"--vars": text.partition(" ")[0], "--files": "a.txt"}[option]
        if option == "--vars":
            chat.run(text)
        return chat.run(f"%%tract_chat {option} {named} {' '.join(more)}\nhi")

    doubtful, certain = SECRETS[option]
    refused = ask(doubtful)
    assert "may contain a secret in line" in refused.error
    assert "--send-anyway" in refused.error
    assert chat.namespace["asked"] == []
    assert "hunter22" not in refused.error
    assert ask(doubtful, "--send-anyway").ok
    assert "hunter22" in chat.namespace["asked"][-1][0][-1]["content"]
    chat.namespace["asked"].clear()
    refused = ask(certain, "--send-anyway")
    assert "contains a likely key in line" in refused.error
    assert "--send-anyway" not in refused.error
    assert chat.namespace["asked"] == []


def test_a_file_name_with_a_space_can_be_quoted(chat, tmp_path):
    (tmp_path / "my file.txt").write_text("one")
    for line in ("--files 'my file.txt'", '--files "my file.txt"'):
        assert "With my file.txt" in chat.run(f"%%tract_chat {line}\nhi").text


def test_a_variable_or_file_named_twice_is_sent_once(chat, tmp_path):
    (tmp_path / "a.txt").write_text("one")
    text = chat.run("%%tract_chat --vars asked asked --files a.txt ./a.txt\nhi").text
    assert text.count("With asked") == 1
    assert text.count("With a.txt") == 1


@pytest.mark.slow
def test_a_value_that_cannot_be_described_is_not_sent(chat):
    chat.run("class Bad:\n    def __repr__(self):\n        raise SystemExit\nbad = Bad()")
    result = chat.run("%%tract_chat --vars bad\nhi")
    assert result.error == "bad cannot be described: its code raised SystemExit. Nothing was sent"
    assert chat.namespace["asked"] == []


def test_without_a_model_nothing_is_sent(shell):
    result = shell.run("%%tract_chat\nhi")
    assert "no language model is configured" in result.error
    assert shell.run("print(tract.log())").text.strip() == "[]"


def test_the_last_turn_is_asked_again(chat):
    chat.run("replies += ['First.', 'Second.']")
    chat.run("%%tract_chat\nHi")
    assert "Second." in chat.run("%%tract_chat --retry\n").text
    assert (
        chat.run("print([one['content'] for one in tract.compile().to_dicts()][-2:])").text.strip()
        == "['Hi', 'Second.']"
    )


@pytest.mark.parametrize(
    "line", ["", "--plan", "--direct", "--profile self", "--direct --profile supervisor"]
)
def test_retry_sends_the_same_tools(chat, line):
    chat.run("replies += ['First.', 'Second.']")
    chat.run(f"%%tract_chat {line}\nHi")
    chat.run("%%tract_chat --retry\n")
    first, again = offered(chat)
    assert first == again


@pytest.mark.parametrize("line", ["", "--plan", "--direct", "--profile self"])
@pytest.mark.parametrize("again", ["%%tract_chat --retry\n", "%tract chat resume"])
def test_retry_or_resume_after_an_immediate_failure_sends_the_same_tools(chat, line, again):
    chat.run("from tract_jupyter.exceptions import LLMError\nreplies += [LLMError('no connection'), 'Well.']")
    chat.run(f"%%tract_chat {line}\nHi")
    assert chat.run(again).ok
    first, second = offered(chat)
    assert first == second


SAID = "print([one['content'] for one in tract.compile().to_dicts() if one['role'] != 'system'])"
FAILS = "from tract_jupyter.exceptions import LLMError\nreplies += [LLMError('no connection')]"


@pytest.mark.parametrize("before", [[], ["%%tract_chat\nBefore"]], ids=["alone", "after another"])
@pytest.mark.parametrize("again", ["%%tract_chat --retry --model other\n", "%tract chat resume"])
def test_retry_or_resume_after_an_immediate_failure_shows_the_repeated_message(chat, before, again):
    for cell in before:
        chat.run(cell)
    chat.run(FAILS)
    failed = chat.run("%%tract_chat\nWho sings?")
    assert "%tract chat resume continues the turn" in failed.text
    for _ in range(2):  # also if it fails again
        chat.run(FAILS)
        assert "no connection" in chat.run(again).error
    done = chat.run(again)
    assert done.ok
    assert "Asked again “Who sings?”" in done.text
    assert "Hello *you*." in done.text
    said = ["Before", "Hello *you*."] if before else []
    assert chat.run(SAID).text.strip() == repr([*said, "Who sings?", "Hello *you*."])
    if "--model" in again:
        assert chat.namespace["asked"][-1][1]["model"] == "other"


def test_a_retry_that_fails_at_once_keeps_the_earlier_answer(chat):
    chat.run("%%tract_chat\nWho sings?")
    chat.run(FAILS)
    failed = chat.run("%%tract_chat --retry\n")
    assert "no connection" in failed.error
    assert "Asked again “Who sings?”" in failed.text
    assert "The earlier answer stays" in failed.text
    assert "resume" not in failed.text
    assert chat.run(SAID).text.strip() == "['Who sings?', 'Hello *you*.']"
    chat.run("replies += ['A wren.']")
    assert "A wren." in chat.run("%%tract_chat --retry\n").text
    assert chat.run(SAID).text.strip() == "['Who sings?', 'A wren.']"


@pytest.mark.parametrize("end", ["tract.loop.stop()", "raise KeyboardInterrupt"])
def test_a_retry_stopped_before_any_text_keeps_the_earlier_answer(chat, end):
    chat.run("%%tract_chat\nWho sings?")
    chat.run(
        "from tract_jupyter.exceptions import LLMError\nusual = StreamingClient.chat\n"
        f"def stop(*_, **__):\n    {end}\n    raise LLMError('the connection was closed')\nStreamingClient.chat = stop"
    )
    stopped = chat.run("%%tract_chat --retry\n")
    assert "You stopped this turn the earlier answer stays; --retry repeats the message" in stopped.text
    assert "resume" not in stopped.text
    assert chat.run(SAID).text.strip() == "['Who sings?', 'Hello *you*.']"
    chat.run("StreamingClient.chat = usual\nreplies += ['A wren.']")
    assert "A wren." in chat.run("%%tract_chat --retry\n").text
    assert chat.run(SAID).text.strip() == "['Who sings?', 'A wren.']"


def test_the_partial_reply_of_a_stopped_retry_replaces_the_earlier_answer(chat):
    chat.run("%%tract_chat\nWho sings?")
    chat.run(
        "usual = StreamingClient.chat\ndef stop(self, messages, on_delta=None, **_):\n    on_delta(Delta('text', 'A wr'))\n"
        "    tract.loop.stop()\n    raise KeyboardInterrupt\nStreamingClient.chat = stop"
    )
    assert "the partial reply stays here" in chat.run("%%tract_chat --retry\n").text
    assert chat.run(SAID).text.strip() == "['Who sings?', 'A wr']"


def test_a_retry_that_fails_after_a_call_keeps_the_completed_call(chat):
    chat.run("%%tract_chat\nWho sings?")
    chat.run("replies += [reply(None, call('status'))]")
    chat.run(FAILS)
    failed = chat.run("%%tract_chat --retry --direct\n")
    assert "Completed work stays. %tract chat resume continues the turn" in failed.text
    assert "1 finished call was not repeated" in chat.run("%%tract_chat --retry\n").text


def test_a_plan_gets_no_tools_by_asking_again(chat):
    chat.run("%%tract_chat --plan\nHi")
    result = chat.run("%%tract_chat --retry --direct\n")
    assert "that turn began with --plan, so it has no tools" in result.error
    assert len(chat.namespace["asked"]) == 1


@pytest.mark.parametrize("model", ["anthropic/claude-x", "nosuch/thing"])
def test_a_retry_with_an_unavailable_model_keeps_the_earlier_answer(chat, monkeypatch, model):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    chat.run("%%tract_chat\nHi")
    result = chat.run(f"%%tract_chat --retry --model {model}\n")
    assert "no request was sent" in result.error
    assert "Hello you." in chat.run("%tract chat").text


def test_a_failed_turn_can_be_resumed(chat):
    chat.run(
        "from tract_jupyter.exceptions import LLMError\nreplies += [reply(None, call('status')), LLMError('no connection')]"
    )
    failed = chat.run("%%tract_chat --direct\nHi")
    assert failed.error == "no connection"
    assert failed.text.count("no connection") == 1
    assert failed.text.endswith("Failed: see above. Queued cells did not run.\n")
    resumed = chat.run("%tract chat resume")
    assert resumed.ok
    assert "1 finished call was not repeated" in resumed.text
    assert "Hello *you*." in resumed.text
    assert "commit" in offered(chat)[-1]  # the same tools as at the start


def test_a_turn_that_is_over_is_only_shown_when_resumed(chat):
    chat.run("%%tract_chat\nHi")
    result = chat.run("%tract chat resume")
    assert result.ok
    assert "Hello *you*." in result.text
    assert len(chat.namespace["asked"]) == 1


def test_turns_are_listed_and_shown_again(chat):
    chat.run("%%tract_chat\nFirst thing")
    chat.run("%%tract_chat\nSecond thing")
    listed = chat.run("%tract chat").text
    assert listed.index("Second thing") < listed.index("First thing")
    shown = chat.run("%tract chat show 2")
    assert "Hello *you*." in shown.text
    assert "<em>you</em>" in shown.html


def test_the_list_shows_words_and_how_long_ago(chat):
    chat.run("replies += ['**Twelve** spellings are `wrong`.']")
    chat.run("%%tract_chat\nFirst thing")
    listed = chat.run("%tract chat").text
    assert "Twelve spellings are wrong." in listed
    assert "just\N{NO-BREAK SPACE}now" in listed
    assert "When" in listed


@pytest.mark.parametrize("above", ["%%time\n", "%%capture out\n", "%%time\n%%capture\n"])
def test_below_a_magic_that_cannot_wait_it_is_refused(chat, above):
    result = chat.run(f"{above}%%tract_chat\nHi")
    assert f"{above.split()[0]} cannot wait for %%tract_chat. Remove its line" in result.error
    assert "\n" not in result.error
    assert chat.namespace["asked"] == []


def test_another_model_of_the_same_client_is_asked(chat):
    chat.run("%%tract_chat --model other-1\nHi")
    assert chat.namespace["asked"][-1][1]["model"] == "other-1"


def test_options_and_their_values_complete(chat):
    assert {"--vars", "--plan", "--retry"} <= set(chat.complete("%%tract_chat --"))
    assert "asked" in chat.complete("%%tract_chat --vars as")
    assert "supervisor" in chat.complete("%%tract_chat --profile su")
    assert "resume" in chat.complete("%tract chat re")


def test_a_call_that_needs_approval_fails_if_no_user_is_available(chat):
    chat.run(
        "replies.append(reply(None, call('commit', {'content': {'content_type': 'dialogue', 'role': 'user', 'text': 'x'}})))"
    )
    result = chat.run("%%tract_chat --direct\nWrite")
    assert "wait for a decision" in result.error
    assert "Waits for decisions" in result.text


def test_no_output_of_a_kernel_is_markdown(kernel):
    kernel.run(MODEL)
    result = kernel.run("%%tract_chat\nHi")
    assert result.ok
    assert "<em>you</em>" in result.html
    assert "data-turn=" in result.html


def test_cells_are_sent_with_their_output(kernel):
    kernel.run(MODEL)
    kernel.run("print('seen'); 6 * 7")
    result = kernel.run("%%tract_chat --cells 1\nWhat is this?")
    assert "With cell [" in result.text
    refused = kernel.run("%%tract_chat --cells 99999999\nWhat is this?").error
    assert re.fullmatch(r"(\d+) cells ran before this one: --cells \1 sends all. Nothing was sent", refused)
    message = kernel.run("print(asked[-1][0][-1]['content'])").text
    assert "print('seen'); 6 * 7" in message
    assert "seen" in message.replace("print('seen')", "")
    assert "42" in message


def sent(kernel):
    return kernel.run("print(asked[-1][0][-1]['content'])").text


BROKEN = "print('before')\nx = {}\nx['height']"


def test_a_cell_that_failed_is_sent_with_its_traceback(kernel):
    kernel.run(MODEL)
    kernel.run(BROKEN)
    told = kernel.run("%%tract_chat --cells 1\nWhat is this?").text
    assert "3 lines and its output and its KeyError" in told
    message = sent(kernel)
    for part in ("x['height']", "KeyError: 'height'", "Traceback", "before"):
        assert part in message
    assert "\x1b" not in message


def test_the_last_error_is_sent_and_explained(kernel):
    kernel.run(MODEL)
    kernel.run(BROKEN)
    kernel.run("1 + 1")
    assert kernel.run("%%tract_chat --error\n").ok
    message = sent(kernel)
    assert "KeyError: 'height'" in message
    assert message.strip().endswith("Explain this error, and how to fix it.")
    kernel.run("def f(:")
    kernel.run("%%tract_chat --error\nWhy?")
    message = sent(kernel)
    assert "SyntaxError" in message
    assert "KeyError" not in message.partition("Error in")[2]
    assert message.strip().endswith("Why?")


def test_an_error_of_a_chat_cell_is_not_the_last_error(kernel):
    kernel.run(MODEL)
    kernel.run(BROKEN)
    assert not kernel.run("%%tract_chat --cells [999]\nHi").ok
    assert kernel.run("%%tract_chat --error\n").ok
    assert "KeyError" in sent(kernel)


def test_without_an_error_nothing_is_sent(chat):
    assert "no cell has failed in this kernel. Nothing was sent" in chat.run("%%tract_chat --error\n").error


def test_a_traceback_with_a_key_is_not_sent(kernel):
    kernel.run(MODEL)
    kernel.run("raise ValueError('sk-' + 'ab1' * 12)")
    assert "contains a likely key" in kernel.run("%%tract_chat --error\n").error


class Display:
    """A turn on a live page."""

    ready = True

    def __init__(self):
        self.drawn = []

    def close(self, view):
        self.drawn.append(view)


def test_the_foot_of_a_turn_is_updated_after_other_cells(chat):
    notebook, pages = chat.namespace["get_ipython"]()._tract_jupyter.notebook, []
    for text in ("First", "Second"):
        chat.run(f"%%tract_chat\n{text}")
        pages.append(Display())
        notebook.turns.add(chat.namespace["tract"], pages[-1], stored_view(chat.namespace["tract"]))
        chat.run("1")
    first, second = pages
    assert first.drawn[-1].foot().actions == ("fork",)
    assert second.drawn == []
    chat.run("%tract chat undo")
    assert first.drawn[-1].foot().actions == ("undo", "fork")
    assert second.drawn[-1].foot().actions == ()
    assert "Undone" in second.drawn[-1].foot_text()
    chat.run("%tract undo --yes")
    assert second.drawn[-1].foot().actions == ("undo", "fork")
    chat.run("%tract branch other\n%tract chat undo")
    assert second.drawn[-1].foot().actions == ("fork",)


def test_a_page_that_becomes_ready_after_the_turn_is_updated_too(chat):
    turns, page = chat.namespace["get_ipython"]()._tract_jupyter.notebook.turns, Display()
    chat.run("%%tract_chat\nQuick")
    page.ready = False
    turns.add(chat.namespace["tract"], page, stored_view(chat.namespace["tract"]))
    turns.tell(page, "3 cells inserted")
    assert page.drawn == []
    page.ready = True
    turns.tell(page, "3 cells inserted")
    assert "3 cells inserted" in page.drawn[-1].foot_text()
    chat.run("%tract chat undo")
    assert "Undone" in page.drawn[-1].foot_text()


INERT = "<img src=x onerror=alert(1)>"


def test_names_and_errors_are_escaped(chat, tmp_path):
    (tmp_path / f"{INERT}.txt").write_text(f"{INERT} [a](javascript:alert(1))")
    chat.run(
        f"from tract_jupyter.exceptions import LLMError\nevil = {INERT!r}\nreplies += [LLMError({INERT!r})]"
    )
    failed = chat.run(f"%%tract_chat --vars evil --files '{INERT}.txt'\nHi {INERT}")
    assert INERT in failed.text
    tract = chat.namespace["tract"]
    log = stored_log(tract, find_turn(tract), to_go_on=True)
    log.ask_again(f"Hi {INERT}")
    log.fail(INERT)
    for page in (stored_view(tract).to_html(), log.view().to_html()):
        assert "&lt;img src=x onerror=alert(1)&gt;.txt" in page
        assert "<img" not in page
        assert "href" not in page
