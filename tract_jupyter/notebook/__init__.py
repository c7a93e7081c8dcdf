"""The Jupyter extension. Only this package imports IPython, ipykernel and widgets.

* Lifecycle: `extension` loads and unloads it, `session` is the state of one kernel, `config` has the settings.
* Input: `magics`, the commands of `%tract` (`commands`, one file per subject), and completions.
* Cells: `cell_syntax`, `operation_cell`, `propose_cell`, `script_cell`, `profile_cell`, `runs.cell`,
  `orchestration.cell`. `options` declares each option once, and `magic_line` parses it.
* Requests: `channels` chooses between a panel and a prompt, `front_end` probes the client, `panels` has the widgets
  and records. `cells` reads and edits the notebook's cells for a model. `side_panel` is the panel beside the notebook.
  `notify` tells the user elsewhere that a request waits. `serving` lets outside agents use the kernel.
  `server` is an extension of the Jupyter server.
* Output: `output` replaces an output in place; `views`, `runs` and `formatters` draw values; `progress` shows slow
  work; `waiting` counts open requests below a cell.
* Command line: `headless_run` lists the refusals of a headless run, `stores` verifies stores, `audit` exports them,
  `commands.doctor` checks this installation.

It imports every other package. No package imports it.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
