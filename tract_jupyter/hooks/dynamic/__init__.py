"""Dynamic operations: operations defined while the notebook runs, as data."""

from __future__ import annotations

from tract_jupyter.hooks.dynamic.action import compile_action
from tract_jupyter.hooks.dynamic.factory import make_dynamic_pending_class
from tract_jupyter.hooks.dynamic.spec import ActionDef, OperationSpec, spec_from_dict, spec_to_dict

__all__ = [
    "ActionDef",
    "OperationSpec",
    "compile_action",
    "make_dynamic_pending_class",
    "spec_from_dict",
    "spec_to_dict",
]
