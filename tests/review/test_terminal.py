"""Decisions at a terminal: the prompt repeats until an answer is valid or the user leaves it for later."""

from __future__ import annotations

import pytest

from tract_jupyter.exceptions import FingerprintError
from tract_jupyter.operations import ActionDef


class Typist:
    """A prompt that returns these lines and records the questions."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.questions = []

    def __call__(self, question):
        self.questions.append(question)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


@pytest.fixture
def pending(tract, spec):
    """A fired operation whose action `mark` takes a list and a number."""
    mark = ActionDef("mark", "Marks.", {"names": "list[str]", "n": "int"},
                     "pending.fields['urls'] = names * n", required=["names"], defaults={"n": 2})  # fmt: skip
    explode = ActionDef("explode", "Raises.", {}, "raise OSError('boom')")
    count = ActionDef("count", "Counts.", {}, "print('counting')\nreturn len(pending.fields['urls'])")
    tract.register_operation(spec(actions={"mark": mark, "explode": explode, "count": count}))
    return tract.fire("citation_check", {"urls": ["u"]}, review=True)


def test_a_word_or_its_beginning_decides(tract, pending, capsys):
    assert pending.review(Typist("rej", "not now")) == "rejected"
    assert pending.rejection_reason == "not now"
    event = tract.events("decision")[0].data
    assert (event["channel"], event["action"]) == ("prompt", "reject")
    shown = capsys.readouterr().out
    assert "citation_check" in shown
    assert "urls: list[str] = ['u']  # URLs to verify" in shown
    assert "pending.fields['urls'] = names * n" in shown


def test_the_prompt_repeats_until_the_answer_is_valid_and_decides(pending, capsys):
    typist = Typist("x", "mark", "7", '["a"]', "", "approve")
    assert pending.review(typist) == "approved"
    assert pending.fields["urls"] == ["a", "a"]
    shown = capsys.readouterr().out
    assert "Type one of the names" in shown
    assert "'names' should be a valid list" in shown


def test_an_error_of_an_action_is_shown_and_the_prompt_repeats(pending, capsys):
    assert pending.review(Typist("explode", "reject", "")) == "rejected"
    assert "OSError: boom" in capsys.readouterr().out


def test_output_and_result_of_an_action_are_shown(pending, capsys):
    assert pending.review(Typist("count", "")) == "pending"
    shown = capsys.readouterr().out
    assert shown.index("counting") < shown.index("count: 1")


def test_values_are_changed_before_approving(tract, pending, capsys):
    typist = Typist("edit", "7", '["a", "b"]', *[""] * (len(pending.fields) - 1))
    assert pending.review(typist) == "approved"
    assert pending.fields["urls"] == ["a", "b"]
    assert "['u']" in next(question for question in typist.questions if "urls" in question)
    shown = capsys.readouterr().out
    assert "edit: change values, then approve" in shown
    assert "'urls' should be a valid list" in shown
    assert tract.events("decision")[0].data["channel"] == "prompt"


@pytest.mark.parametrize("scope", ["session", "always"])
def test_an_approval_can_stand_for_these_values(tract, pending, scope):
    assert pending.review(Typist(scope)) == "approved"
    (grant,) = tract.review.grants.all()
    assert (grant.scope, grant.name) == (scope, "citation_check")
    again = tract.fire("citation_check", {"urls": ["u"]}, review=True)
    assert tract.reviewer.granted(again)
    assert not tract.reviewer.granted(tract.fire("citation_check", {"urls": ["other"]}, review=True))


def test_the_always_option_names_the_actor_and_volatile_fields(tract, spec, capsys):
    fields = {"n": {"type": "int", "default": 3}, "at": {"type": "str", "default": "noon", "volatile": True}}
    tract.register_operation(spec("pending.approve()", fields=fields))
    tract.operations.fire("citation_check", actor="agent:a", review=True).review(Typist("always", ""))
    said = "always: verify, and never ask again about these values of agent:a; at (now 'noon') may differ"
    assert said in capsys.readouterr().out
    assert tract.review.grants.all()[0].whom == "agent:a"


def test_words_that_make_no_sense_are_not_offered(tract):
    typist = Typist("session", "always", "edit", "reject", "")
    assert tract.propose_gc().review(typist) == "rejected"
    assert typist.questions[0].startswith("exclude / collect / reject?")


def test_the_default_prompt_is_the_current_builtin_input(pending, monkeypatch):
    monkeypatch.setattr("builtins.input", Typist("approve"))  # like a kernel
    assert pending.review() == "approved"


@pytest.mark.parametrize("lines", [("",), ()])
def test_left_for_later_it_waits_in_the_inbox(tract, pending, lines):
    typist = Typist(*lines)
    assert pending.review(typist) == "pending"
    assert "(Enter: later, in %tract inbox)" in typist.questions[0]
    assert [stored.pending_id for stored in tract.review.inbox()] == [pending.pending_id]
    assert pending.review(Typist("approve")) == "approved"


def test_a_decided_pending_shows_no_prompt(pending):
    pending.approve()
    typist = Typist("reject")
    assert pending.review(typist) == "approved"
    assert typist.questions == []


def test_built_ins_are_reviewed_the_same_way(tract, capsys):
    tract.user("read")
    tract.assistant("", tool_calls=[{"id": "a", "name": "read_file", "arguments": {}}])
    pending = tract.propose_tool_result("a", "read_file", "secret")
    assert pending.review(Typist("edit result", "safe", "approve")) == "approved"
    assert tract.compile().messages[-1].content == "safe"
    assert "Tool result" in capsys.readouterr().out


def test_the_prompt_ends_after_five_refused_answers(tract, pending, capsys, monkeypatch):
    def refuse():
        raise FingerprintError("not on this branch")

    monkeypatch.setattr(pending, "check_current", refuse)
    asked = []
    assert pending.review(lambda question: asked.append(question) or "approve") == "pending"
    assert len(asked) == 5
    assert "5 answers were refused" in capsys.readouterr().out
    assert pending.review(Typist("reject", "")) == "rejected"  # a new review prompts again
