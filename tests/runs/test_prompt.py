from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import RunError
from tract_jupyter.runs import (
    AppendAfterLastUser,
    InsertAtDepth,
    MessagePiece,
    Prompt,
    RunMessage,
    SystemUpdate,
    UserReplaceText,
    system_text,
)


def prompt_of(*texts):
    """`prompt_of("s:S", "u:U")`: messages by the first letter of their role."""
    roles = {"s": "system", "u": "user", "a": "assistant", "d": "developer"}
    return Prompt.of([{"role": roles[text[0]], "content": text[2:]} for text in texts])


def shown(prompt):
    return [f"{one.role[0]}:{one.content}" for one in prompt.messages]


def after_user(content, role="system"):
    return AppendAfterLastUser(role=role, content=content)


def system(mode, payload):
    return SystemUpdate(mode=mode, payload=payload)


def at_depth(depth, content="X", role="system"):
    return InsertAtDepth(depth_from_end=depth, role=role, content=content)


# --- the current user message


def test_a_synthetic_user_message_does_not_become_the_anchor():
    """R42, G13, G17: a synthetic user message moves no anchor; a later insert is closer to the anchor."""
    prompt = prompt_of("s:S", "u:old", "a:A", "u:U")
    prompt = prompt.apply(after_user("synthetic", "user"), "a").apply(after_user("note"), "b")
    assert shown(prompt) == ["s:S", "u:old", "a:A", "u:U", "s:note", "u:synthetic"]
    assert prompt.user.content == "U"


def test_a_user_message_at_the_tail_does_not_become_the_current_one():
    """G17: the current message is identified by its key, even if another user message follows it."""
    prompt = prompt_of("u:U").apply(at_depth(0, "later", "user"), "a").apply(after_user("note"), "b")
    assert shown(prompt) == ["u:U", "s:note", "u:later"]


def test_the_caller_says_which_message_is_the_users():
    """G17: an earlier message can be the current one, if a tool's result in the user's name follows it."""
    messages = [RunMessage(role="user", content=text, key=text) for text in ("mine", "answer")]
    prompt = Prompt.of(messages, "mine").apply(after_user("note"), "a")
    assert shown(prompt) == ["u:mine", "s:note", "u:answer"]


@pytest.mark.parametrize(
    "effects", [[after_user("1"), after_user("2")], [at_depth(0, "1"), at_depth(0, "2")]]
)
def test_without_a_users_message_inserts_go_to_the_tail(effects):
    """G14, G18: they keep their order."""
    prompt = prompt_of("s:S", "a:A").apply_all([("a", effects[0]), ("b", effects[1])])
    assert shown(prompt) == ["s:S", "a:A", "s:1", "s:2"]
    assert prompt.user is None


def test_a_rewrite_changes_the_current_user_message_in_place():
    """R49: the prompt has the new text of the turn; other user messages are unchanged."""
    prompt = prompt_of("u:old", "a:A", "u:U").apply(UserReplaceText(text="new"), "op")
    assert shown(prompt) == ["u:old", "a:A", "u:new"]
    assert prompt.user.label == "op"
    assert shown(prompt.apply(after_user("n"), "op")) == ["u:old", "a:A", "u:new", "s:n"]


def test_a_rewrite_without_a_users_message_changes_nothing():
    """G18: there is no message to change."""
    assert shown(prompt_of("s:S").apply(UserReplaceText(text="new"), "op")) == ["s:S"]


# --- the system message


@pytest.mark.parametrize(("mode", "expected"), [("prepend", "PS1"), ("append", "S1P"), ("replace", "P")])
def test_the_first_system_message_is_changed_in_place(mode, expected):
    """R43, G16: the first of several."""
    prompt = prompt_of("u:U", "s:S1", "s:S2").apply(system(mode, "P"), "op")
    assert shown(prompt) == ["u:U", f"s:{expected}", "s:S2"]


@pytest.mark.parametrize("mode", ["prepend", "append", "replace"])
def test_a_missing_system_message_is_made_at_the_start(mode):
    """G16: and the next change edits it."""
    prompt = prompt_of("u:U").apply(system(mode, "P"), "a").apply(system("append", "+"), "b")
    assert shown(prompt) == ["s:P+", "u:U"]
    assert prompt.messages[0].pieces == (MessagePiece(text="P", label="a"), MessagePiece(text="+", label="b"))


def test_each_piece_of_a_system_message_has_the_label_of_its_operation():
    """R43, R46: pieces in the order of the text; the original text has no label."""
    prompt = prompt_of("s:S", "u:U")
    prompt = prompt.apply(system("append", "after"), "a").apply(system("prepend", "before"), "b")
    first = prompt.messages[0]
    assert [(one.text, one.label) for one in first.pieces] == [("before", "b"), ("S", None), ("after", "a")]
    assert first.content == "".join(one.text for one in first.pieces)
    assert (first.label, prompt.messages[1].label) == ("b", None)
    replaced = prompt.apply(system("replace", "R"), "c").messages[0]
    assert (replaced.content, replaced.label, replaced.pieces) == ("R", "c", ())


def test_pieces_are_kept_when_another_system_message_becomes_the_first():
    """G16: a system message inserted after a user message that precedes the first system message."""
    effects = [("a", system("append", "1")), ("b", after_user("NEW")), ("c", system("append", "2"))]
    prompt = prompt_of("u:U", "s:S").apply_all(effects)
    assert shown(prompt) == ["u:U", "s:NEW2", "s:S1"]
    assert [one.label for one in prompt.messages] == [None, "c", "a"]


# --- depth


@pytest.mark.parametrize(
    ("depth", "place"), [(0, 4), (-1, 3), (1, 3), (-2, 2), (-3, 1), (-4, 1), (-999, 1), (10**20, 1)]
)
def test_depth_counts_from_the_end(depth, place):
    """R44, G15: its sign is ignored, and no insert precedes the first system message."""
    prompt = prompt_of("s:S", "u:U", "a:A", "u:V").apply(at_depth(depth), "op")
    assert [one.content for one in prompt.messages].index("X") == place


@pytest.mark.parametrize("depth", [-1, -5])
def test_without_a_system_message_depth_may_reach_the_start(depth):
    """G15: it is limited to index 0."""
    assert shown(prompt_of("u:U").apply(at_depth(depth, role="user"), "op")) == ["u:X", "u:U"]


def test_depth_is_counted_in_the_current_draft():
    """G14: two inserts at one depth keep their order."""
    prompt = prompt_of("s:S", "u:U", "a:A").apply_all([("a", at_depth(-1, "1")), ("b", at_depth(-1, "2"))])
    assert shown(prompt) == ["s:S", "u:U", "s:1", "s:2", "a:A"]


# --- identity and immutability


def test_inserted_messages_have_keys_and_labels_of_their_own():
    """G17: keys are unique, for any names of operations."""
    base = Prompt.of([RunMessage(role="user", content="U", key="op#1")])
    prompt = base.apply(after_user("1"), "op").apply(after_user("2"), "op")
    assert len({one.key for one in prompt.messages}) == 3
    assert [one.label for one in prompt.messages] == [None, "op", "op"]
    assert shown(base) == ["u:U"]


@pytest.mark.parametrize("keys", [("a", "a"), ("#1", None)])
def test_two_messages_with_one_key_are_refused(keys):
    """G17: a key is an identity."""
    with pytest.raises(RunError, match="same key"):
        Prompt.of([RunMessage(role="user", content="U", key=key) for key in keys])


def test_an_unknown_user_key_is_refused():
    """G17: the anchor must exist."""
    with pytest.raises(RunError, match="No message of the prompt has the user message's key 'x'"):
        Prompt.of([{"role": "user", "content": "U"}], "x")


def test_an_empty_prompt_takes_every_effect():
    """G16, G18: a missing anchor is not an error."""
    effects = [("a", after_user("1")), ("b", at_depth(-3, "2")), ("c", system("append", "3"))]
    assert len(Prompt().apply_all(effects).messages) == 2


EFFECTS = st.one_of(
    st.builds(after_user, st.sampled_from("abc"), st.sampled_from(["system", "user", "assistant"])),
    st.builds(at_depth, st.integers(-6, 6), st.sampled_from("abc"), st.sampled_from(["system", "user"])),
    st.builds(system, st.sampled_from(["prepend", "append", "replace"]), st.sampled_from(["x", "y", ""])),
    st.builds(lambda text: UserReplaceText(text=text), st.sampled_from("uv")),
)
PROMPTS = st.lists(st.sampled_from(["s:S", "u:U", "a:A"]), max_size=5).map(lambda texts: prompt_of(*texts))


@given(PROMPTS, st.lists(EFFECTS, max_size=8))
def test_applying_effects_one_by_one_equals_applying_them_together(prompt, effects):
    """R46: the original prompt is not changed; the user message keeps its key."""
    before = prompt.messages
    labelled = [(f"op{place % 3}", effect) for place, effect in enumerate(effects)]
    one_by_one = prompt
    for label, effect in labelled:
        one_by_one = one_by_one.apply(effect, label)
    assert one_by_one == prompt.apply_all(labelled)
    assert prompt.messages == before
    assert one_by_one.user_key == prompt.user_key
    keys = [one.key for one in one_by_one.messages]
    assert len(set(keys)) == len(keys)
    assert [key for key in keys if key in {one.key for one in prompt.messages}] == [
        one.key for one in prompt.messages
    ]
    assert all(
        "".join(p.text for p in one.pieces) == one.content for one in one_by_one.messages if one.pieces
    )


# --- messages for the provider


def test_a_provider_is_sent_trimmed_texts_and_no_empty_messages():
    """R46: pieces, keys and labels are not sent."""
    prompt = prompt_of("s:  S \n", "u: ", "u:U")
    assert prompt.provider_messages() == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U"},
    ]


def test_other_fields_of_a_message_are_sent():
    """R46: tool calls and their results are kept, even without a text."""
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
    answer = {"role": "tool", "content": "", "tool_call_id": "c"}
    sent = Prompt.of([call, answer, {"role": "user", "content": "U", "name": "Ada"}]).provider_messages()
    assert [sorted(one) for one in sent] == [
        ["content", "role", "tool_calls"], ["content", "role", "tool_call_id"], ["content", "name", "role"],
    ]  # fmt: skip


@pytest.mark.parametrize(("role", "expected"), [("developer", "system"), ("user", "user"), ("tool", "tool")])
def test_developer_becomes_system_for_a_provider(role, expected):
    """G19: other roles are unchanged."""
    sent = Prompt.of([{"role": role, "content": "x"}]).provider_messages()
    assert sent == [{"role": expected, "content": "x"}]


def test_the_digest_is_the_hash_of_the_sent_messages():
    """R46: equal messages have equal digests, independent of their operations."""
    sent = '[{"role":"system","content":"S"},{"role":"user","content":"\u00dc"}]'
    assert prompt_of("s:S ", "u:\u00dc").digest == hashlib.sha256(sent.encode()).hexdigest()
    assert (
        prompt_of("u:\u00dc").apply(system("append", "S"), "op").digest == prompt_of("s:S", "u:\u00dc").digest
    )


def test_system_messages_are_read_joined_by_a_blank_line():
    """R30: `promptSystem` of a template."""
    assert prompt_of("s:one", "u:U", "s:two", "d:three").system_text == "one\n\ntwo"
    assert system_text(()) == ""


def test_the_context_of_a_tract_gives_keys_that_are_its_commits(tract):
    """G17: the current user's message is a commit."""
    tract.system("S")
    user = tract.user("U")
    more = tract.user("more")
    prompt = Prompt.of_context(tract.compile())
    assert prompt.user.content == "more"
    assert prompt.user_key == more.commit_hash
    assert prompt.messages[1].key == user.commit_hash
