"""Dynamic operations: fields and actions as data, which a person reviews before any of their code runs.

* `spec`: the data. `check`: what must hold before anything is made of it. `advice`: what the analysis says of
  its code.
* `activation`: the question whether it becomes active. `lifecycle`: all operations of a tract, stored, active,
  quarantined.
* `registry` and `action`: the classes and functions that are made of an approved spec. `pending`: what firing
  one makes.
* `hooks`: the handlers of a tract (the part `Tract.hooks`). `handlers`: saved ones, which go the same way.
  `rebuilding`: a pending of another process, decided here.

Knows `hooks`, `review`, `storage`, `analysis`, and `sandbox` for actions that run there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.doors import door

if TYPE_CHECKING:
    from tract_jupyter.operations.action import compile_action
    from tract_jupyter.operations.advice import Advice
    from tract_jupyter.operations.registry import OperationRegistry, make_dynamic_pending_class
    from tract_jupyter.operations.spec import ActionDef, OperationSpec, spec_from_dict, spec_to_dict
else:
    __getattr__ = door(
        __name__,
        {
            "ActionDef": "tract_jupyter.operations.spec",
            "Advice": "tract_jupyter.operations.advice",
            "OperationRegistry": "tract_jupyter.operations.registry",
            "OperationSpec": "tract_jupyter.operations.spec",
            "compile_action": "tract_jupyter.operations.action",
            "make_dynamic_pending_class": "tract_jupyter.operations.registry",
            "spec_from_dict": "tract_jupyter.operations.spec",
            "spec_to_dict": "tract_jupyter.operations.spec",
        },
    )

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
