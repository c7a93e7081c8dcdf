"""Policies: they decide when something should happen to a context; an orchestrator decides how.

* `protocols`: what a policy is, what it is shown and wants. `view`: the context as policies see it; what is asked of it
  after each commit is known without asking the store.
* `evaluator`: looks at the policies at their moments, and does, proposes or tells what they want. `saved`: how they are
  kept. `policies`: `t.policies`, which puts this together.
* `builtin`: the policies that are stored with their settings. Each module there is imported.

What they want is carried out through the one executor of tools, by `toolkit.PolicyCalls`. Knows `toolkit`,
`operations`, `context`, `review`, `storage`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
