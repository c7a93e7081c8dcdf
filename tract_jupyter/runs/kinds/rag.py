"""Kind `rag`: finds what the history of the branch says about something.

`params`: `{"query": template, "k": 5, "minScore": 0, "roles": [...], "skipLast": 0}`. The value is a list of
`{"commit", "role", "text", "score"}`, best first; see `runs.retrieval`. The user's current message is never among them:
it is in the prompt, and asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from tract_jupyter.runs.data import Data
from tract_jupyter.runs.kinds.base import OperationFailed, Output
from tract_jupyter.runs.kinds.filling import check_filled, rendered
from tract_jupyter.runs.kinds.params import read_params
from tract_jupyter.runs.safe_text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.runs.kinds.base import Made, Problem, Services
    from tract_jupyter.runs.model import Operation, OperationContext


class RagParams(Data):
    """What to look for."""

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    k: Annotated[int, Field(ge=1, le=100)] = 5
    min_score: Annotated[float, Field(ge=0)] = 0
    roles: tuple[Literal["system", "user", "assistant", "tool"], ...] | None = None
    skip_last: Annotated[int, Field(ge=0)] = 0


class RagKind:
    """Searches the history."""

    name = "rag"
    anywhere = False

    def check(self, operation: Operation) -> list[Problem]:
        """All that is wrong with the parameters."""
        return check_filled(RagParams, operation)

    def prepare(self, operation: Operation, services: Services) -> Retrieval:
        """The search, without its words."""
        if services.search is None:
            raise OperationFailed.invalid("there is no history to search here; run it within a tract")
        return Retrieval(read_params(RagParams, operation.config.params), services.search)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Makes one search."""

    params: RagParams
    search: Callable[..., Any]

    def __call__(self, context: OperationContext) -> Made:
        """Search; a query without words finds nothing, which is no error."""
        params, query = self.params, rendered(self.params.query, context)
        found = self.search(
            query, k=params.k, min_score=params.min_score, roles=params.roles, skip_last=params.skip_last,
            branch=context.branch, exclude=[one for one in (context.user_key, context.turn_id) if one],
        )  # fmt: skip
        return Output(
            found, inputs={"queryChars": len(query)}, outputs={"found": len(found)},
            debug={"query": quoted(query, context.policy.max_snapshot)},
        )  # fmt: skip
