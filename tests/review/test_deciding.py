"""Blocks of `deciding` record who decides, and do not protect their code from a stop."""

import sys
import threading
from contextlib import suppress

from tract_jupyter.review import deciding
from tract_jupyter.storage import raise_in

SIZES = 40


class Stop(BaseException):
    """The exception that is raised in the thread."""


def caller_of_size(size):
    """Return a function that calls another one. Its frame has room for `size` more variables."""
    variables = "".join(f"v{number} = " for number in range(size))
    namespace = {"sys": sys}
    exec(f"def call(rest):\n    {variables}frame = sys._getframe()\n    return rest[0](rest[1:])", namespace)
    return namespace["call"]


def test_code_that_decides_can_be_stopped():
    """The memory of a frame that has ended is reused by a frame of the same size: here there is one of each size."""
    begun, ended = threading.Event(), threading.Event()
    callers = [caller_of_size(size) for size in range(SIZES)]

    def wait_for_ever(_):
        begun.set()
        while True:
            pass

    def work():
        with suppress(Stop), deciding("code", "ada"):
            callers[0]([*callers[1:], wait_for_ever])
        ended.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert begun.wait(60)
    raise_in(thread.ident, Stop)
    assert ended.wait(60)
