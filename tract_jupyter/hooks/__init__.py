"""Hooks: operations that can be decided about before they happen."""

from __future__ import annotations

from tract_jupyter.hooks.advice import Advice
from tract_jupyter.hooks.builtin.base import ValidationResult
from tract_jupyter.hooks.bus import HookBus
from tract_jupyter.hooks.consulting import Consultation
from tract_jupyter.hooks.dynamic.spec import ActionDef, OperationSpec
from tract_jupyter.hooks.log import HookEvent
from tract_jupyter.hooks.pending import Pending
from tract_jupyter.hooks.registry import OperationRegistry
from tract_jupyter.hooks.retry import auto_retry
from tract_jupyter.models.pending import PendingStatus

__all__ = [
    "ActionDef",
    "Advice",
    "Consultation",
    "HookBus",
    "HookEvent",
    "OperationRegistry",
    "OperationSpec",
    "Pending",
    "PendingStatus",
    "ValidationResult",
    "auto_retry",
]
