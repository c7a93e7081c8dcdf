"""Views of a context: where it stands, its messages, history and differences; HTML and SVG for all views.

Where it stands (`overview`), its tools (`tool_list`), messages (`context`), graph (`commit_graph`), events (`events`),
differences (`diff`) and results of the API (`values`), on shared pieces of HTML (`html`, `rows`), styles (`styles`) and
drawings (`svg`). Printed text (`streams`) and displayed HTML (`sanitized`) of a program look as in a notebook.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
