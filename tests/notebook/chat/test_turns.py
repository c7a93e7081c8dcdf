"""The view of a turn from its events equals the view from the store, in every state and for any text."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import count

import pytest

from tests.review.scripted import call, reply
from tract_jupyter.exceptions import LLMError, OperationError
from tract_jupyter.loop import CallBegan, CallEnded, ReplyStored, TurnBegan, TurnEnded
from tract_jupyter.models import Allowance, Delta, SentContext, ToolCall, TurnOutcome, message_with
from tract_jupyter.notebook.chat import (
    AskedQuestion,
    TractSource,
    TurnLog,
    find_turn,
    result_html,
    stored_log,
    stored_view,
)
from tract_jupyter.review import Decision, Ticket
from tract_jupyter.scripts import PendingScript

PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/?q=1)",
    "[x](javascript:alert(1))",
    '<a data-commandlinker-command="x" href="command:x">x</a>',
    "\u202egnp.exe\x1b[31m",
    "</pre></details></div><iframe srcdoc='x'>",
    '"><svg onload=alert(1)>',
)
ALLOWED = frozenset({
    "a", "b", "br", "code", "details", "div", "em", "h4", "i", "li", "ol", "p", "pre", "small", "span", "strong", "style",
    "summary", "table", "tbody", "td", "th", "thead", "tr", "ul", "time",
})  # fmt: skip


class Page(HTMLParser):
    """The content of a page: elements, attributes, links."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.links = set(), set(), []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name == "href"]


def assert_inert(html):
    page = Page(html)
    assert page.tags <= ALLOWED
    assert not {
        name for name in page.attributes if name.startswith("on") or name in {"src", "srcset", "style"}
    }
    assert all(re.match("(https?|mailto):", link) for link in page.links)
    assert "\u202e" not in html
    assert "\x1b" not in html


def test_a_turn_looks_the_same_from_its_events_and_from_the_store(chat, talk):
    code = "for city in ['Ulm', 'Bern']:\n    tools.look(city=city)\ntools.send(to='Ann')"
    log = chat(
        "Go",
        reply("I *look*.", call("look", {"city": "Ulm"}, "a"), call("send", {"to": "Bob"}, "b")),
        reply(None, call("notebook_execute", {"code": code}, "c")),
        "All **done**.",
        tools="full",
        answers=("Not him.", "approve"),
    )
    live, kept = log.view(), stored_view(talk)
    assert kept.to_html() == live.to_html()
    assert kept.to_text() == live.to_text()
    assert kept.blocks() == [one for one in live.blocks() if one.ticket is None]
    assert kept.foot() == live.foot()


def test_a_call_is_a_row_that_unfolds(chat):
    log = chat("Weather?", reply(None, call("look", {"city": "Ulm"}, "a")), "Sunny.")
    row = next(block for block in log.view().blocks() if block.kind == "row")
    assert row.html.startswith('<details class="row">')
    assert "sunny in Ulm" in row.html
    assert '✓ look city="Ulm"' in log.view().to_text()


def test_the_row_shows_the_decision_of_the_user(chat):
    log = chat(
        "Send", reply(None, call("send", {"to": "A"}, "a"), call("send", {"to": "B"}, "b")), "Ok.",
        answers=("approve", "Not her."),
    )  # fmt: skip
    text = log.view().to_text()
    assert '✓ Ran send to="A"  you, ' in text
    assert "✗ Rejected send “Not her.”  you, " in text


def test_a_call_changed_by_the_user_shows_its_final_arguments(chat, talk):
    log = chat("Send", reply(None, call("send", {"to": "A"}, "a")), "Ok.", answers=({"to": "Ann"},))
    text = log.view().to_text()
    assert '✓ Ran send to="Ann"  changed · you, ' in text
    assert stored_view(talk).to_text() == text


def test_a_kernel_script_is_one_row_with_its_code_and_the_decision(chat, talk):
    def script(code, call_id):
        return reply(None, call("notebook_execute", {"code": code, "backend": "kernel"}, call_id))

    log = chat(
        "Go", script("x = 1", "a"), script("y = 1", "b"), script("z = 1", "c"), "Done.", tools="code",
        answers=("approve", "Not that.", {"code": "z = 7"}),
    )  # fmt: skip
    text, html = log.view().to_text(), log.view().to_html()
    rows = [line for line in text.splitlines() if "a script" in line]
    assert [re.sub(r", [0-9:]+|\d\.\d(?= s)", "", row) for row in rows] == [
        "✓ Ran a script x = 1  you ·  s",
        "✗ Rejected a script “Not that.”  you",
        "✓ Ran a script z = 7  changed · you ·  s",
    ]
    assert "asked" not in text
    assert html.count('<details class="row">') == 3
    assert [one.role for one in talk.compile().messages].count(
        "user"
    ) == 1  # the result of the call contains the reason
    assert stored_view(talk).to_html() == html


def test_the_row_of_a_script_shows_its_tool_calls_and_the_saved_tokens(chat):
    code = "for city in ['Ulm', 'Bern', 'Rom']:\n    tools.look(city=city)"
    log = chat("Go", reply(None, call("notebook_execute", {"code": code}, "c")), "Done.", tools="code")
    text = log.view().to_text()
    assert "Ran 3 tool calls in one script look ×3" in text
    assert "fewer tokens" in text
    assert "With direct calls, about" in log.view().to_html()
    assert "3 calls · " in log.view().to_html()


def test_a_script_that_fails_says_so(chat):
    log = chat("Go", reply(None, call("notebook_execute", {"code": "1 / 0"}, "c")), "Oh.", tools="code")
    assert "✗ Script failed: ZeroDivisionError: division by zero" in log.view().to_text()


@pytest.mark.parametrize(
    ("made", "state"),
    [
        (call("look", {"city": "nowhere"}, "a"), "failed"),
        (call("lok", {"city": "Ulm"}, "a"), "not run"),
        (call("look", {"town": "Ulm"}, "a"), "not run"),
    ],
)
def test_the_row_of_a_failed_or_invalid_call_shows_its_state(chat, made, state):
    assert state in chat("Weather?", reply(None, made), "Hm.").view().to_text()


def test_the_plain_text_of_a_call_that_did_not_run_has_the_reason(chat):
    text = chat("Go", reply(None, call("lok", {"city": "Ulm"}, "a")), "Sorry.").view().to_text()
    assert "not run\n    there is no tool 'lok'. Nearest: look" in text


def test_thoughts_are_folded(chat):
    message = {"role": "assistant", "content": "Yes.", "reasoning": "Let me think."}
    log = chat("Well?", {"choices": [{"message": message}], "model": "m"})
    assert "Let me think." in log.view().to_html()
    assert "Let me think." not in log.view().to_text()


def test_the_foot_shows_tokens_cost_and_time(chat):
    usage = {
        "prompt_tokens": 3_480, "completion_tokens": 512, "prompt_tokens_details": {"cached_tokens": 2_944}, "cost": 0.006,
    }  # fmt: skip
    foot = chat("Hi", reply("Hello.", usage=usage)).view().foot_text()
    assert re.fullmatch(r"scripted-1  \$0.006  [\d.]+ s  3,480 tokens in, 2,944 cached  512 out", foot)


def test_the_foot_says_that_the_price_is_unknown(chat):
    assert "price unknown" in chat("Hi", "Hello.").view().foot_text()


class Waited(TractSource):
    """The user reads the request `p` for 53 seconds, and `q` from second 50 to second 55."""

    def asked(self, pending_id):
        begin = datetime(2026, 6, 1, tzinfo=UTC)
        begin, end = {
            "p": (begin, begin + timedelta(seconds=53)),
            "q": (begin + timedelta(seconds=50), begin + timedelta(seconds=55)),
        }.get(pending_id, (None, None))
        if begin is None:
            return None
        decision = Decision("approve", {}, "panel", "f", decided_at=end)
        return AskedQuestion(pending_id, "Read the file", "look", {}, decision, asked_at=begin)


def asked_about_a_script(talk):
    return Ticket(PendingScript("1", notebook_id="main", tract=talk), lambda _: None)


def test_the_time_of_the_model_excludes_waiting_for_the_user(talk):
    log = TurnLog(Waited(talk))
    log.add(TurnBegan("t", "Go", datetime(2026, 6, 1, tzinfo=UTC)))
    log.add(ReplyStored("r", "", calls=(ToolCall("c", "notebook_execute", {"code": "1"}),)))
    script = {"status": "completed", "calls": 1, "by_tool": {}, "by_line": {}}
    log.add(CallEnded("c", "1", seconds=55.8, asked=("p", "q"), script=script))
    log.add(TurnEnded(TurnOutcome.ANSWER, seconds=63.0))
    assert re.search(r"Ran 1 tool call in one script .*0\.8 s", log.view().to_text())
    assert log.view().foot_text().endswith("8.0 s, and 55.0 s waiting for you")


def test_a_script_runs_only_after_a_decision_and_the_row_says_so(talk):
    log = TurnLog(Waited(talk))
    log.add(TurnBegan("t", "Go", datetime(2026, 6, 1, tzinfo=UTC)))
    code = {"code": "1", "backend": "kernel"}
    log.add(ReplyStored("r", "", calls=(ToolCall("c", "notebook_execute", code),)))
    log.add(CallBegan("c"))
    assert "Rehearsing a script" in log.view().to_text()
    assert "unning" not in log.view().to_text()
    ticket = asked_about_a_script(talk)
    log.show(ticket)
    assert "Rehears" not in log.view().to_text()
    ticket.pending.reject("no")
    log.refresh()
    assert "Rehears" not in log.view().to_text()


class ChangedBefore(TractSource):
    """The user changed the code, which was rehearsed again, and kept the effects in a second decision."""

    def asked(self, pending_id):
        decision = Decision("keep", {}, "panel", "f", decided_at=datetime(2026, 6, 1, tzinfo=UTC))
        values = {"effects": "Creates `total` (int 22).", "code": "total = 22\ntotal", "notebook_id": "user"}
        return AskedQuestion(pending_id, "Run a script", "run_script", values, decision)


def test_the_row_of_a_script_that_was_rehearsed_again_has_the_code_that_ran(talk):
    log = TurnLog(ChangedBefore(talk))
    log.add(TurnBegan("t", "Go", datetime(2026, 6, 1, tzinfo=UTC)))
    code = {"code": "total = 11\ntotal", "backend": "kernel", "notebook_id": "user"}
    log.add(ReplyStored("r", "", calls=(ToolCall("c", "notebook_execute", code),)))
    script = {"status": "completed", "calls": 0, "by_tool": {}, "by_line": {}, "effects": "", "is_kept": True}
    log.add(CallEnded("c", "22", asked=("p",), script=script))
    (row,) = (block.html for block in log.view().blocks() if block.kind == "row")
    assert "22" in row
    assert '<span class="badge">changed</span>' in row
    assert "Changed before approving" in row


def test_the_foot_repeats_nothing_that_a_row_says(talk):
    clock = count(0, 10)
    log = TurnLog(Waited(talk), clock=lambda: next(clock))
    log.add(TurnBegan("t", "Go", datetime(2026, 6, 1, tzinfo=UTC)))
    log.add(ReplyStored("r", "", calls=(ToolCall("c", "notebook_execute", {"code": "1"}),)))
    assert "Carrying out its calls" in log.view().foot_text()
    log.add(CallBegan("c"))
    assert "Running a script" in log.view().to_text()
    assert "unning" not in log.view().foot_text()
    assert "Rehears" not in log.view().to_text()
    log.show(asked_about_a_script(talk))
    log.view()
    assert log.view().foot_text().startswith("Waiting for you: 1 request")
    assert log.view().waited >= 10
    assert "waiting for you" not in log.view().foot_text()


def test_a_request_older_than_its_turn_does_not_change_the_time(talk):
    log = TurnLog(Waited(talk))
    log.add(TurnBegan("t", "Go", datetime(2026, 6, 1, tzinfo=UTC)))
    log.add(ReplyStored("r", "", calls=(ToolCall("c", "look", {}),)))
    log.add(CallEnded("c", "1", pending="p"))
    log.add(TurnEnded(TurnOutcome.ANSWER, seconds=9.0))
    assert log.view().foot_text().endswith("9.0 s")


# --- states


def test_while_it_streams(talk):
    log = TurnLog(TractSource(talk))
    seen = []

    class Streams:
        def chat(self, messages, on_delta=None, **options):
            on_delta(Delta("reasoning", "Hm."))
            seen.append(log.view())
            on_delta(Delta("text", "Good **da"))
            seen.append(log.view())
            return reply("Good **day**.")

    talk.configure_llm(Streams())
    talk.chat("Hi", on_turn=log.add)
    thinking, streaming = seen
    assert "Thinking" in thinking.foot().html
    assert "Answering" in streaming.foot().html
    assert streaming.foot().actions == ("stop",)
    assert not streaming.is_over
    assert "Good" in "".join(block.html for block in streaming.blocks())
    before = [block.id for block in streaming.blocks() if block.kind == "prose"]
    assert [block.id for block in log.view().blocks() if block.kind == "prose"] == before


def test_the_foot_names_a_reached_limit_and_the_command_to_continue(chat):
    log = chat("Go", reply(None, call("look", {"city": "Ulm"}, "a")), limits=Allowance(steps=1))
    foot = log.view().foot_text()
    assert "Ended by a limit" in foot
    assert "%tract chat resume continues" in foot


def test_a_failed_turn_shows_the_error_and_the_command_to_continue(chat, talk):
    with pytest.raises(LLMError):
        chat("Go", reply(None, call("look", {"city": "Ulm"}, "a")), LLMError("no connection"))
    page = stored_view(talk)
    assert "no connection" in page.to_text()
    assert "%tract chat resume continues the turn" in page.to_text()
    assert "Failed" in page.foot_text()
    assert re.search(r"price unknown  [\d.]+ s  10 tokens in  2 out$", page.foot_text())
    undone = page.undone().to_text()
    assert "no connection" in undone
    assert "resume" not in undone
    assert "Completed work stays" not in undone


def test_a_stopped_turn_says_so_and_keeps_the_partial_reply(talk):
    log = TurnLog(TractSource(talk))

    class Stops:
        def chat(self, messages, on_delta=None, **options):
            on_delta(Delta("text", "Three great tits"))
            talk.loop.stop()
            raise LLMError("ended")

    talk.configure_llm(Stops())
    talk.chat("Hi", on_turn=log.add)
    for page in (log.view(), stored_view(talk)):
        assert "You stopped this turn" in page.foot_text()
        assert "the partial reply stays here" in page.foot_text()
        assert "Three great tits" in page.to_text()


def test_a_turn_that_was_resumed_says_so(chat, talk):
    chat("Go", reply(None, call("look", {"city": "Ulm"}, "a")), limits=Allowance(steps=1))
    log = stored_log(talk, find_turn(talk), to_go_on=True)
    talk.configure_llm(type("Model", (), {"chat": lambda self, messages, **options: reply("Sunny.")})())
    talk.chat(None, on_turn=log.add)
    assert "Resumed where it stopped. 1 finished call was not repeated." in log.view().to_text()
    assert stored_view(talk).to_html() == log.view().to_html()


def test_calls_wait_for_a_decision_if_no_user_is_available(talk):
    log = TurnLog(TractSource(talk))
    talk.configure_llm(
        type("Model", (), {"chat": lambda self, m, **o: reply(None, call("send", {"to": "A"}))})()
    )
    talk.chat("Send", on_turn=log.add)
    assert "Waits for decisions" in log.view().foot_text()
    assert '? send to="A"' in log.view().to_text()


def test_a_turn_that_was_left_says_how_to_go_on(talk):
    talk.user("Hi")
    assert "Did not finish %tract chat resume continues it" in stored_view(talk).foot_text()


def test_a_cassette_is_named(talk):
    log = TurnLog(TractSource(talk))
    log.set(replayed="june.cassette")
    talk.configure_llm(type("Model", (), {"chat": lambda self, m, **o: reply("Hello.")})())
    talk.chat("Hi", on_turn=log.add)
    assert "Replayed from june.cassette" in log.view().foot_text()


# --- texts of a model


@pytest.mark.parametrize("payload", PAYLOADS)
def test_whatever_a_model_writes_is_inert(chat, talk, payload):
    @talk.tool(read_only=True)
    def echo(text: str) -> str:
        """Return the text."""
        return text

    @talk.tool(read_only=True)
    def fail(text: str) -> str:
        """Fail."""
        raise ValueError(text)

    made = [
        call("echo", {"text": payload}, "a"),
        call("fail", {"text": payload}, "b"),
        call(payload, {payload: payload}, "c"),
        call("notebook_execute", {"code": f"{payload!r}\nprint({payload!r})"}, "d"),
        call("send", {"to": payload}, "e"),
    ]
    log = chat(
        message_with([SentContext(payload, payload, payload)], payload),
        {
            "choices": [{"message": {"content": payload, "reasoning": payload, "tool_calls": made}}],
            "model": payload,
        },
        reply(payload),
        tools="full",
        answers=(payload,),
    )
    for page in (log.view(), stored_view(talk)):
        assert_inert(page.to_html())
        assert_inert("".join(block.html for block in page.blocks()))
        assert_inert(page.foot().html)
        assert "\x1b" not in page.to_text()


@pytest.mark.parametrize("payload", PAYLOADS)
def test_an_error_is_inert(chat, talk, payload):
    with pytest.raises(LLMError):
        chat("Hi", LLMError(payload))
    assert_inert(stored_view(talk).to_html())


def test_the_page_of_two_hundred_calls_is_bounded(chat, talk):
    @talk.tool(read_only=True)
    def big(number: int) -> str:
        """Return a large text."""
        return f"{number} " * 5_000

    made = [call("big", {"number": number}, f"c{number}") for number in range(200)]
    log = chat("Go", reply(None, *made), "Done.", limits=Allowance(steps=5))
    page = log.view()
    assert len(page.to_html()) + len(page.to_text()) < 300_000


# --- finding turns


def test_turns_are_found_by_number_and_commit(chat, talk):
    chat("First", "One.")
    first = talk.head
    chat("Second", "Two.")
    assert find_turn(talk).text == "Second"
    assert find_turn(talk, "2").text == "First"
    assert find_turn(talk, first[:8]).text == "First"


def test_a_turn_of_another_branch_is_found(chat, talk):
    chat("First", "One.")
    talk.branch("other")
    chat("Second", "Two.")
    second = talk.head
    talk.switch("main")
    assert find_turn(talk, second).text == "Second"


@pytest.mark.parametrize("name", ["3", "0"])
def test_a_number_that_there_is_not(chat, talk, name):
    chat("First", "One.")
    with pytest.raises(OperationError, match="1 turn here, and 1 is the newest"):
        find_turn(talk, name)


def test_no_turn_yet(talk):
    with pytest.raises(OperationError, match="no turn yet"):
        find_turn(talk)


def test_arguments_shown_in_full_in_the_row_are_not_repeated_below(chat):
    calls = reply(None, call("look", {"city": "Ulm"}, "a"), call("look", {"city": "Ulm\nor Bern"}, "b"))
    assert chat("Weather?", calls, "Sunny.").view().to_html().count("Called with") == 1


@pytest.mark.parametrize(
    ("finish", "words"),
    [
        ("length", "Ended by a limit the reply was cut at its limit; %tract chat resume continues"),
        (
            "content_filter",
            "Refused the provider's content filter ended the reply; the reply is not sent back",
        ),
    ],
)
def test_the_foot_says_that_a_reply_is_not_whole(chat, talk, finish, words):
    cut = reply("Half of")
    cut["choices"][0]["finish_reason"] = finish
    log = chat("Hi", cut)
    for page in (log.view(), stored_view(talk)):
        assert words in page.foot_text()
        assert "Half of" in page.to_text()


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (
            {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
            r"scripted-1  ≈\$[\d.]+  [\d.]+ s  ≈[\d,]+ tokens estimated$",
        ),
        (
            {"prompt_tokens": 0, "completion_tokens": 9},
            r"≈\$[\d.]+  [\d.]+ s  9 tokens out  ≈[\d,]+ tokens estimated$",
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 0},
            r"≈\$[\d.]+  [\d.]+ s  9 tokens in  ≈2 tokens estimated$",
        ),
    ],
)
def test_tokens_that_the_server_does_not_count_are_shown_as_an_estimate(chat, talk, usage, words):
    chat("Hi", "Hello.")
    talk.models.price(talk.costs().lines[0].model, input=1_000, output=1_000)
    assert re.search(words, chat("Hi", reply("Hello.", usage=usage)).view().foot_text())


SCRIPT_ANSWER = (
    "first\nsecond\n"
    "{\"status\": \"completed\", \"tool_calls\": 2, \"result\": \"[{'city': 'Ulm', 'n': 3}, {'city': 'Bern', 'n': 4}]\"}"
)


@pytest.mark.parametrize(
    ("text", "has", "has_not"),
    [
        (SCRIPT_ANSWER, ["first\nsecond</pre>", '<th scope="col">city</th>', "<td>Bern</td>"], []),
        ('{"text": "one\\ntwo"}', ["one\ntwo</pre>"], []),
        ('{"result": "   a  b\\n0  1  2"}', ["   a  b\n0  1  2</pre>"], []),
        ('[1, "x<y"]', ["x&lt;y</li>"], ["<y"]),
        ('{"a": {"b": {"c": {"d": {"e": 1}}}}}', ["&quot;e&quot;: 1"], []),
        ('{"a\u202e": "\u202e\u2800"}', ["a\ufffd"], ["\u202e", "\u2800"]),
        (json.dumps([{"n": n} for n in range(60)]), ["<td>49</td>".replace("49", '<code class="m">49</code>'), "10 more rows"], []),
    ],
)  # fmt: skip
def test_a_result_is_shown_as_text_and_tables_first(text, has, has_not):
    html = result_html(text, 4_000)
    first, _, sent = html.partition("<details")
    assert "As it was sent" in sent
    for part in has:
        assert part in first
    for part in has_not:
        assert part not in html
    assert_inert(html)


@pytest.mark.parametrize("text", ["plain", "{not json", "", "{}", "[]", "[" * 5_000, 'a {"b": 1}', "3"])
def test_a_result_without_json_data_is_shown_unchanged(text):
    assert "<details" not in result_html(text, 10_000)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_readable_result_is_inert(payload):
    assert_inert(result_html(json.dumps({payload: [{payload: payload}], "result": repr([payload])}), 4_000))
