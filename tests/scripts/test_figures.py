"""Figures of a model's script as images: drawn small, scaled down, or left out."""

from __future__ import annotations

import io
import struct
import sys
import zlib

import pytest

from tests.attachments import png
from tests.review.fakes import FakeChannel, answering, click
from tests.review.scripted import ScriptedClient, call, reply
from tests.scripts.rehearsals import rehearse_in
from tract_jupyter import Tract
from tract_jupyter.rehearsal import Effects, Output
from tract_jupyter.scripts import figure_files

pytest.importorskip("matplotlib")
DRAWS = (
    "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
    "for wide in {}:\n    _, axes = plt.subplots(figsize=(wide, 2))\n    axes.plot([1, 2, 3])"
)


@pytest.fixture(autouse=True)
def no_figures():
    """Close the figures of a test."""
    yield
    sys.modules["matplotlib.pyplot"].close("all") if "matplotlib.pyplot" in sys.modules else None


def run(tract, code):
    return tract.scripts.execute(tract.scripts.prepare(code, author="agent:chat"))


def sizes(result):
    return [struct.unpack(">II", figure.data[16:24]) for figure in result.figures]


@pytest.mark.slow
def test_open_figures_are_drawn_in_order_and_within_the_size_of_providers(tract):
    result = run(tract, DRAWS.format((6, 50)))
    assert sizes(result) == [(600, 200), (1568, 62)]
    assert [figure.attachment.name for figure in result.figures] == ["figure 1.png", "figure 2.png"]
    assert result.notes == ("2 figures drawn for the user in the notebook",)
    assert run(tract, "1").figures == ()
    assert tract.scripts.run(DRAWS.format((4,))).figures == ()


def test_a_figure_that_cannot_be_drawn_is_counted(tract):
    result = run(tract, DRAWS.format((4, 5)) + "\naxes.set_title('$\\\\nothing$')")
    assert len(result.figures) == 1
    assert result.notes == ("2 figures drawn for the user in the notebook; 1 cannot be sent to you",)


def test_large_displays_are_scaled_down(tract):
    from PIL import Image

    def draw(width, pixels=bytes):
        buffer = io.BytesIO()
        Image.frombytes("L", (width, width), pixels(width * width)).save(buffer, "PNG")
        return buffer.getvalue()

    script = tract.scripts.prepare("1", author="agent:chat")
    script.figures = [draw(3000), png(9, 9), b"\x89PNG\r\n\x1a\n damaged", draw(1400, random_bytes)]
    result = tract.scripts.execute(script)
    assert sizes(result) == [(1568, 1568), (9, 9)]
    assert result.notes[0].endswith("2 cannot be sent to you")


def random_bytes(count):
    import random

    return random.Random(1).randbytes(count)


def test_images_of_unapproved_code_are_not_decoded(monkeypatch):
    monkeypatch.setattr(zlib, "decompress", None)
    monkeypatch.setattr("PIL.Image.open", None)
    kept = figure_files(
        [png(3, 2), b"", b"GIF89a", png(3, 2)[:20], png(3, 2) + bytes(1_000_000), png(9_000, 1), png(4, 2)]
    )
    assert [(one.attachment.name, one.attachment.media_type) for one in kept] == [
        ("figure 1.png", "image/png"), ("figure 2.png", "image/png"),
    ]  # fmt: skip


def test_a_model_sees_the_figures_of_its_script(tract):
    arguments = {"code": DRAWS.format((6,)), "backend": "kernel"}
    client = ScriptedClient(reply(None, call("notebook_execute", arguments)), "A line.")
    tract.configure_llm(client)
    tract.reviewer.channel = FakeChannel(answering("approve"))
    tract.chat("Draw.", tools="code")
    image, text = client.last_messages[-1]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert "[figure 1.png, image/png, " in text["text"]
    assert "1 figure drawn for the user in the notebook" in client.last_messages[-2]["content"]


def test_figures_of_a_kept_rehearsal_are_sent_without_decoding(tract, monkeypatch):
    tract.scripts.notebooks.user_namespace = {}
    monkeypatch.setattr("PIL.Image.open", None)
    figures = [
        Output("figure", "", {"image/png": data}) for data in (png(5, 4), b"\x89PNG no image", png(2_000, 1))
    ]
    rehearse_in(tract).default = Effects(
        outputs=(Output("text", "12 rows\n"), *figures, Output("result", "7", {}))
    )
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "keep"))
    arguments = {"code": "draw()", "backend": "kernel", "notebook_id": "user"}
    result = tract.executor.execute("notebook_execute", arguments, actor="agent:chat")
    assert [image.data for image in result.images] == [png(5, 4), png(2_000, 1)]
    assert result.output["notes"] == ["3 figures drawn for the user in the notebook; 1 cannot be sent to you"]


@pytest.mark.slow
def test_figures_on_a_cassette_are_replayed(tract, tmp_path):
    arguments = {"code": DRAWS.format((6,)), "backend": "kernel"}

    def chat(tract):
        tract.reviewer.channel = FakeChannel(answering("approve"))
        tract.chat("Draw.", tools="code")

    tract.configure_llm(ScriptedClient(reply(None, call("notebook_execute", arguments)), "A line."))
    with tract.cassette.record(tmp_path / "a.jsonl"):
        chat(tract)
    with Tract.open(replay=tmp_path / "a.jsonl") as again:
        chat(again)
        assert again.cassette.report.is_same
