"""Conversations and notebooks, in and out of a tract."""

from __future__ import annotations

import nbformat
import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import ContentError

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How warm is it in Oslo?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "4 °C"},
    {"role": "assistant", "content": "Four degrees."},
]


@pytest.fixture
def notebook():
    v4 = nbformat.v4
    code = v4.new_code_cell("print(1 + 1)", outputs=[v4.new_output("stream", text="2\n")])
    return v4.new_notebook(cells=[v4.new_markdown_cell("# Sums"), code, v4.new_raw_cell("raw")])


def test_a_chat_comes_back_as_it_was(tract):
    tract.exchange.import_messages(CHAT)
    assert tract.exchange.export_messages() == CHAT


def test_a_chat_reaches_the_other_provider(tract):
    tract.exchange.import_messages(CHAT)
    request = tract.exchange.export_messages(shape="anthropic")
    assert request["system"] == "Be brief."
    with Tract.open() as other:
        other.exchange.import_messages(request)
        assert other.exchange.export_messages(shape="anthropic") == request


def test_one_wrong_message_and_nothing_is_committed(tract):
    with pytest.raises(ContentError, match="3"):
        tract.exchange.import_messages([*CHAT[:3], {"role": "nobody", "content": "x"}])
    assert tract.head is None


def test_a_notebook_becomes_commits_and_comes_back(notebook, tmp_path):
    with Tract.from_notebook(notebook, tmp_path / "t.db") as tract:
        assert [m.content_type for m in tract.compile().messages] == [
            "dialogue",
            "artifact",
            "output",
            "artifact",
        ]
        assert "2" in tract.compile().messages[2].content
        again = tract.exchange.to_notebook(tmp_path / "again.ipynb")
    assert [(c.cell_type, c.source, c.id) for c in again.cells] == [
        (c.cell_type, c.source, c.id) for c in notebook.cells
    ]
    nbformat.validate(nbformat.read(tmp_path / "again.ipynb", as_version=4))


def test_a_context_as_a_notebook_is_the_same_context(tract, tmp_path):
    tract.exchange.import_messages(CHAT)
    tract.user("And tomorrow?", edit=tract.log(1)[0].commit_hash)
    path = tmp_path / "chat.ipynb"
    tract.exchange.to_notebook(path)
    with Tract.from_notebook(path) as other:
        assert other.compile().to_dicts() == tract.compile().to_dicts()


def test_no_notebook_leaves_no_commits(tmp_path):
    path = tmp_path / "broken.ipynb"
    path.write_text("{not json", encoding="utf-8")
    with pytest.raises(ContentError):
        Tract.from_notebook(path, tmp_path / "t.db")
    with Tract.open(tmp_path / "t.db") as tract:
        assert tract.head is None


@pytest.mark.parametrize("calls", ["x", [3], [{"id": "c"}], [{"id": 1, "name": "f", "arguments": {}}]])
def test_tool_calls_that_are_none_are_refused(tract, calls):
    with pytest.raises(ContentError, match="tool"):
        tract.assistant("", metadata={"tool_calls": calls})
    assert tract.head is None


def test_a_notebook_keeps_tags_notes_and_what_must_be_kept(tract):
    info = tract.user("the number is 42", tags=["fact"], message="a fact")
    tract.tags.add(info.commit_hash, "seen")
    tract.annotate(info.commit_hash, "important", retain="the number", retain_match=["42"])
    tract.user("well")
    with Tract.open() as other:
        other.exchange.import_notebook(tract.exchange.to_notebook())
        well, fact = other.log(None)
        assert (fact.message, fact.tags, fact.priority) == ("a fact", ("fact", "seen"), "important")
        assert fact.retention == tract.log(None)[1].retention
        assert (well.message, well.tags, well.retention) == ("well", (), None)
