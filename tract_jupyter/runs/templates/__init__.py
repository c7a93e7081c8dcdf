"""Texts with placeholders, in the Liquid language: read once, rendered once, within limits.

Liquid (https://shopify.github.io/liquid/) is what such texts are written in elsewhere. This is an engine of our own,
since a template may be hostile: reading takes linear time, rendering has a budget of steps and characters, and what
data says is never executed.
"""

from tract_jupyter.runs.templates.engine import Template, parse
from tract_jupyter.runs.templates.values import TemplateLimits

__all__ = ["Template", "TemplateLimits", "parse"]
