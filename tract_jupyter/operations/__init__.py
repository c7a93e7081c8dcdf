"""Operations defined while the notebook runs, as data: their specs, their code, their review and their life."""

from __future__ import annotations

from tract_jupyter.operations.action import compile_action
from tract_jupyter.operations.advice import Advice
from tract_jupyter.operations.registry import OperationRegistry, make_dynamic_pending_class
from tract_jupyter.operations.spec import ActionDef, OperationSpec, spec_from_dict, spec_to_dict

__all__ = [
    "ActionDef",
    "Advice",
    "OperationRegistry",
    "OperationSpec",
    "compile_action",
    "make_dynamic_pending_class",
    "spec_from_dict",
    "spec_to_dict",
]
