"""All texts that the package sends to a model.

Each module has one subject: `tool_descriptions`, `tool_calls`, `turns` (calls that did not run), `summaries`,
`operations` (a model writes one), `orchestrator` (its task and autonomy levels), and `replies` (decisions, plans and
retries). The package has no logic. Knows no other package.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
