"""The sandbox: a Python interpreter in a process of its own, for scripts and for actions that declare it.

`pool` starts and ends the processes, `subset` finds what that Python lacks before anything runs. Knows only
`models`; what a program may reach is given by whoever runs it (`scripts`, `operations`).
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
