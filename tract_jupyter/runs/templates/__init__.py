"""Templates in the Liquid language: read once, rendered within limits.

This package has its own engine for Liquid (https://shopify.github.io/liquid/), since a template may be hostile. Reading
takes linear time, rendering has a budget of steps and characters, and data is never executed.

`pieces` cuts a source, `tags` reads and renders the pieces, `expressions` and `filters` compute the `values` in them;
`engine` reads and renders the whole.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
