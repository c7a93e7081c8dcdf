"""Templates in the Liquid language: read once, rendered within limits.

Liquid (https://shopify.github.io/liquid/) is what such texts are written in elsewhere. This is an engine of our own,
since a template may be hostile: reading takes linear time, rendering has a budget of steps and characters, and what
data says is never executed.

`pieces` cuts a source, `tags` reads and renders the pieces, `expressions` and `filters` compute the `values` in them;
`engine` reads and renders the whole.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
