from __future__ import annotations

import json

import nbformat
import pytest
from nbformat import v3, v4

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange import load_notebook, read_notebook, write_notebook


def texts(source):
    return [entry["content"].get("text", entry["content"].get("content")) for entry in read_notebook(source)]


def ids(source):
    return [cell["id"] for cell in load_notebook(source)["cells"]]


def v44(*sources):
    cells = [{"cell_type": "markdown", "metadata": {}, "source": source} for source in sources]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_a_file(tmp_path, kind):
    path = tmp_path / "été.ipynb"
    nbformat.write(v4.new_notebook(cells=[v4.new_markdown_cell("é\n\nb")]), path)
    assert texts(kind(path)) == ["é\n\nb"]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # a byte-order mark
    assert texts(kind(path)) == ["é\n\nb"]


def test_lines_as_a_file_has_them():
    notebook = v4.new_notebook(
        cells=[v4.new_code_cell("a\nb", outputs=[v4.new_output("stream", name="stdout", text="x\ny")])]
    )
    assert texts(json.loads(nbformat.writes(notebook))) == texts(notebook) == ["a\nb", "x\ny"]


def test_ids_of_older_notebooks_are_made_and_always_the_same():
    old = v44("a", "b", "a")
    made = ids(old)
    assert len(set(made)) == 3
    assert ids(old) == made
    assert "id" not in old["cells"][0]
    assert [cell["id"] for cell in write_notebook(read_notebook(old))["cells"]] == made


def test_missing_double_and_bad_ids_are_replaced():
    notebook = {**v44("a", "b", "c", "d"), "nbformat_minor": 5}
    for cell, cell_id in zip(notebook["cells"], ["x", "x", "no id!", None], strict=True):
        cell["id"] = cell_id
    del notebook["cells"][3]["id"]
    made = ids(notebook)
    assert made[0] == "x"
    assert len(set(made)) == 4


def test_version_3_is_upgraded():
    cells = [
        v3.new_text_cell("markdown", source="hi"),
        v3.new_heading_cell("Title", level=2),
        v3.new_code_cell("1", prompt_number=4),
    ]
    old = v3.new_notebook(worksheets=[v3.new_worksheet(cells=cells)], metadata=v3.new_metadata(name="n"))
    assert texts(old) == ["hi", "## Title", "1"]
    assert ids(old) == ids(old)
    assert read_notebook(old)[2]["metadata"]["notebook"]["execution_count"] == 4


def test_a_newer_minor_version_is_read():
    assert texts({**v4.new_notebook(cells=[v4.new_raw_cell("x")]), "nbformat_minor": 9}) == ["x"]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({}, "this is not a notebook that nbformat"),
        ({"nbformat": 5, "nbformat_minor": 0, "cells": [], "metadata": {}}, "Unsupported nbformat version 5"),
        ({"nbformat": "four"}, "Unsupported nbformat version"),
        ({"nbformat": [4]}, "this is not a notebook"),
        ({"nbformat": 4, "nbformat_minor": 5, "metadata": {}}, "this is not a notebook"),
        ({"nbformat": 4, "nbformat_minor": "5", "cells": [], "metadata": {}}, "this is not a notebook"),
        ({"nbformat": 4, "nbformat_minor": 5, "cells": [5], "metadata": {}}, "this is not a notebook"),
        ({"nbformat": 4, "nbformat_minor": 5, "cells": [{"cell_type": "poem", "id": "a", "metadata": {}, "source": ""}], "metadata": {}}, "this is not a notebook"),
        ({"nbformat": 3, "nbformat_minor": 0, "worksheets": [5]}, "this is not a notebook"),
        ({"nbformat": 4, "x": {1}}, "this is not a notebook: Object of type set"),
        (5, "this is not a notebook"),
        ([], "this is not a notebook"),
    ],
)  # fmt: skip
def test_what_is_no_notebook(source, problem):
    with pytest.raises(ContentError, match=problem):
        read_notebook(source)


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"\xff\xfe", b"[" * 200_000, b'{"nbformat": 4', b'{"nbformat": 4, "x": NaN}'],
    ids=["empty", "text", "no-utf8", "deep", "cut", "keys"],
)
def test_a_file_that_is_no_notebook(tmp_path, data):
    path = tmp_path / "x.ipynb"
    path.write_bytes(data)
    with pytest.raises(ContentError, match=r"x\.ipynb"):
        read_notebook(path)


def test_no_file(tmp_path):
    with pytest.raises(ContentError, match="cannot be read: .*No such file"):
        read_notebook(tmp_path / "none.ipynb")
    with pytest.raises(ContentError, match="cannot be read"):
        read_notebook(tmp_path)


def test_text_that_is_no_unicode():
    with pytest.raises(ContentError, match="cell 0: the text has a lone surrogate"):
        read_notebook(v44("\ud800"))


def test_a_large_notebook():
    output = {
        "output_type": "display_data",
        "data": {"image/png": "A" * 4_000_000, "text/plain": "x" * 4_000_000},
        "metadata": {},
    }
    cells = [v4.new_code_cell(f"x = {n}", outputs=[output] if n == 0 else []) for n in range(2000)]
    entries = read_notebook(v4.new_notebook(cells=cells))
    assert len(entries) == 2001
    assert len(entries[1]["content"]["text"]) <= 4000
    assert read_notebook(write_notebook(entries)) == entries
