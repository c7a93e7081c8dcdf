"""The built-in policies: `messages` (compress, pin, gc) and `branches` (branch, merge, rebase, archive)."""

from __future__ import annotations
