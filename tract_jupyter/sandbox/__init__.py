"""The sandbox: a Python interpreter in a separate process, for scripts and for actions that declare it.

`pool` starts and ends the processes. `subset` finds unsupported constructs before code runs. Knows only `models`. The
callers, `scripts` and `operations`, define the outside access of a program.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
