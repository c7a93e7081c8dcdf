"""Operations a model may propose, a person reviews and a notebook runs; with the LLM's context under version control.

`%load_ext tract_jupyter` puts `tract` and `tools` into a notebook. `Tract.open(path)` does the same work in a script.

* `tract`: one context, all in one object; `hooked_context` has its verbs that may be decided about first, `parts`
  what it is made of. `session`: several tracts in one store.
* `exceptions`: every error of the package. `concurrency`: `StopSignal`, which stops what runs.

Everything else is in packages, whose docstrings say what their modules do.
"""

from __future__ import annotations

from typing import Any

from lazy_loader import attach_stub

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)


def load_ipython_extension(shell: Any) -> None:
    """Load the extension: what `%load_ext tract_jupyter` calls with the `InteractiveShell`."""
    from tract_jupyter.notebook import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Unload the extension: what `%unload_ext tract_jupyter` calls with the `InteractiveShell`."""
    from tract_jupyter.notebook import unload

    unload(shell)
