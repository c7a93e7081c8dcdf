from __future__ import annotations

import base64

import pytest
from nbformat import v4

from tract_jupyter.interchange import outputs_text

PNG = base64.b64encode(b"picture").decode()
IMAGE = "[image/png, 7 B, sha256 "
TRACEBACK = [
    "\x1b[31m---------------------------\x1b[39m",
    "\x1b[31mZeroDivisionError\x1b[39m            Traceback (most recent call last)",
    "\x1b[36mCell\x1b[39m\x1b[36m \x1b[39m\x1b[32mIn[3]\x1b[39m\x1b[32m, line 4\x1b[39m\n      1 def f(x):\n      2     return 1 / x\n----> 4 f(0)",
    "File \x1b[32m/somewhere/lib/wrapper.py:12\x1b[39m, in call(f)\n     11 try:\n---> 12     return f()",
    "\x1b[36mCell In[3], line 2\x1b[39m, in f(x)\n      1 def f(x):\n----> 2     return 1 / x",
    "\x1b[31mZeroDivisionError\x1b[39m: division by zero",
]


def show(*outputs, limit=4000):
    return outputs_text(outputs, limit).text


def data(bundle):
    return v4.new_output("display_data", bundle)


def test_streams_run_on():
    outputs = [
        v4.new_output("stream", name="stdout", text="a\n"),
        v4.new_output("stream", name="stderr", text="\x1b[31mb\x1b[0m"),
    ]
    assert show(*outputs) == "a\nb"
    assert show(*reversed(outputs)) == "b\na\n"


def test_an_error_says_what_and_where_in_the_users_code():
    error = v4.new_output(
        "error", ename="ZeroDivisionError", evalue="\x1b[1mdivision by zero", traceback=TRACEBACK
    )
    assert show(error) == "ZeroDivisionError: division by zero\n    f(0)\n    return 1 / x"


@pytest.mark.parametrize(
    "header",
    ["File <ipython-input-3-ab>:1", "<ipython-input-3-ab> in <module>", "Input In [3], in <cell line: 1>()"],
)
def test_headers_of_older_ipythons(header):
    error = v4.new_output("error", ename="E", evalue="x", traceback=[f"{header}\n----> 1 1/0"])
    assert show(error) == "E: x\n    1/0"


def test_only_the_last_lines_of_a_deep_error():
    deep = [f"Cell In[1], line {n}\n----> {n} f{n}()" for n in range(9)]
    assert (
        show(v4.new_output("error", ename="E", evalue="", traceback=deep))
        == "E: \n    f6()\n    f7()\n    f8()"
    )


def test_an_error_of_another_kernel():
    assert (
        show(v4.new_output("error", ename="Error", evalue="bad", traceback=["at line 1", "  x"]))
        == "Error: bad"
    )


@pytest.mark.parametrize(
    ("bundle", "text"),
    [
        ({"text/plain": "1", "text/html": "<b>1</b>"}, "1"),
        ({"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": "# hi"}, "# hi"),
        ({"text/plain": "<IPython.core.display.Latex object>", "text/latex": "$x$"}, "$x$"),
        ({"text/plain": "<IPython.core.display.JSON object>", "application/json": {"a": [1]}}, '{"a": [1]}'),
        ({"application/vnd.x+json": {"a": 1}, "text/plain": "x"}, "x"),
        ({"text/plain": ""}, ""),
    ],
)
def test_the_text_of_a_bundle(bundle, text):
    assert show(data(bundle)) == text


def test_binary_data_are_named():
    said = outputs_text([data({"text/plain": "<Figure>", "image/png": PNG})], 4000)
    assert said.text.startswith(f"<Figure>\n{IMAGE}")
    assert PNG not in said.text
    assert [(r.media_type, r.bytes) for r in said.data] == [("image/png", 7)]


@pytest.mark.parametrize(
    ("bundle", "line"),
    [
        ({"text/plain": "<IPython.core.display.HTML object>", "text/html": "<b>é</b>"}, "[text/html, 9 B, "),
        ({"application/vnd.plotly.v1+json": {"data": []}}, "[application/vnd.plotly.v1+json, 12 B, "),
        ({"image/svg+xml": "<svg/>", "text/plain": "s"}, "s\n[image/svg+xml, 6 B, "),
        ({"application/pdf": PNG, "text/plain": "s"}, "s\n[application/pdf, 7 B, "),
        ({"application/octet-stream": PNG}, "[application/octet-stream, 7 B, "),
        ({"application/javascript": "1;"}, "[application/javascript, 2 B, "),
    ],
)
def test_what_has_no_text_is_named(bundle, line):
    assert show(data(bundle)).startswith(line)


def test_long_outputs_are_bounded_together():
    outputs = [
        v4.new_output("stream", name="stdout", text="x" * 9000),
        v4.new_output("stream", name="stdout", text="end"),
    ]
    said = outputs_text(outputs, 1000)
    assert len(said.text) <= 1000
    assert said.text.endswith("end")
    assert f"{said.left_out:,} characters left out" in said.text


def test_what_is_no_unicode_is_replaced():
    assert show({"output_type": "stream", "name": "stdout", "text": "a\ud800b"}) == "a?b"


def test_nothing():
    assert outputs_text([], 100).text == ""
    assert show(data({})) == ""
