"""Random histories for the laws of surgery: drawn as data, played on a tract."""

from __future__ import annotations

from hypothesis import strategies as st

from tract_jupyter import Tract
from tract_jupyter.context import ApproximateCounter

PICK = st.integers(0, 99)
TEXT = st.text("abc 12\n", min_size=1, max_size=8)
STEP = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(["user", "assistant", "system", "reasoning"]), TEXT),
    st.tuples(st.just("say"), st.sampled_from(["user", "assistant"]), TEXT),
    st.tuples(st.just("edit"), PICK, TEXT),
    st.tuples(st.just("annotate"), PICK, st.sampled_from(["skip", "normal", "important", "pinned"])),
    st.tuples(st.just("tag"), PICK, st.sampled_from(["red", "blue"])),
)
STEPS = st.lists(STEP, min_size=1, max_size=14)


def new_tract(path=":memory:"):
    return Tract.open(path, tokenizer=ApproximateCounter())


def appends(tract):
    """The messages of the current branch, skipped ones too, in order; by first parents."""
    return [info for info in reversed(tract.log(None)) if info.operation == "append"]


def play(tract, steps):
    """Do the steps; those that need a message do nothing on an empty branch."""
    for kind, which, value in steps:
        if kind == "say":
            getattr(tract, which)(value)
            continue
        said = appends(tract)
        if not said:
            continue
        target = said[which % len(said)].commit_hash
        if kind == "edit":
            tract.user(value, edit=target)
        elif kind == "annotate":
            tract.annotate(target, value)
        else:
            tract.tags.add(target, value)


def shown(context):
    """What a model would read, without hashes."""
    return [(m.role, m.content, m.priority) for m in context.messages]


def whole(tract):
    """The same with reasoning, and what counts beside the messages."""
    context = tract.compile(include_reasoning=True)
    return shown(context), tract.compile().token_count, tract.compile().tools


def check(tract, path=None):
    """What holds for every tract: hashes, totals, and the same context cold, warm and reopened."""
    assert tract.verify() == []
    warm = tract.compile()
    status = tract.status()
    assert (status.token_count, status.message_count) == (warm.token_count, len(warm))
    assert warm.token_count == sum(m.token_count for m in warm.messages) + (3 if len(warm) else 0)
    tract._repository.timelines.forget()
    assert tract.compile() == warm
    if path is not None:
        with new_tract(path) as again:
            assert again.compile() == warm
