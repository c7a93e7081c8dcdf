"""Views of a context: its messages, history and differences; HTML and SVG for all views.

Its messages (`context`), its graph (`commit_graph`), differences (`diff`), on shared pieces of HTML (`html`) and
drawings (`svg`).
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
