"""Views of a context: its messages, history and differences; HTML and SVG for all views.

Its messages (`context`), its graph (`graph`), differences (`diff`), on shared pieces of HTML (`html`).
"""
