"""A language model's context under version control, and operations that a model proposes and the user reviews.

`%load_ext tract_jupyter` puts `tract` and `tools` into a notebook. `Tract.open(path)` does the same work in a script.

* `tract`: one context in one object. `hooked_context` has its methods that handlers may decide about first, `parts`
  declares its parts. `session`: several tracts in one store; `open_tracts` opens each of them once.
* `exceptions`: every error of the package. `concurrency`: `StopSignal`, which stops running work.

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
