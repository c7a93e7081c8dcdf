"""Rehearsal: run code in a contained copy of the kernel, show its effects, keep them or not, and undo them.

* `rehearser`: rehearses code, and keeps its effects; the level of containment of this machine.
* `engines`: chooses the engine. `fork`: a fork of the kernel. `inherited`: memory and open files that a fork would
  share. `worker`: a fresh process with copies of variables.
* `parent`: the kernel's side of a rehearsal. `supervisor`: ends the copy. `report`: the frames that the copy sends.
* `contain`: the containment. `linux`: its system calls. `filters`: the refused calls. `limits`: time and memory.
* `inside`: runs the code in the copy. `refusals`: reports refused attempts. `copy_tools`: `tools` in the copy.
  `redaction`: removes secrets, also from the memory of the copy.
* `effects`: the effects as one value. `describe`: values in a few words. `tables`: the difference of two tables.
  `contents`: the difference of two other values.
* `values`: safe forms of values, which execute nothing; for libraries `arrays`, `frames`, `arrow`, `polars_frames`.
* In the copy: `baseline` (the variables that the code can reach, and digests), `collect` (writes changed variables).
  `functions`: digests of functions.
* In the kernel: `found` computes the effects from received data, `files` from changed files. `settings`: both sides.
* `adopt`: keeps effects. `change`: a change that was made, with preview, undo and redo. `backups`: contents of files,
  with a journal of each change. `watching`: copies of variables and files before a run in the kernel.

Code never comes back from the copy, only data. Knows `models` and `analysis`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
