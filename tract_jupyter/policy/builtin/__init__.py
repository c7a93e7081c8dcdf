"""The built-in policies: `messages` (compress, pin, gc) and `branches` (branch, merge, rebase, archive).

`base` is what they share.
"""

from __future__ import annotations
