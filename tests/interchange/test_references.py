from __future__ import annotations

import base64
import hashlib

import pytest

from tract_jupyter.interchange import DataReference


@pytest.mark.parametrize(
    ("count", "size"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (12_345, "12.3 kB"),
        (2_500_000, "2.5 MB"),
        (10**10, "10.0 GB"),
    ],
)
def test_sizes(count, size):
    assert str(DataReference("image/png", count, "ab" * 32)) == f"[image/png, {size}, sha256 {'ab' * 6}...]"


def test_base64_is_decoded_line_breaks_and_all():
    data = bytes(range(200))
    reference = DataReference.of("image/png", base64.encodebytes(data).decode())
    assert reference == DataReference("image/png", 200, hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("text", ["not base64!", "é", "abc\ud800"])
def test_other_text_is_taken_as_it_is(text):
    assert DataReference.of("image/png", text) == DataReference.of_text("image/png", text)
