"""Every text that a model is told on the package's own behalf, and nothing else.

A file for each occasion: what tools are for (`tool_descriptions`), what went wrong with a call
(`tool_calls`), summaries, scripts. No logic, no other room: whoever tells a model something imports the text
from here.
"""
