"""Results of MCP tools: the value for code, and the text for a model."""

from __future__ import annotations

import base64
import json

import pytest

from tests.toolkit.servers import scripted
from tract_jupyter.exceptions import McpResultError
from tract_jupyter.toolkit import McpServer

NO_ARGUMENTS = {"type": "object", "properties": {}}
DATA = base64.b64encode(bytes(range(256)) * 60).decode()
OWL = {"type": "text", "text": "1. The barn owl nests in May."}
PIXEL = {"type": "image", "data": DATA, "mimeType": "image/png"}
SHOWN = "[image, image/png, 15,360 bytes]"
WRAPPED = "\n".join(DATA[at : at + 76] for at in range(0, len(DATA), 76))
TEXTS = [
    DATA,
    f"Here it is: {DATA}\nDone.",
    WRAPPED,
    f"```\n{WRAPPED}\n```",
    "> " + WRAPPED.replace("\n", "\n> "),
    WRAPPED.replace("\n", " "),
    "\n".join(DATA[at : at + 120] for at in range(0, len(DATA), 120)),
    f"![x](data:image/png;base64,{DATA}) and ![y](data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP)",
    f"url(data:image/svg+xml;charset=utf-8;base64,{DATA})",
    f"data:image/png;base64,{DATA.replace('+', '%2B').replace('/', '%2F')}",
    f"oh {json.dumps({'a': DATA})}".replace("/", "\\/"),
    "it is " + json.dumps(WRAPPED),
    base64.urlsafe_b64encode(bytes(range(256)) * 8).decode().rstrip("="),
    f"<img src={DATA}>",
]
HIDDEN = "[base64, image/png, 15,360 bytes, not shown]"


def text(value):
    return {"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}


def answered(tract, folder, answer, **tool):
    """Return the value for code and the output for a model."""
    listed = {"name": "f", "inputSchema": NO_ARGUMENTS, **tool}
    tract.mcp.add("raw", scripted(folder, [listed], {"f": answer}))
    value = tract.tools.raw.f()
    told = tract.toolset(actor="user").call("raw_f", {})
    tract.close()
    return value, told


@pytest.mark.parametrize(
    ("answer", "value", "told"),
    [
        # content and structured content that differ: each reader gets its own
        ({"content": [OWL], "structuredContent": {"hits": 1}}, {"hits": 1}, OWL["text"]),
        ({"content": [PIXEL], "structuredContent": {"ok": True}}, {"ok": True}, SHOWN),
        ({"content": [OWL, PIXEL], "structuredContent": {"result": [1]}}, [1], f"{OWL['text']}\n{SHOWN}"),
        ({"content": [OWL], "structuredContent": {"result": 3}}, 3, OWL["text"]),
        ({"content": [OWL], "structuredContent": [1, 2]}, [1, 2], OWL["text"]),
        ({"content": [PIXEL], "structuredContent": {"content": [PIXEL]}}, {"content": [PIXEL]}, SHOWN),
        # content that repeats the structured content: the value is enough
        ({"content": [text({"a": 1})], "structuredContent": {"a": 1}}, {"a": 1}, {"a": 1}),
        ({"content": [text(json.dumps({"a": 1}, indent=2))], "structuredContent": {"a": 1}}, {"a": 1}, {"a": 1}),
        ({"content": [text(1), text("x")], "structuredContent": {"result": [1, "x"]}}, [1, "x"], [1, "x"]),
        ({"content": [], "structuredContent": {"a": 1}}, {"a": 1}, {"a": 1}),
        ({"structuredContent": {"a": 1}}, {"a": 1}, {"a": 1}),
        ({"content": [], "structuredContent": {"result": None}}, None, None),
        # wrappers
        ({"content": [text('a\n"b"')], "structuredContent": {"result": 'a\n"b"'}}, 'a\n"b"', 'a\n"b"'),
        ({"content": [], "structuredContent": {"result": "a\nb"}}, "a\nb", "a\nb"),
        ({"content": [text("a\nb")], "structuredContent": {"content": "a\nb"}}, "a\nb", "a\nb"),
        ({"content": [text({"result": 3})], "structuredContent": {"result": 3}}, 3, 3),
        ({"content": [], "structuredContent": {"content": 3}}, {"content": 3}, {"content": 3}),
        ({"content": [], "structuredContent": {"result": 3, "n": 1}}, {"result": 3, "n": 1}, {"result": 3, "n": 1}),
        # without structured content
        ({"content": [OWL]}, OWL["text"], OWL["text"]),
        ({"content": [OWL, PIXEL]}, f"{OWL['text']}\n{SHOWN}", f"{OWL['text']}\n{SHOWN}"),
        ({"content": []}, None, None),
        # blocks
        ({"content": [{"type": "audio", "data": "QUJD", "mimeType": "audio/wav"}]}, *["[audio, audio/wav, 3 bytes]"] * 2),
        ({"content": [{"type": "resource", "resource": {"uri": "a://b", "blob": "QUJD"}}]}, *["[resource a://b, 3 bytes]"] * 2),
        ({"content": [{"type": "resource", "resource": {"uri": "a://b", "text": "hi"}}]}, *["[resource a://b]\nhi"] * 2),
        ({"content": [{"type": "resource_link", "uri": "a://b", "name": "n", "size": 1234, "mimeType": "text/csv"}]},
         *["[link to resource a://b, n, text/csv, 1,234 bytes]"] * 2),
        ({"content": [OWL, {"type": "hologram", "data": DATA}]}, *[f"{OWL['text']}\n[a block of type 'hologram', not shown]"] * 2),
        ({"content": ["x", {"type": "text"}, {"type": "image"}, {"type": "resource", "resource": 3}]},
         *["[a block of type 'unknown', not shown]\n[a block of type 'text without a text', not shown]\n[image, without data]\n[resource, without content]"] * 2),
        # data in structured content is for code
        ({"content": [], "structuredContent": {"mimeType": "image/png", "data": DATA}},
         {"mimeType": "image/png", "data": DATA}, json.dumps({"mimeType": "image/png", "data": HIDDEN})),
        ({"content": [text({"items": [{"type": "image", "data": DATA, "mimeType": "image/png"}]})],
          "structuredContent": {"items": [PIXEL]}},
         {"items": [PIXEL]}, json.dumps({"items": [{**PIXEL, "data": HIDDEN}]})),
        ({"content": [text({"icon": f"data:image/png;base64,{DATA}"})]},
         json.dumps({"icon": f"data:image/png;base64,{DATA}"}), json.dumps({"icon": HIDDEN})),
    ],
)  # fmt: skip
def test_code_gets_the_value_and_the_model_the_content(tract, tmp_path, answer, value, told):
    assert answered(tract, tmp_path, answer) == (value, told)


@pytest.mark.parametrize(
    "value",
    [
        {"sha": "0123456789abcdef" * 16},
        {"sequence": "ACGT" * 5_000},
        {"text": "a long text with words and 12 Numbers. " * 200},
        {"data": "short"},
        {"data": "1,2,3\n" * 200},
        {"ids": ["a1B2" * 10] * 100},
        {"path": "/srv/Data/2026/" * 30 + "x.csv"},
        "see /srv/Data/2026/" + "Some-Folder_7/" * 30 + "x.csv",
        "ACGT" * 5_000,
        "0123456789abcdef" * 16 + " f.txt\n" + "word\n" * 300,
        "\n".join(f"aB{index:038d}" for index in range(100)),
        {"a" * 300: "a" * 300},
    ],
)
def test_text_that_only_looks_like_data_is_kept(tract, tmp_path, value):
    assert answered(tract, tmp_path, {"content": [], "structuredContent": value}) == (value, value)


@pytest.mark.parametrize(
    "value",
    [
        {"whatever": DATA},
        {"whatever": "\n".join(DATA[at : at + 76] for at in range(0, len(DATA), 76))},
        {"data": base64.b64encode(b"ABC" * 100).decode()},
        {"nested": [{"deeper": {"image": DATA}}]},
        {"whatever": base64.urlsafe_b64encode(bytes(range(256)) * 8).decode().rstrip("=")},
        {"mime_type": "audio/wav", "whatever": base64.b64encode(b"ABC" * 100).decode()},
        {DATA: 1},
        {"text": f"![x](data:image/png;base64,{DATA})"},
        {"text": json.dumps({"a": DATA})},
        *TEXTS,
    ],
)
def test_no_data_reaches_the_model(tract, tmp_path, value):
    given, told = answered(tract, tmp_path, {"content": [text(value)], "structuredContent": value})
    assert given == value
    assert "[base64, " in told
    assert len(told) < 120


@pytest.mark.parametrize("value", TEXTS)
@pytest.mark.parametrize(
    "answer",
    [
        lambda value: {"content": [text(value)]},
        lambda value: {"content": [text(value)], "structuredContent": {"hits": 1}},
        lambda value: {"content": [{"type": "resource", "resource": {"uri": "a://b", "text": value}}]},
    ],
    ids=["alone", "beside", "resource"],
)
def test_no_data_in_a_text_reaches_the_model(tract, tmp_path, value, answer):
    _, told = answered(tract, tmp_path, answer(value))
    assert "[base64, " in told
    assert len(told) < 120


@pytest.mark.parametrize("value", TEXTS)
@pytest.mark.parametrize("part", ["content", "structuredContent"])
def test_no_data_in_an_error_reaches_the_model(tract, tmp_path, value, part):
    content = (
        {"content": [text(value)]} if part == "content" else {"content": [], part: {"error": value, value: 1}}
    )
    tract.mcp.add(
        "raw",
        scripted(tmp_path, [{"name": "f", "inputSchema": NO_ARGUMENTS}], {"f": {**content, "isError": True}}),
    )
    error = tract.executor.execute("raw.f", {}).error
    assert "[base64, " in error
    assert len(error) < 240
    tract.close()


def test_names_that_are_data_do_not_replace_each_other(tract, tmp_path):
    value = {DATA: 1, DATA[4:] + "AAAA": 2}
    _, told = answered(tract, tmp_path, {"content": [], "structuredContent": value})
    assert list(json.loads(told).values()) == [1, 2]


def test_printing_a_value_shows_the_text_for_the_model(tract, tmp_path):
    answer = {"content": [OWL], "structuredContent": {"hits": 1}}
    tract.mcp.add("raw", scripted(tmp_path, [{"name": "f", "inputSchema": NO_ARGUMENTS}], {"f": answer}))
    value = tract.tools.raw.f()
    assert (repr(value), str(value), value.content) == ("{'hits': 1}", OWL["text"], OWL["text"])
    assert tract.executor.execute("raw.f", {}).output == {"hits": 1}
    tract.close()


@pytest.mark.parametrize("backend", ["kernel", "sandbox"])
def test_a_script_gets_the_value(tract, tmp_path, backend):
    answer = {"content": [OWL], "structuredContent": {"hits": [1, 2]}}
    tract.mcp.add(
        "raw", scripted(tmp_path, [{"name": "f", "inputSchema": NO_ARGUMENTS, "annotations": {"readOnlyHint": True}}],
                        {"f": answer}), trust_annotations=True)  # fmt: skip
    result = tract.scripts.run("x = tools.raw.f()\nx['hits'] + [x]", backend=backend)
    assert (result.status, result.value) == ("completed", [1, 2, {"hits": [1, 2]}])
    tract.close()


@pytest.mark.parametrize(
    ("schema", "value", "stub"),
    [
        (
            {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]},
            3,
            "-> int",
        ),
        (
            {"type": "object", "properties": {"result": {"type": "integer"}, "more": {"type": "string"}}},
            {"result": 3},
            "TypedDict",
        ),
        ({"type": "array"}, 3, "-> list"),
        ({"description": "anything"}, 3, "-> Any"),
        ({"type": "object", "properties": {"result": {"type": "no type"}}}, 3, "-> Any"),
        ({"type": "object", "properties": {"result": {"$ref": "http://127.0.0.1:9/x"}}}, 3, "-> Any"),
        ("text", 3, "-> Any"),
    ],
)
def test_the_value_is_of_the_type_that_the_stub_says(tract, tmp_path, schema, value, stub):
    answer = {"content": [text({"result": 3})], "structuredContent": {"result": 3}}
    listed = {"name": "f", "inputSchema": NO_ARGUMENTS, "outputSchema": schema}
    tract.mcp.add("raw", scripted(tmp_path, [listed], {"f": answer}))
    assert tract.tools.raw.f() == value
    assert stub in tract.tools.stub_source(["raw.f"])
    assert tract.mcp.problems("raw") == {}
    tract.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "content: Field required"),
        ({"content": {}}, "content: Input should be a valid list"),
        ({"content": None, "structuredContent": {}}, "content: Input should be a valid list"),
        ({"content": [text("x" * 1_001)]}, "1,001 bytes"),
        (
            {"content": [text("x" * 900)] * 9},
            "at least 1,801 bytes",
        ),  # describing millions of blocks takes minutes
        ({"content": [], "structuredContent": {"a": "x" * 1_001}}, "1,010 bytes"),
        ({"content": [OWL], "structuredContent": {"a": "x " * 501}}, "1,011 bytes"),
        ({"content": [], "resultType": "input_required"}, "asks for input"),
    ],
)
def test_an_answer_that_cannot_be_used(tmp_path, answer, words):
    with McpServer("raw", scripted(tmp_path, [], {"f": answer}), result_bytes=1_000) as server:
        with pytest.raises(McpResultError, match=words):
            server.call("f")
        assert server.is_running


def test_an_error_shows_its_content(tract, tmp_path):
    answer = {"content": [PIXEL], "structuredContent": {"data": DATA}, "isError": True}
    tract.mcp.add("raw", scripted(tmp_path, [{"name": "f", "inputSchema": NO_ARGUMENTS}], {"f": answer}))
    assert tract.executor.execute("raw.f", {}).error == SHOWN
    tract.close()
