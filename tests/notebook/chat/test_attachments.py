"""Attachments in the notebook: sent with `--files`, named in each view of a message, and never drawn."""

from __future__ import annotations

import base64
import re

import pytest

from tests.attachments import pdf, png
from tests.notebook.chat.test_turns import assert_inert
from tests.notebook.conftest import MODEL
from tests.review.scripted import ScriptedClient
from tract_jupyter.models import AttachedFile
from tract_jupyter.notebook.chat import stored_view

NAMES = (
    "<img src=x onerror=alert(1)>.png",
    "\u202egnp.exe\x1b[31m\n.png",
    '"><script>alert(1)<\u2044script>.png',
)
DATA = base64.b64encode(png(2, 3)).decode()[:40]


@pytest.fixture
def chat(shell, tmp_path):
    """A shell whose model is scripted, in a folder with three files."""
    (tmp_path / "dot.png").write_bytes(png(2, 3))
    (tmp_path / "paper.pdf").write_bytes(pdf())
    (tmp_path / "a.txt").write_text("one\ntwo")
    assert shell.run(MODEL).ok
    return shell


def test_images_and_pdfs_are_attached_and_texts_stand_in_the_message(chat):
    result = chat.run("%%tract_chat --files dot.png a.txt paper.pdf\nWhat is this?")
    parts = chat.namespace["asked"][-1][0][-1]["content"]
    assert [part["type"] for part in parts] == ["image_url", "file", "text"]
    assert re.search(r'of="a.txt".*one\ntwo.*What is this\?$', parts[-1]["text"], re.DOTALL)
    for shown in (result, chat.run("%tract chat show")):
        assert "With dot.png image/png" in shown.text
        assert "68 B" in shown.text
        assert "With paper.pdf application/pdf" in shown.text
        assert "With a.txt file, 2 lines" in shown.text
        assert "base64" not in shown.text + shown.html
    listed = chat.run("%tract chat")
    assert "[dot.png, image/png, 68 B] [paper.pdf, application/pdf," in listed.text
    chat.run("%%tract_chat --retry\n")
    assert chat.namespace["asked"][-1][0][-1]["content"] == parts


def test_nothing_shows_the_bytes(chat):
    chat.run("%%tract_chat --files dot.png\nWhat is this?")
    chat.run("tract.user('And this?', attachments=['dot.png', 'a.txt'])")
    for line in ("%tract log", "%tract status", "%tract chat", "%tract chat show", "tract.log()",
                 "tract.compile()", "tract.compile().pprint('chat')", "print(tract.show('HEAD'))", "tract.loop.turns()",
                 "tract.compile().messages[0]", "%tract diff HEAD~1 HEAD", "%tract cost"):  # fmt: skip
        shown = chat.run(line)
        assert DATA not in shown.text + shown.html, line
    assert "[dot.png, image/png, 68 B]" in chat.run("%tract log").text
    assert "[dot.png, image/png, 68 B]" in chat.run("tract.compile()").text


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_text_and_nothing_is_drawn(chat, tmp_path, name):
    (tmp_path / name).write_bytes(png(2, 3))
    chat.namespace["name"] = name
    assert chat.run("said = tract.chat('Look', attachments=[name])").ok
    for line in ("%tract chat show", "%tract chat", "%tract log", "tract.compile()", "tract.status()"):
        shown = chat.run(line)
        if line.startswith("%tract chat"):
            assert_inert(shown.html)
        assert not re.search("[\x1b\u202e]", shown.text + shown.html)
        assert not re.search('<img|<script|\\bon[a-z]+="', shown.html)
    assert "image/png" in chat.run("%tract chat show").text


def test_chdir_in_a_cell_does_not_change_the_folder_of_attachments(shell, tmp_path):
    (tmp_path / "dot.png").write_bytes(png(2, 3))
    (tmp_path / "below").mkdir()
    shell.run("import os; os.chdir('below')")
    assert shell.run("print(tract.workspace.roots[0].name)").text.strip() == tmp_path.name
    assert shell.run("tract.user('Look', attachments=['dot.png'])").ok


def test_a_turn_as_the_store_has_it(tract):
    tract.configure_llm(ScriptedClient("A dot."))
    tract.chat("Look", attachments=[AttachedFile.of("dot.png", png(2, 3))])
    (turn,) = tract.loop.turns()
    assert (turn.text, [one.name for one in turn.attachments]) == ("Look", ["dot.png"])
    assert turn.told == "[dot.png, image/png, 68 B]\nLook"
    assert "With dot.png image/png" in stored_view(tract).to_text()
