"""The sink of a block receives its output, also if other code replaced `sys.stdout`."""

import io
import sys

from tract_jupyter.review import captured


class Kept:
    def __init__(self):
        self.texts = []

    def write(self, kind, text):
        self.texts.append((kind, text))


def test_a_stream_that_was_replaced_in_between_is_captured_too(monkeypatch):
    outer, inner = Kept(), Kept()
    with captured(outer):
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        with captured(inner):
            sys.stdout.write("inside")
    assert inner.texts == [("stdout", "inside")]
