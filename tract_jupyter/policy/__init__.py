"""Policies: they decide when something should happen to a context. An orchestrator decides how.

* `protocols`: the interface of a policy and its actions. `view`: the context for policies. After each commit, its
  main values are available without a query to the store.
* `evaluator`: evaluates the policies at their moments, and executes, proposes or reports their actions. `saved`:
  stored policies. `policies`: `t.policies`, which combines these parts.
* `builtin`: the policies with stored settings. Each module there is imported.

Their actions run through the single tool executor, by `toolkit.PolicyCalls`. Knows `toolkit`, `operations`,
`context`, `review`, `storage`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
