"""Templates in the Liquid language, parsed once and rendered within limits.

This package has its own engine for Liquid (https://shopify.github.io/liquid/), because a template may be hostile.
Parsing takes linear time, rendering has a budget of steps and characters, and data is never executed.

`pieces` splits a source, `tags` parses and renders the pieces, `expressions` and `filters` compute the `values` in
them,
and `engine` combines them.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
