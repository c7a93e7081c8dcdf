"""Hooks: operations that can be decided about before they happen."""

from __future__ import annotations

from tract_jupyter.hooks.builtin.base import ValidationResult
from tract_jupyter.hooks.bus import HookBus, HookEvent
from tract_jupyter.hooks.consulting import Consultation
from tract_jupyter.hooks.firing import auto_retry
from tract_jupyter.hooks.pending import Pending
from tract_jupyter.models.pending import PendingStatus

__all__ = [
    "Consultation",
    "HookBus",
    "HookEvent",
    "Pending",
    "PendingStatus",
    "ValidationResult",
    "auto_retry",
]
