"""Whether another thread can stop the code of a block."""

import sys
import threading
from contextlib import suppress

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


def can_be_stopped(block):
    """Return True if an exception from another thread ends code within the block.

    A frame that has ended leaves its memory to a frame of the same size. The code within the block has one frame of
    each size. So a block that keeps the id of an ended frame would protect this code.
    """
    begun, ended = threading.Event(), threading.Event()
    callers = [caller_of_size(size) for size in range(SIZES)]

    def wait_for_ever(_):
        begun.set()
        while not is_given_up:
            pass

    def work():
        with suppress(Stop), block:
            callers[0]([*callers[1:], wait_for_ever])
        ended.set()

    is_given_up = []
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert begun.wait(60)
    raise_in(thread.ident, Stop)
    was_stopped = ended.wait(10)
    is_given_up.append(True)
    thread.join(60)
    return was_stopped
