"""The cells of the notebook: reading, editing and running them for a model.

* `messages` reads the messages of a page strictly, because a page is not trusted.
* `pages` holds the connections to the pages: it asks them for cells, sends approved edits, and takes clicks.
* `notebook_file` reads the notebook's file if no page answers, and tells a save of the open notebook from another
  change of its file.
* `edits` checks proposed edits against the texts that the model read, and compares the texts.
* `review` shows a request at its cells with the effects of its code, and turns clicks there into answers.
* `reply` proposes the cells of a reply.
* `origin` looks up why a cell is there.
* `tools` has the tools for models, with bounded data of cells and their outputs.

docs/cells.md describes the protocol.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
