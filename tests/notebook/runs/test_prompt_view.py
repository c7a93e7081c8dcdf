"""The prompt inspector: the changes of a prompt and their origin."""

from tests.notebook.outline import stands_alone
from tests.notebook.runs.examples import HOSTILE, PLAIN, PROMPT, message, run
from tract_jupyter.notebook.runs import MessageChange, PromptView, inspect_prompt
from tract_jupyter.runs import MessagePiece


def view_of(shown, **parts):
    return PromptView(inspect_prompt(shown, **parts))


def test_each_message_is_compared_with_the_plain_prompt():
    found = inspect_prompt(run(), len, "approximate")
    assert [part.change for part in found.parts if part.change is not MessageChange.SAME] == [
        MessageChange.CHANGED, MessageChange.CHANGED, MessageChange.INSERTED,
    ]  # fmt: skip
    assert found.summary == "12 messages: 1 added, 2 changed, 9 unchanged"
    assert found.tokens == sum(len(one.content) for one in PROMPT)
    assert inspect_prompt(run()).tokens is None


def test_parts_are_labelled_with_their_operations():
    html = view_of(run()).to_html()
    stands_alone(html)
    assert "changed by <code>style</code>" in html
    assert "added by <code>retrieve</code>" in html
    assert '<div class="tract-from"><code>style</code></div><pre>Be brief.</pre>' in html
    assert '<div class="tract-from">unchanged</div><pre>Be careful.</pre>' in html
    assert "<del>three </del>" in html
    assert "<ins>3 </ins>" in html


def test_long_texts_and_the_middle_are_folded():
    html = view_of(run()).to_html()
    assert ">Facts:" in html
    assert "⋮ 5 more unchanged messages</summary>" in html
    assert (
        html.index("turn 1")
        < html.index("5 more unchanged messages")
        < html.index("turn 4")
        < html.index("turn 8")
    )
    assert "<details open" not in html


def test_as_text():
    text = view_of(run(), count=len, source="approximate").to_text()
    assert text.startswith("Prompt of run 7f3a9c1e: 12 messages: 1 added, 2 changed, 9 unchanged; ≈")
    assert "~   1 system     changed by style  ≈" in text
    assert "      + Be brief." in text
    assert "  ⋮ 5 more unchanged messages" in text
    assert "+  12 developer  added by retrieve" in text


def test_the_view_counts_omitted_messages():
    shown = run(prompt=(*PLAIN[:2], PLAIN[-1]))
    assert view_of(shown).headline == "3 messages: 8 left out, 3 unchanged"
    assert "left out" in view_of(shown).to_html()


def test_no_prompt_was_made():
    assert view_of(run(prompt=())).headline == "no prompt was made"
    assert view_of(run(prompt=())).to_text().endswith("no prompt was made")


def test_messages_without_keys_go_by_their_labels():
    shown = run(
        prompt=(message("user", "a"), message("system", "b", label="x")), plain_prompt=(message("user", "a"),)
    )
    assert [part.change for part in inspect_prompt(shown).parts] == [
        MessageChange.SAME,
        MessageChange.INSERTED,
    ]


def test_pieces_that_do_not_make_up_the_text_are_not_shown():
    odd = message("system", "all new", "s", "style", (MessagePiece(text="from nowhere", label="style"),))
    html = view_of(run(prompt=(odd,))).to_html()
    assert "from nowhere" not in html
    assert "changed by <code>style</code>" in html


def test_any_text_is_safe():
    odd = message(HOSTILE, HOSTILE * 30, "s", HOSTILE, (MessagePiece(text=HOSTILE * 30, label=HOSTILE),))
    for shown in (run(prompt=(odd,)), run(prompt=(odd, message(HOSTILE, "", "n", HOSTILE)), plain_prompt=())):
        html = view_of(shown).to_html()
        stands_alone(html)
        assert "<script" not in html
        assert "\u202e" not in html + view_of(shown).to_text()
        html.encode()
