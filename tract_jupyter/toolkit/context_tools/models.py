"""The tool that says which model is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from tract_jupyter.llm.model_settings import ModelOperation  # noqa: TC001 # the tool's schema is made of it
from tract_jupyter.toolkit.context_tools.common import WRITES, define

if TYPE_CHECKING:
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.tract import Tract


def model_tools(tract: Tract) -> list[ToolDefinition]:
    """`configure_model`."""
    return define(WRITES, _Models(tract).configure_model)


class _Models:
    def __init__(self, tract: Tract) -> None:
        self._tract = tract

    def configure_model(
        self,
        model: Annotated[str | None, "Its name, as the provider calls it; left out, the usual one."] = None,
        operation: Annotated[
            ModelOperation,
            "chat: replies; compress: summaries; merge: guidance on conflicts; tool_result: shortening answers of "
            "tools; consult: decisions.",
        ] = "chat",
        temperature: Annotated[float | None, "From 0 on; left out, the usual one."] = None,
    ) -> dict[str, Any]:
        options = self._tract.configure_model(model, operation=operation, temperature=temperature)
        return {"operation": operation, **options}
