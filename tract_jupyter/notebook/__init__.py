"""The extension: the only package that imports IPython, ipykernel and widgets.

* `extension`: loading, unloading, completion. `session`: the state of one kernel. `config`: the settings. `magics`:
  what is typed.
* Commands of `%tract`: `commands`, a file for each subject.
* Cells: `cell_syntax`, `operation_cell`, `propose_cell`, `script_cell`, `profile_cell`, `runs.cell`,
  `orchestration.cell`, `fire_line`; `options`, declared once for each, and `magic_line`, which
  reads them.
* Asking: `channels` (which way a question takes), `front_end` (what is on the other side, probed), `panels`
  (the widget and its record).
* What is shown: `views` (context), `runs` (runs), `formatters`; `progress` of what takes long; `waiting`, what a
  cell leaves open.
* The command line: `headless_run` lists what a headless run refuses, `stores` verifies stores.

Knows every package; no package knows it.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
