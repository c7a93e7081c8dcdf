"""Views of a context: where it stands, its messages, history and differences; HTML and SVG for all views.

Where it stands (`overview`), its tools (`tool_list`), messages (`context`), graph (`commit_graph`), events (`events`)
and differences (`diff`), on shared pieces of HTML (`html`, `rows`), the styles that they use (`styles`) and drawings
(`svg`). Printed text (`streams`) and displayed HTML (`sanitized`) of a program look as in a notebook.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
