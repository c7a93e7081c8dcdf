"""Every text that the package itself sends to a model, and nothing else.

A module for each occasion: `tool_descriptions`, `tool_calls`, `summaries`, and `replies` (decisions, and replies that
were not good enough). No logic and no other room: whoever sends a model something imports the text from here.
"""
