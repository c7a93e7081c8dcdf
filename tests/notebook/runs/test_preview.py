"""`%tract prompt` and `%tract run --dry`: the next request and calls, without sending anything."""

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter.exceptions import ContentError, RunError, UnknownProfileError
from tract_jupyter.runs.profile import OperationProfile, run_operation

HOSTILE = "<script>alert(1)</script>"
GUIDE = OperationProfile.of("guide", [
    run_operation("question", "guard", order=1, text="Is it one? {{ lastUserMessage }}", outputs=["is_question"]),
    run_operation("style", order=2, text=" Be brief.", into="system", required=True),
    run_operation("facts", "llm", order=3, text="Facts on {{ lastUserMessage }}", into="user", after="question"),
    run_operation("number", "compute", order=4, function="count", arguments={"of": "{{ lastUserMessage }}"}, into="tail"),
    run_operation("look", "tool", order=5, tool="gc", arguments={"dry_run": False}, into="tail"),
    run_operation("never", order=6, text="x", into="tail", only_if={"question.is_question": False}),
    run_operation("shout", order=9, text="{{ lastAssistantMessage | upcase }}", into="reply", when="after"),
])  # fmt: skip


@pytest.fixture
def tract(shell, model):
    """The tract of the shell, with a model and a function that must not be called."""
    tract = shell.namespace["tract"]
    tract.configure_llm(ScriptedClient())
    tract.functions.register("count")(lambda context, arguments: 1 / 0)
    tract.profiles.save(GUIDE)
    return tract


def test_a_preview_sends_no_request_and_stores_nothing(tract):
    before = (tract.head, tract.events(limit=50), tract.runs())
    preview = tract.runs.preview("How many?", profile="guide")
    assert [(one.role, one.content) for one in preview.run.prompt][:2] == [
        ("system", "Be careful. Be brief."),
        ("user", "How many?"),
    ]
    assert {one.operation_id: (bool(one.messages), one.call) for one in preview.imagined} == {
        "question": (True, ""),
        "facts": (True, ""),
        "number": (False, "count"),
        "look": (False, "gc"),
    }
    facts = next(one for one in preview.imagined if one.operation_id == "facts")
    assert facts.messages[-1]["content"] == "Facts on How many?"
    assert not preview.why_not
    assert (tract.head, tract.events(limit=50), tract.runs()) == before


def test_the_sent_prompt_equals_the_preview(tract):
    plain = OperationProfile.of("plain", [run_operation("style", order=2, text=" Be brief.", into="system")])
    preview = tract.runs.preview("How many?", profile=plain)
    tract.configure_llm(ScriptedClient("Seven."))
    reply = tract.chat("How many?", profile=plain)
    assert [one.content for one in reply.run.prompt] == [one.content for one in preview.run.prompt]


def test_a_preview_without_a_profile_is_the_plain_context(tract):
    preview = tract.runs.preview("How many?")
    assert [one.content for one in preview.run.prompt] == ["Be careful.", "How many?"]
    assert preview.tokens > 0
    assert preview.run.profile is None


def test_a_preview_names_a_required_operation_that_fails(tract):
    broken = run_operation("broken", order=1, text="{{ nosuch.thing | join: 1 }}", into="system", required=True,
                           strict_variables=True)  # fmt: skip
    preview = tract.runs.preview("Hm?", profile=OperationProfile.of("broken", [broken]))
    assert "'broken' is required" in preview.why_not
    assert not preview.run.prompt


def test_an_invalid_preview_is_refused(tract):
    with pytest.raises(UnknownProfileError, match="nosuch"):
        tract.runs.preview("x", profile="nosuch")
    with pytest.raises(ContentError, match="the user's message"):
        tract.runs.preview(7)
    with pytest.raises(RunError, match=r"has no operation 'stlye'.* Did you mean 'style'"):
        tract.runs.preview("x", profile="guide").operation("stlye")


def test_the_prompt_is_shown(shell, tract):
    result = shell.run(f'%tract prompt "How many {HOSTILE}?" --profile guide')
    assert result.ok, result.error
    assert "<script>" not in result.html
    for told in (
        "nothing was sent",
        "guide",
        "tokens",
        "your ScriptedClient",
        "price unknown",
        "would call gc",
    ):
        assert told in result.html
        assert told in result.text
    assert "added by style" in result.text or "by style" in result.text
    assert f"Facts on How many {HOSTILE}?" not in result.html
    assert tract.runs() == []


def test_one_operation_is_tried_out(shell, tract):
    result = shell.run("%tract run --dry facts How many? --profile guide")
    assert result.ok, result.error
    assert "Dry run of facts" in result.text
    assert "would ask the model" in result.text
    assert "user: Facts on How many?" in result.text
    assert "Facts on How many?" in result.html
    skipped = shell.run("%tract run --dry never How many? --profile guide").text
    assert "skipped" in skipped
    style = shell.run("%tract run --dry style How many? --profile guide")
    assert "prompt.system_update" in style.text


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("prompt --nosuch", "usage: %tract prompt [TEXT] [--profile NAME]"),
        ("prompt x --profile nosuch", "There is no profile 'nosuch'"),
        ("run --dry", "usage: %tract run"),
        ("run --dry stlye x --profile guide", "Did you mean 'style'?"),
    ],
)
def test_invalid_input_gives_a_short_error(shell, tract, line, told):
    result = shell.run(f"%tract {line}")
    assert not result.ok
    assert told in result.error


def test_profiles_are_completed(shell, tract):
    assert "guide" in shell.complete("%tract prompt x --profile gu")
    assert "--profile" in shell.complete("%tract prompt --")
