"""A context as a person sees it.

Its messages (`context`), its graph (`graph`), differences (`diff`), on shared pieces of HTML (`html`).
"""
