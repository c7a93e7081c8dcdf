"""Views of a context: its state, messages, history and differences; HTML and SVG for all views.

Views: state (`overview`), tools (`tool_list`), messages (`context`), graph (`commit_graph`), events (`events`),
differences (`diff`) and values of the API (`values`). Shared parts: HTML (`html`, `rows`), styles (`styles`) and
drawings (`svg`). Printed text (`streams`) and displayed HTML (`sanitized`) of a program look as in a notebook.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
