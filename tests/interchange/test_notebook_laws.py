"""What is written is read again, and what is read is written again; through JSON, and through a tract."""

from __future__ import annotations

import json

import nbformat
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interchange.helpers import compiled, openai_lists, seen
from tests.interchange.notebooks import contents, customs, entries, entries_of, notebooks
from tract_jupyter import Tract
from tract_jupyter.interchange import checked, read_notebook, read_openai, write_notebook


def on_disk(notebook):
    """The notebook as a file has it."""
    nbformat.validate(notebook)
    return json.loads(nbformat.writes(notebook))


def cells_of(notebook):
    kept = ("cell_type", "id", "source", "execution_count")
    return [[*(cell.get(key) for key in kept), cell["metadata"].get("tags")] for cell in notebook["cells"]]


@settings(max_examples=75)
@given(st.lists(entries(contents | customs), max_size=6))
def test_entries_come_back_from_their_notebook(given_entries):
    notebook = write_notebook(given_entries)
    assert read_notebook(on_disk(notebook)) == [checked(entry, "x") for entry in given_entries]


@given(notebooks())
def test_a_notebook_comes_back_from_its_entries(notebook):
    read = read_notebook(notebook)
    again = write_notebook(read)
    assert cells_of(again) == cells_of(notebook)
    assert read_notebook(on_disk(again)) == read
    assert on_disk(write_notebook(read_notebook(again))) == on_disk(again)


@settings(max_examples=25)
@given(notebooks())
def test_a_notebook_comes_back_from_a_tract(notebook):
    with Tract.open() as tract:
        for entry in read_notebook(notebook):
            tract.commit(**entry)
        assert entries_of(tract) == read_notebook(notebook)
        assert cells_of(write_notebook(entries_of(tract))) == cells_of(notebook)


@settings(max_examples=25)
@given(st.lists(entries(contents), max_size=5))
def test_a_context_comes_back_from_its_notebook(given_entries):
    context = compiled(given_entries)
    again = compiled(read_notebook(on_disk(write_notebook(given_entries))))
    assert seen(again) == seen(context)


@settings(max_examples=30)
@given(openai_lists())
def test_messages_come_back_from_their_notebook(listed):
    context = compiled(read_openai(listed))
    assert seen(compiled(read_notebook(on_disk(write_notebook(context.messages))))) == seen(context)
