"""Models that another process can make of their name alone, or cannot; at the top of a module, so that it finds them."""

from __future__ import annotations

import os
import threading

from tests.review.scripted import call, reply


class Where:
    """Says in which process it was asked, after a call of the tool `look`."""

    def chat(self, messages, **options):
        if options.get("tools") and messages[-1]["role"] != "tool":
            return reply(None, call("look"))
        return reply(str(os.getpid()))


class Local:
    """Cannot be pickled."""

    def __init__(self):
        self.lock = threading.Lock()
        self.asked = 0

    def chat(self, messages, **options):
        self.asked += 1
        return reply("from here")


def no_model():
    raise ImportError("no such module here")


class Unknown:
    """Can be pickled, and not be read again."""

    def chat(self, messages, **options):
        return reply("from here")

    def __reduce__(self):
        return (no_model, ())


class OddError(Exception):
    """Can be pickled, and not be read again: its arguments are others."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Raising:
    """Raises an error of its own."""

    def __init__(self, error):
        self.error = error

    def chat(self, messages, **options):
        raise OddError(3, "odd") if self.error == "odd" else ValueError(self.error)


class Untold:
    """Gives a reply that cannot be sent back."""

    def chat(self, messages, **options):
        return {**reply("hello"), "lock": threading.Lock()}


class Dying:
    """Its process ends in the middle of a request, but for the one that it was made in."""

    def __init__(self):
        self.home = os.getpid()

    def chat(self, messages, **options):
        if os.getpid() != self.home:
            os._exit(1)
        return reply("from here")


def process(_number=0):
    return os.getpid()
