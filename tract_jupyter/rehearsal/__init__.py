"""Rehearsal: run code in a contained copy of the kernel, show its effects, keep them or not, and undo them.

* `rehearser`: rehearses code, and keeps its effects. `probe`: the level of containment of this machine.
* `fork`: the engine: a fork of the kernel. `parent`: the kernel's side of it. `report`: the frames that the copy sends.
* `contain`: the containment. `linux`: its system calls. `filters`: the refused calls. `limits`: time and memory.
* `inside`: runs the code in the copy. `refusals`: reports refused attempts. `copy_tools`: `tools` in the copy.
  `redaction`: removes secrets.
* `effects`: the effects as one value.
* `change`: a change that was made, with preview, undo and redo. `backups`: the previous content of files.
* `watch`: copies of variables and files before a run in the kernel.

Code never comes back from the copy, only data. Knows `models` and `analysis`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
