"""The extension: the only room that imports IPython, ipykernel and widgets.

* `extension`: loading and unloading. `session`: the state of one kernel. `config`: the settings. `magics`:
  what is typed.
* Commands of `%tract`: `commands`, a file for each subject.
* Cells: `cell_syntax`, `define`, `script_cell`, `runs.cell`, `fire_line`. Completion: `completions`.
* Asking: `channels` (which way a question takes), `front_end` (what is on the other side, probed), `panels`
  (the widget and its record).
* What is shown: `views` (context), `runs` (runs), `formatters`. Before a headless run: `verify`.

Knows every room; no room knows it.
"""
