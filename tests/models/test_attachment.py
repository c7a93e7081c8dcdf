"""Attachments: the type comes from the bytes; token counts; the form that is sent."""

from __future__ import annotations

import base64

import pytest

from tests.attachments import gif, jpeg, pdf, png, webp
from tract_jupyter.exceptions import AttachmentError, ContentError
from tract_jupyter.models import (
    MOST_BYTES,
    MOST_FILES,
    MOST_TEXT,
    AttachedFile,
    Attachment,
    DialogueContent,
    Message,
    anthropic_block,
    check_together,
    display_text,
    inline_media,
    is_media,
    media_tokens,
    openai_message,
    sent_message,
    sha256,
    validate_content,
    with_parts,
)

IMAGES = {
    "image/png": png, "image/jpeg": jpeg, "image/gif": gif, "image/webp": webp,
}  # fmt: skip


@pytest.mark.parametrize("media_type", IMAGES)
@pytest.mark.parametrize("name", ["photo", "photo.PNG", "folder/photo.jpg", "photo.webp"])
def test_the_media_type_of_an_image_comes_from_its_content(media_type, name):
    file = AttachedFile.of(name, IMAGES[media_type](20, 10))
    one = file.attachment
    assert (one.name, one.media_type, one.kind, one.size) == (name, media_type, "image", len(file.data))
    assert one.sha256 == sha256(file.data)
    assert file.text == ""


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.txt", "text/plain"), ("a", "text/plain"), ("a.rst", "text/plain"), ("A.MD", "text/markdown"),
        ("a.csv", "text/csv"), ("a.json", "application/json"), ("a.py", "text/x-python"), ("a.svg", "text/plain"),
    ],
)  # fmt: skip
def test_the_media_type_of_a_text_comes_from_its_name(name, media_type):
    file = AttachedFile.of(name, "é\n<svg/>".encode())
    assert (file.attachment.media_type, file.attachment.kind) == (media_type, "text")
    assert f'of="{name}" what="file, {media_type}, 2 lines">\né\n<svg/>\n' in file.text


def test_a_byte_order_mark_is_removed_from_text():
    assert ">\nx\n" in AttachedFile.of("a.txt", b"\xef\xbb\xbfx").text


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.txt", b"", "'a.txt' is empty"),
        ("a.txt", b"\xff\xfea", "neither text in UTF-8 nor an image or a PDF"),
        ("a.txt", b"\x7fELF\0\0", "neither text in UTF-8"),
        ("a.txt", png(1, 1), "the name of a text, but its content is image/png"),
        ("a.png", b"hello", "the name of an image, but its content is text/plain"),
        ("a.png", pdf(), "the name of an image, but its content is application/pdf"),
        ("a.pdf", png(1, 1), "the name of a PDF, but its content is image/png"),
        ("a.png", b"\0\1\2", "'a.png' is no image"),
        ("a.bmp", b"BM\0\0", "allowed: PNG, JPEG, GIF and WebP images, PDF, and text in UTF-8"),
        ("a.png", b"\x89PNG\r\n\x1a\n", "is damaged"),
        ("a.jpg", b"\xff\xd8\xff\xe0\0", "is damaged"),
        ("a.jpg", b"\xff\xd8\xff" + b"\xff" * 100, "is damaged"),
        ("a.gif", b"GIF89a\0\0\0\0", "is damaged"),
        ("a.webp", b"RIFF\0\0\0\0WEBPVP8?" + b"\0" * 30, "is damaged"),
        ("a.png", png(8_001, 1), "8,001 x 1 pixels, but providers accept at most 8,000"),
        ("a.txt", b"x" * (MOST_TEXT + 1), "100,001 bytes, but a text can have at most 100,000"),
        ("a.pdf", pdf(size=MOST_BYTES + 1), "an image or a PDF can have at most 3,700,000"),
        ("\x1b[31m\u202ea.txt", b"", r"'\\ufffd\[31m\\ufffda.txt'|'\ufffd\[31m\ufffda.txt' is empty"),
    ],
)  # fmt: skip
def test_invalid_attachments_are_refused(name, data, told):
    with pytest.raises(AttachmentError, match=told):
        AttachedFile.of(name, data)


def test_the_largest_image_in_base64_fits_the_limit_of_providers():
    assert len(base64.b64encode(bytes(MOST_BYTES))) <= 5_000_000


def test_a_name_is_one_line_that_can_be_shown():
    file = AttachedFile.of("a\x1b[31m\u202e\n<b>.txt", b"x")
    assert file.attachment.name == "a\ufffd[31m\ufffd <b>.txt"
    about = file.attachment.model_dump()
    for name in ("", "a\nb", "a\x1b", "a\u202eb", "a" * 201, " a"):
        with pytest.raises(ContentError, match="printable characters in one line"):
            said_with(attachments=[{**about, "name": name}])


def said_with(**more):
    return validate_content({"content_type": "dialogue", "role": "user", "text": "x", **more})


def test_only_a_message_of_the_user_has_attachments():
    about = AttachedFile.of("a.txt", b"x").attachment.model_dump()
    content = said_with(attachments=[about])
    assert isinstance(content, DialogueContent)
    assert content.attachments == (Attachment(**about),)
    with pytest.raises(ContentError, match="only a user message"):
        said_with(role="assistant", attachments=[about])
    for wrong in ({"media_type": "image/svg+xml"}, {"sha256": "x"}, {"size": 0}, {"data": "aGk="}):
        with pytest.raises(ContentError):
            said_with(attachments=[{**about, **wrong}])
    with pytest.raises(ContentError):
        said_with(attachments=[about] * (MOST_FILES + 1))


def test_too_many_and_too_large_together():
    small, large = AttachedFile.of("a.txt", b"x"), AttachedFile.of("a.pdf", pdf(size=MOST_BYTES))
    check_together([small] * MOST_FILES)
    check_together([large] * 4)
    with pytest.raises(AttachmentError, match="at most 20 attachments, not 21"):
        check_together([small] * (MOST_FILES + 1))
    with pytest.raises(AttachmentError, match="at most 15,000,000 bytes in total, not 18,500,000"):
        check_together([large] * 5)


# --- tokens


@pytest.mark.parametrize(
    "make", [png, jpeg, gif, webp, lambda w, h: webp(w, h, "VP8L"), lambda w, h: webp(w, h, "VP8")]
)
@pytest.mark.parametrize(("width", "height", "tokens"), [
    (750, 750, 750), (1, 1, 85), (1_000, 75, 100), (7_840, 750, 314), (3_000, 3_000, 1_600),
])  # fmt: skip
def test_the_tokens_of_an_image_come_from_its_header(make, width, height, tokens):
    assert media_tokens(make(width, height)) == tokens


def test_the_tokens_of_a_pdf_come_from_its_pages_or_its_size():
    assert media_tokens(pdf(3)) == 6_000
    assert media_tokens(pdf(0)) == 2_000
    assert media_tokens(pdf(0, size=100_001)) == 6_000
    assert media_tokens(b"") == 1_600


def test_the_tokens_of_a_text_are_counted():
    file = AttachedFile.of("a.txt", b"one two")
    assert file.tokens(len) == len(file.text) > 7


# --- the form that is sent

FILES = [
    AttachedFile.of("a.png", png(2, 2)),
    AttachedFile.of("b.pdf", pdf()),
    AttachedFile.of("c.md", b"# C"),
]
BYTES = {one.attachment.sha256: one.data for one in FILES}
MESSAGE = Message("user", "What is this?", attachments=tuple(one.attachment for one in FILES))


def test_a_message_has_parts_in_openais_shape():
    shape = openai_message(MESSAGE, BYTES.__getitem__)
    image, file, text, said = shape["content"]
    url = image["image_url"]["url"]
    assert (image["type"], base64.b64decode(url.removeprefix("data:image/png;base64,"))) == (
        "image_url",
        FILES[0].data,
    )
    assert (file["type"], file["file"]["filename"]) == ("file", "b.pdf")
    assert (
        base64.b64decode(file["file"]["file_data"].removeprefix("data:application/pdf;base64,"))
        == FILES[1].data
    )
    assert text == {"type": "text", "text": FILES[2].text.rstrip()}
    assert said == {"type": "text", "text": "What is this?"}


def test_without_a_reader_they_are_named():
    named = f"[a.png, image/png, {len(FILES[0].data)} B]\n[b.pdf, application/pdf, {len(FILES[1].data)} B]\n[c.md, text/markdown, 3 B]"
    assert openai_message(MESSAGE) == {"role": "user", "content": f"{named}\nWhat is this?"}
    assert MESSAGE.to_dict() == openai_message(MESSAGE)
    content = {"content_type": "dialogue", "role": "user", "text": "",
               "attachments": [one.attachment.model_dump() for one in FILES]}  # fmt: skip
    assert display_text(content) == named


def test_between_packages_they_are_values_until_a_client_is_asked():
    shape = sent_message(MESSAGE)
    assert shape["content"] == "What is this?"
    assert shape["attachments"] == [one.attachment.model_dump() for one in FILES]
    plain = {"role": "user", "content": "x"}
    whole = with_parts([plain, shape], BYTES.__getitem__)
    assert whole[0] is plain
    assert whole[1] == openai_message(MESSAGE, BYTES.__getitem__)


def test_the_media_of_a_request_are_found_in_each_dialect():
    parts = openai_message(MESSAGE, BYTES.__getitem__)["content"]
    blocks = [anthropic_block(part) for part in parts]
    assert blocks[1]["title"] == "b.pdf"
    assert blocks[2:] == [None, None]
    image, file = parts[0]["image_url"]["url"], parts[1]["file"]
    responses = [
        {"type": "input_image", "image_url": image, "detail": "auto"},
        {"type": "input_file", **file},
    ]
    for each in (parts, blocks[:2], responses):
        assert list(inline_media([{"role": "user", "content": each}])) == [FILES[0].data, FILES[1].data]
        assert [is_media(part) for part in each[:2]] == [True, True]
    result = {"type": "tool_result", "tool_use_id": "1", "content": blocks[:1]}
    assert list(inline_media([{"role": "user", "content": [result]}])) == [FILES[0].data]
    for none in (
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "text"},
        "x",
        None,
    ):
        assert not is_media(none)
    assert list(inline_media({"type": "image_url", "image_url": "data:image/png;base64,a"})) == [b""]
