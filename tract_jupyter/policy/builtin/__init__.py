"""The built-in policies. `policy_types` finds each `BuiltinPolicy` with a `type_name` in a module here.

* `messages`: compress, pin, gc. `branches`: branch, merge, rebase, archive.
* `trigger`: starts an orchestrator, or fires an operation. `base`: the base class.
"""

from __future__ import annotations
