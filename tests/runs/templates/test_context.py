"""The context of an operation, as templates see it."""

import pytest

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs import ArtifactView, Hook, OperationContext, RunMessage, RunTrigger
from tract_jupyter.runs.templates import render

MESSAGES = [("system", "one"), ("user", "aaaa"), ("assistant", "bbbb"), ("system", "two"), ("user", "cccc")]


def context(messages=MESSAGES, **changes):
    given = {"run_id": "r", "operation_id": "op", "trigger": RunTrigger.GENERATE, "hook": Hook.BEFORE,
             "messages": tuple(RunMessage(role=role, content=content, key=f"#{place}")
                               for place, (role, content) in enumerate(messages))}  # fmt: skip
    return OperationContext(**{**given, **changes})


@pytest.mark.parametrize(("source", "text"), [
    ("{{ promptSystem }}", "one\n\ntwo"),
    ("{{ lastUserMessage }}/{{ lastAssistantMessage }}", "cccc/bbbb"),
    ("{{ messages.size }} {{ messages[2].content }} {{ chatHistory.size }}", "5 bbbb 3"),
    ("{{ recentMessagesText(2) }}", "assistant: bbbb\nuser: cccc"),
    ("{% for m in recentMessages(2) %}{{ m.role }} {% endfor %}", "assistant user "),
    ("{{ recentMessages(2)[0].content }}{{ recentMessages(0).size }}{{ recentMessages(99).size }}", "bbbb03"),
    ("{{ recentMessagesByContextTokensText(2) }}", "assistant: bbbb\nuser: cccc"),
    ("{{ recentMessagesByContextTokens(1).size }}{{ recentMessagesByContextTokens(0).size }}", "10"),
    ("{{ art.world.value }} {{ art.world.history.size }} {{ art.world.history[0] }}", "new 2 old"),
    ("{{ art.flags.value.x }} {{ art['flags'].value }}", 'true {"x":true}'),
    ("{{ artByOpId.other.value }} {{ artByOpId['a-b'].value }}", "made 1"),
    ("{{ user.name }} {{ char }} {{ now }}", "Ann Bob 2026-01-02T03:04:05Z"),
    ("{{ 'now' | date: '%Y' }}", "2026"),
])  # fmt: skip
def test_templates_read_messages_artifacts_results_and_variables(source, text):
    """R29, R30, R31, X09: messages, artifacts, results of dependencies, variables of the host."""
    given = context(
        artifacts={"world": ArtifactView(tag="world", value="new", history=("old", "new")),
                   "flags": ArtifactView(tag="flags", value={"x": True})},
        by_operation={"other": "made", "a-b": 1}, now="2026-01-02T03:04:05Z",
        variables={"user": {"name": "Ann"}, "char": "Bob"},
    )  # fmt: skip
    assert render(source, given, strict=True) == text


def test_messages_that_are_missing_are_empty_even_if_strict():
    """X09: a missing last message is an empty text, not an error."""
    assert (
        render(
            "[{{ lastUserMessage }}{{ lastAssistantMessage }}{{ promptSystem }}]", context(()), strict=True
        )
        == "[]"
    )


def test_blank_system_messages_are_left_out():
    """X09: they would only be empty lines."""
    said = (
        ("system", " "),
        ("system", "one"),
        ("system", ""),
        ("user", "hi"),
        ("system", "two"),
        ("system", "\n"),
    )
    assert render("[{{ promptSystem }}]", context(said)) == "[one\n\ntwo]"


def test_the_fresh_reply_is_the_last_one():
    """R30, X09: after the main call the reply is the last message of the assistant."""
    given = context((("assistant", "old"),), hook=Hook.AFTER, reply="fresh")
    assert render("{{ lastAssistantMessage }}", given) == "fresh"


def test_the_current_user_message_is_the_real_one():
    """G17, R30: a user message added by an operation does not count as the current one."""
    given = context((("user", "real"), ("user", "synthetic")), user_key="#0")
    assert render("{{ lastUserMessage }}", given) == "real"


def test_dice_are_the_runs_own():
    """R34: random values come from the run's seed, so a replay gives the same."""

    def drawn(**changes):
        return render("{% for i in (1..30) %}{{ random(6) }}{% endfor %}", context(**changes))

    assert drawn(seed=1) == drawn(seed=1) != drawn(seed=2)
    assert drawn(seed=1) != drawn(seed=1, operation_id="another")
    assert set(drawn()) <= set("123456")


def test_unknown_functions_and_wrong_arguments_are_refused():
    for source in (
        "{{ system('x') }}",
        "{{ recentMessages() }}",
        "{{ recentMessages('many') }}",
        "{{ random(1, 2) }}",
        "{{ recentMessagesText() }}",
    ):
        with pytest.raises(TemplateError, match="line 1") as caught:
            render(source, context())
        assert "<locals>" not in str(caught.value)


def test_template_syntax_in_messages_and_artifacts_is_not_rendered():
    """X10, R62: neither a message nor an artifact can control a template."""
    attack = "{{ art.secret.value }}{% for i in (1..99999999) %}x{% endfor %}"
    given = context((("user", attack),), artifacts={"a": ArtifactView(tag="a", value=attack),
                                                    "secret": ArtifactView(tag="secret", value="S")})  # fmt: skip
    text = render("{{ lastUserMessage }}|{{ art.a.value }}|{{ recentMessagesText(1) }}", given)
    assert text == f"{attack}|{attack}|user: {attack}"
