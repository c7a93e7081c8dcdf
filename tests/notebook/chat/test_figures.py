"""The row of a call shows exactly the figures that the model receives, live and from the store."""

from __future__ import annotations

import base64

import pytest

from tests.attachments import png
from tests.notebook.chat.test_outputs import turn  # noqa: F401 # a fixture
from tests.review.scripted import call, reply
from tract_jupyter.exceptions import LLMRequestError
from tract_jupyter.models import AttachedFile
from tract_jupyter.notebook.chat import stored_view
from tract_jupyter.toolkit import ToolResult

SENT, OTHER = (base64.b64encode(png(width, 4)).decode() for width in (5, 6))
DISPLAYS = f"from IPython.display import publish_display_data as p\nfor one in ({SENT!r}, {OTHER!r}, 'x'): p({{'image/png': one, 'text/plain': 'a figure'}})"


@pytest.fixture
def draw(talk):
    @talk.tool(read_only=True)
    def draw() -> str:
        """Draw a picture."""
        return ToolResult(
            "draw", success=True, output="drawn", images=(AttachedFile.of("dot.png", png(5, 4)),)
        )


def views(talk, log):
    """The live and the stored form of the turn."""
    return [(view.to_text(), view.to_html()) for view in (log.view(), stored_view(talk))]


def test_the_row_shows_the_sent_images(chat, talk, draw):
    log = chat("Draw.", reply(None, call("draw")), "A dot.")
    for text, html in views(talk, log):
        assert "✓ draw  1 image sent to the model · " in text
        assert html.count(f"base64,{SENT}") == 1
        assert "1 image sent to the model</div>" in html


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ("This model does not support image input.", "the model takes no images"),
        ("image.source: Could not process image", "the provider refused an image"),
    ],
)
def test_the_row_says_that_images_were_refused(chat, talk, draw, error, why):
    refused = LLMRequestError(error, code="provider_error")
    log = chat("Draw.", reply(None, call("draw")), refused, "A dot.")
    for text, html in views(talk, log):
        assert f"1 image not sent: {why}" in text
        assert "sent to the model" not in html


def test_an_image_that_is_not_sent_is_not_shown(chat, talk, draw):
    talk.loop.images = 0
    for text, html in views(talk, chat("Draw.", reply(None, call("draw")), "A dot.")):
        assert "image sent" not in text
        assert SENT not in html


def test_the_model_receives_the_displays_of_its_script(turn, tract):  # noqa: F811 # the fixture
    log = turn(DISPLAYS)
    parts = tract.llm.last_messages[-1]["content"]
    sent = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert sent == [f"data:image/png;base64,{one}" for one in (SENT, OTHER)]
    assert "2 figures sent to the model" in log.view().to_text()
    assert "2 figures sent to the model" in stored_view(tract).to_text()
    assert stored_view(tract).to_html().count("<img") == 2


def test_the_setting_of_the_notebook(shell, tract):
    assert shell.run("n = tract.loop.images").ok
    assert shell.namespace["n"] == tract.loop.images
    assert shell.run("%config TractJupyter.images_per_turn = 0\nn = tract.loop.images").ok
    assert shell.namespace["n"] == 0
