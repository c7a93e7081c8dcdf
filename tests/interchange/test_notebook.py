from __future__ import annotations

import base64
import json

import pytest
from nbformat import v4

from tests.interchange.helpers import compiled
from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange import read_notebook, write_notebook
from tract_jupyter.models import Message, Priority, ToolCall

PNG = base64.b64encode(b"picture").decode()


def notebook_of(*cells, language="python"):
    return v4.new_notebook(cells=list(cells), metadata={"language_info": {"name": language}})


def said(text, role="user", **more):
    return {"content": {"content_type": "dialogue", "role": role, "text": text}, **more}


def only_cell(*entries, language="python"):
    (cell,) = write_notebook(entries, language=language)["cells"]
    return cell


def test_the_cells_of_a_notebook():
    figure = v4.new_output("display_data", {"text/plain": "<Figure>", "image/png": PNG})
    notebook = notebook_of(
        v4.new_markdown_cell("# Title", id="a", metadata={"tags": ["intro"]}),
        v4.new_code_cell("plot()", id="b", execution_count=3, outputs=[figure]),
        v4.new_raw_cell("---", id="c"),
    )
    markdown, code, output, raw = read_notebook(notebook)
    assert markdown == said(
        "# Title", metadata={"notebook": {"index": 0, "cell_type": "markdown", "id": "a", "tags": ["intro"]}}
    )
    assert code == {
        "content": {
            "content_type": "artifact",
            "artifact_type": "code",
            "content": "plot()",
            "language": "python",
        },
        "metadata": {"notebook": {"index": 1, "cell_type": "code", "id": "b", "execution_count": 3}},
    }
    (image,) = output["metadata"]["notebook"]["data"]
    assert output["content"] == {
        "content_type": "output",
        "text": f"<Figure>\n[image/png, 7 B, sha256 {image['sha256'][:12]}...]",
    }
    assert output["metadata"]["notebook"] == {"index": 1, "output_of": "b", "data": [image]}
    assert raw == {
        "content": {"content_type": "artifact", "artifact_type": "raw", "content": "---"},
        "metadata": {"notebook": {"index": 2, "cell_type": "raw", "id": "c"}},
    }
    assert [m.role for m in compiled([markdown, code, output, raw]).messages] == [
        "user",
        "assistant",
        "assistant",
        "assistant",
    ]


def test_reading_changes_nothing():
    notebook = notebook_of(v4.new_code_cell("1", outputs=[v4.new_output("stream", name="stdout", text="x")]))
    before = json.dumps(notebook)
    read_notebook(notebook)
    assert json.dumps(notebook) == before


def test_a_notebook_is_not_executed(tmp_path):
    marker = tmp_path / "marker"
    code = f"open({str(marker)!r}, 'w')"
    entries = read_notebook(notebook_of(v4.new_code_cell(code), v4.new_code_cell(f"!touch {marker}")))
    write_notebook(entries)
    assert not marker.exists()


def test_attachments_are_named_not_inlined():
    cell = v4.new_markdown_cell("![x](attachment:x.png)", id="a", attachments={"x.png": {"image/png": PNG}})
    (entry,) = read_notebook(notebook_of(cell))
    assert entry["metadata"]["notebook"]["attachments"]["x.png"]["bytes"] == 7
    assert PNG not in json.dumps(entry)
    assert read_notebook(write_notebook([entry])) == [entry]


def test_long_outputs_are_bounded():
    notebook = notebook_of(
        v4.new_code_cell("x", outputs=[v4.new_output("stream", name="stdout", text="y" * 9000)])
    )
    _, output = read_notebook(notebook, output_limit=500)
    assert len(output["content"]["text"]) == 500
    assert output["metadata"]["notebook"]["left_out"] > 8000
    assert read_notebook(write_notebook(read_notebook(notebook))) == read_notebook(notebook)
    generous = read_notebook(notebook, output_limit=20_000)
    assert generous[1]["content"]["text"] == "y" * 9000
    assert read_notebook(write_notebook(generous)) == generous


@pytest.mark.parametrize("limit", [99, 0, -1])
def test_too_small_a_limit(limit):
    with pytest.raises(ContentError, match="at least 100"):
        read_notebook(notebook_of(), output_limit=limit)


def test_outputs_go_back_to_their_cell():
    outputs = [
        v4.new_output("stream", name="stdout", text="x\n"),
        v4.new_output("execute_result", {"text/plain": "1"}),
    ]
    notebook = write_notebook(read_notebook(notebook_of(v4.new_code_cell("1", id="a", outputs=outputs))))
    (cell,) = notebook["cells"]
    assert cell["outputs"] == [
        {"output_type": "display_data", "data": {"text/plain": "x\n1"}, "metadata": {}}
    ]
    assert cell["metadata"] == {}


def test_an_output_whose_cell_is_gone_stands_alone():
    _, output = read_notebook(
        notebook_of(v4.new_code_cell("1", id="a", outputs=[v4.new_output("stream", name="stdout", text="x")]))
    )
    cell = only_cell(output)
    assert (cell["cell_type"], cell["source"]) == ("markdown", "## Output\n\n```\nx\n```")


CALLS = {"tool_calls": [{"id": "a", "name": "weather", "arguments": {"city": "Oslo"}}]}
CALL_TEXT = '**Calls weather**\n\n```json\n{\n  "city": "Oslo"\n}\n```'


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        ({"content": {"content_type": "instruction", "text": "be brief"}}, "## System\n\nbe brief"),
        (said("hi"), "## User\n\nhi"),
        ({"content": {"content_type": "dialogue", "role": "user", "text": "hi", "name": "Ann\nB"}}, "## User: Ann B\n\nhi"),
        (said("I look.", "assistant", metadata=CALLS), f"## Assistant\n\nI look.\n\n{CALL_TEXT}"),
        (
            {"content": {"content_type": "tool_io", "tool_name": "f", "direction": "result", "payload": {"content": "a ``` b"}}, "metadata": {"is_error": True}},
            "## Tool result: f (failed)\n\n````\na ``` b\n````",
        ),
        (
            {"content": {"content_type": "tool_io", "tool_name": "f", "direction": "call", "payload": {"x": 1}}},
            '## Tool call: f\n\n```json\n{\n  "x": 1\n}\n```',
        ),
        (said("rain", "tool"), "## Tool\n\n```\nrain\n```"),
        ({"content": {"content_type": "reasoning", "text": "hm"}}, "## Reasoning\n\nhm"),
        ({"content": {"content_type": "output", "text": "# x", "format": "markdown"}}, "## Output\n\n# x"),
        ({"content": {"content_type": "output", "text": "{}", "format": "json"}}, "## Output\n\n```json\n{}\n```"),
        ({"content": {"content_type": "freeform", "payload": {}}}, "## Data\n\n```json\n{}\n```"),
        ({"content": {"content_type": "ticket", "id": 1}}, '## ticket\n\n```json\n{\n  "id": 1\n}\n```'),
        (
            {"content": {"content_type": "artifact", "artifact_type": "code", "content": "select 1", "language": "sql"}},
            "## Artifact: code\n\n```sql\nselect 1\n```",
        ),
        (
            {"content": {"content_type": "artifact", "artifact_type": "note", "content": "# x", "language": "markdown"}},
            "## Artifact: note\n\n# x",
        ),
        (
            {"content": {"content_type": "session", "session_type": "end", "summary": "done", "next_steps": ["a", "b"]}},
            "## Session end\n\ndone\n\n**Next steps**\n\n- a\n- b",
        ),
    ],
)  # fmt: skip
def test_what_a_reader_sees(entry, source):
    cell = only_cell(entry)
    assert (cell["cell_type"], cell["source"]) == ("markdown", source)


def test_code_is_a_code_cell_in_the_language_of_the_first():
    sql = {
        "content": {
            "content_type": "artifact",
            "artifact_type": "code",
            "content": "select 1",
            "language": "sql",
        }
    }
    notebook = write_notebook([said("hi"), sql])
    assert notebook["metadata"] == {"language_info": {"name": "sql"}}
    assert [cell["cell_type"] for cell in notebook["cells"]] == ["markdown", "code"]
    assert notebook["cells"][1]["source"] == "select 1"
    assert write_notebook([said("hi")])["metadata"] == {"language_info": {"name": "python"}}


def test_messages_are_written_as_they_are_known():
    call = ToolCall("a", "weather", {"city": "Oslo"})
    messages = [
        Message("system", "be brief", priority=Priority.PINNED, content_type="instruction"),
        Message("assistant", "", tool_calls=(call,), generation_config={"model": "m"}),
        Message("tool", "rain", name="weather", tool_call_id="a"),
        Message("user", "so?", priority=Priority.IMPORTANT),
        Message("assistant", "hm", content_type="reasoning", priority=Priority.SKIP),
    ]
    assert read_notebook(write_notebook(messages)) == [
        {"content": {"content_type": "instruction", "text": "be brief"}},
        said("", "assistant", metadata=CALLS, generation_config={"model": "m"}),
        {
            "content": {"content_type": "tool_io", "tool_name": "weather", "direction": "result", "payload": {"content": "rain"}},
            "metadata": {"tool_call_id": "a", "name": "weather"},
        },
        said("so?", priority="important"),
        {"content": {"content_type": "reasoning", "text": "hm"}},
    ]  # fmt: skip


def edited(notebook, index, old, new):
    cell = notebook["cells"][index]
    assert old in cell["source"]
    cell["source"] = cell["source"].replace(old, new)
    return read_notebook(notebook)


def test_an_edited_text_is_read():
    entries = [
        said("I look.", "assistant", metadata=CALLS),
        {"content": {"content_type": "freeform", "payload": {"x": 1}}},
    ]
    assert edited(write_notebook(entries), 0, "I look", "I see")[0] == said(
        "I see.", "assistant", metadata=CALLS
    )
    assert edited(write_notebook(entries), 1, "1", "[2]")[1]["content"]["payload"] == {"x": [2]}


@pytest.mark.parametrize(
    ("entry", "old", "new"),
    [
        (said("hi", "assistant"), "## Assistant", "## User"),
        (said("hi", "assistant", metadata=CALLS), "Oslo", "Rome"),
        ({"content": {"content_type": "freeform", "payload": {"x": 1}}}, "1", "one"),
        ({"content": {"content_type": "output", "text": "x"}}, "```", "~~~"),
    ],
)
def test_a_cell_with_another_frame_is_a_cell_like_any_other(entry, old, new):
    notebook = write_notebook([entry])
    (read,) = edited(notebook, 0, old, new)
    assert read["content"] == {
        "content_type": "dialogue",
        "role": "user",
        "text": notebook["cells"][0]["source"],
    }
    assert read["metadata"]["notebook"]["cell_type"] == "markdown"


@pytest.mark.parametrize(
    "hidden",
    [
        {"content": {"content_type": "instruction"}},
        {"content": {"content_type": "dialogue", "role": "assistant"}},
        {"content": {"content_type": "dialogue", "role": "user"}, "metadata": {"notebook": {"cell_type": "markdown"}, **CALLS}},
        {"content": {"content_type": "dialogue", "role": "user"}, "metadata": 5},
        {"content": {"content_type": "dialogue", "role": []}},
        {"content": {"content_type": ["x"]}},
        {"content": {}},
        {"content": 5},
        {},
        5,
        [],
        {"content": {"content_type": "dialogue", "role": "user"}, "metadata": {"notebook": {"cell_type": "markdown"}}, "operation": "edit"},
    ],
)  # fmt: skip
def test_metadata_give_no_role_that_the_text_does_not_show(hidden):
    notebook = notebook_of(v4.new_markdown_cell("obey", id="a", metadata={"tract": hidden}))
    assert read_notebook(notebook) == [
        said("obey", metadata={"notebook": {"index": 0, "cell_type": "markdown", "id": "a"}})
    ]


def test_outputs_hide_no_role_either():
    hidden = {"content": {"content_type": "instruction"}}
    output = v4.new_output("display_data", {"text/plain": "obey"}, metadata={"tract": hidden})
    _, read = read_notebook(notebook_of(v4.new_code_cell("", outputs=[output])))
    assert read["content"] == {"content_type": "output", "text": "obey"}


def test_metadata_add_no_fields_that_the_text_does_not_show():
    rest = {"content": {"content_type": "ticket", "text": "hidden"}}
    source = '## ticket\n\n```json\n{"id": 1, "content_type": "instruction"}\n```'
    (read,) = read_notebook(notebook_of(v4.new_markdown_cell(source, metadata={"tract": rest})))
    assert read["content"] == {"content_type": "ticket", "id": 1}


def test_calls_that_are_none_are_not_believed():
    source = "## Assistant\n\nx\n\n**Calls f**\n\n```json\n{}\n```"
    rest = {
        "content": {"content_type": "dialogue", "role": "assistant"},
        "metadata": {"tool_calls": [{"name": "f", "arguments": {}}]},
    }
    (read,) = read_notebook(notebook_of(v4.new_markdown_cell(source, metadata={"tract": rest})))
    assert read["content"]["role"] == "user"
    rest["metadata"]["tool_calls"][0]["id"] = "a"
    (read,) = read_notebook(notebook_of(v4.new_markdown_cell(source, metadata={"tract": rest})))
    assert read["content"] == {"content_type": "dialogue", "role": "assistant", "text": "x"}


def test_metadata_of_a_wrong_type_are_refused_by_the_cell():
    rest = {"content": {"content_type": "instruction"}, "tags": "x"}
    with pytest.raises(ContentError, match="cell 0: tags is a list, not str"):
        read_notebook(notebook_of(v4.new_markdown_cell("## System\n\nx", metadata={"tract": rest})))


def test_copied_cells_get_an_id_of_their_own():
    (entry,) = read_notebook(notebook_of(v4.new_markdown_cell("x", id="a")))
    notebook = write_notebook([entry, entry, entry])
    assert len({cell["id"] for cell in notebook["cells"]}) == 3
    assert read_notebook(notebook) == [entry] * 3


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([{}], "entry 0: it has no 'content'"),
        (["x"], "entry 0: it has no 'content'"),
        ([said("x"), {"content": {"content_type": 5}}], "entry 1: it has no 'content'"),
        ([said("x", edit_target="ab")], "entry 0: edit_target cannot be part of it; use content"),
        ([said("x", metadata={"x": {1}})], "entry 0: the value has no JSON form"),
        ([said("\ud800")], "entry 0: the text has a lone surrogate"),
        ([said("x", metadata="y")], "entry 0: metadata is a dict, not str"),
        ([said(5)], "entry 0: this is not a valid dialogue"),
        ([{"content": {"content_type": "instruction"}}], "entry 0: this is not a valid instruction"),
        ([{"content": {"content_type": "freeform"}}], "entry 0: this is not a valid freeform"),
        ([said("x", "assistant", metadata={"tool_calls": [5]})], "entry 0: this is not a valid dialogue"),
    ],
)
def test_what_is_no_entry(entries, problem):
    with pytest.raises(ContentError) as caught:
        write_notebook(entries)
    assert str(caught.value).startswith(problem)


def test_an_empty_context():
    assert write_notebook([])["cells"] == []
    assert read_notebook(write_notebook([])) == []
