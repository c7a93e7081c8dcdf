"""Notebooks of somebody else, and entries of every kind, as strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.interchange.helpers import objects, texts, values, words

if TYPE_CHECKING:
    from tract_jupyter import Tract

sources = texts | st.sampled_from(
    ["", "```\nx\n```", "## User\n\nhi", "x = 1\n", "## System\n\n", "````", "\r\n"]
)
ids = st.text(st.sampled_from("abcDEF019-_"), min_size=1, max_size=64)
tags = st.lists(words, max_size=2, unique=True)
streams = st.builds(lambda text: {"output_type": "stream", "name": "stdout", "text": text}, texts)
errors = st.builds(
    lambda text: {"output_type": "error", "ename": "E", "evalue": text, "traceback": [text]},
    texts,
)
displays = st.builds(
    lambda plain, image: {
        "output_type": "display_data",
        "data": {"text/plain": plain, "image/png": image},
        "metadata": {},
    },
    texts,
    st.just("aGk="),
)


@st.composite
def notebooks(draw: st.DrawFn) -> dict[str, Any]:
    """A valid notebook that was made elsewhere."""
    cells = []
    for cell_id in draw(st.lists(ids, max_size=5, unique=True)):
        kind = draw(st.sampled_from(["code", "markdown", "raw"]))
        own_tags = draw(tags)
        metadata: dict[str, Any] = {"tags": own_tags} if own_tags else {}
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": cell_id,
            "metadata": metadata,
            "source": draw(sources),
        }
        if kind == "code":
            cell["execution_count"] = draw(st.none() | st.integers(0, 99))
            cell["outputs"] = draw(st.lists(streams | errors | displays, max_size=2))
        cells.append(cell)
    language = draw(
        st.sampled_from(
            [
                {},
                {"language_info": {"name": "R"}},
                {"kernelspec": {"name": "k", "display_name": "K", "language": "julia"}},
            ]
        )
    )
    return {"cells": cells, "metadata": language, "nbformat": 4, "nbformat_minor": 5}


contents = st.one_of(
    st.fixed_dictionaries({"content_type": st.just("instruction"), "text": sources}),
    st.fixed_dictionaries(
        {
            "content_type": st.just("dialogue"),
            "role": st.sampled_from(["system", "user", "assistant", "tool"]),
            "text": sources,
            "name": st.none() | texts,
        }
    ),
    st.fixed_dictionaries(
        {
            "content_type": st.just("tool_io"),
            "tool_name": texts,
            "direction": st.sampled_from(["call", "result"]),
            "payload": objects | st.builds(lambda text: {"content": text}, sources),
            "status": st.none() | words,
        }
    ),
    st.fixed_dictionaries(
        {"content_type": st.just("reasoning"), "text": sources, "format": st.sampled_from(["parsed", "raw"])}
    ),
    st.fixed_dictionaries(
        {
            "content_type": st.just("artifact"),
            "artifact_type": st.sampled_from(["code", "raw", "document"]),
            "content": sources,
            "language": st.sampled_from([None, "python", "markdown", "sql", "a `b`"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "content_type": st.just("output"),
            "text": sources,
            "format": st.sampled_from(["text", "markdown", "json"]),
        }
    ),
    st.fixed_dictionaries({"content_type": st.just("freeform"), "payload": objects}),
    st.fixed_dictionaries(
        {
            "content_type": st.just("session"),
            "session_type": st.sampled_from(["start", "end", "handoff", "checkpoint"]),
            "summary": sources,
            "decisions": st.lists(texts, max_size=2),
            "next_steps": st.lists(texts, max_size=2),
        }
    ),
)
customs = st.builds(lambda fields: {**fields, "content_type": "ticket"}, objects)
calls = st.lists(
    st.fixed_dictionaries({"id": words, "name": texts, "arguments": objects}), min_size=1, max_size=2
)
places = st.one_of(
    st.fixed_dictionaries(
        {
            "index": st.integers(0, 3),
            "cell_type": st.sampled_from(["code", "markdown", "raw"]),
            "id": ids | texts,
        },
        optional={"tags": tags | values, "execution_count": st.integers(-1, 3) | values},
    ),
    st.fixed_dictionaries({"index": st.integers(0, 3), "output_of": st.just("a") | ids}),
    values,
)
metadata = st.fixed_dictionaries(
    {}, optional={"notebook": places, "tool_calls": calls, "x": values, "is_error": st.booleans()}
)


def entries(kinds: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Entries of such contents, with anything else that an entry may have."""
    return st.fixed_dictionaries(
        {"content": kinds},
        optional={
            "metadata": metadata,
            "generation_config": objects,
            "priority": st.sampled_from(["normal", "important", "pinned"]),
            "tags": tags,
            "message": words,
        },
    )


def entries_of(tract: Tract) -> list[dict[str, Any]]:
    """The entries of a tract's context, as they were committed."""
    from tract_jupyter.interchange import entry_of

    found = []
    for message in tract.compile().messages:
        info = tract.get_commit(message.commit_hash)
        found.append(entry_of(message, tract.get_content(message.commit_hash), info.metadata, info.tags))
    return found
