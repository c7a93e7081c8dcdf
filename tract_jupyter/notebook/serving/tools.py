"""The tools that a kernel offers to outside agents."""

from __future__ import annotations

from typing import Final

from tract_jupyter.prompts import RUN_CODE, VARIABLES
from tract_jupyter.toolkit import READ_ON, ServedAs, ToolConfig, ToolProfile

_CODE: Final = "notebook_execute"
_VARIABLES: Final = "notebook_variables"
_CONTEXT: Final = (
    "status", "compile", "log", "diff", "get_commit", "list_branches", "list_tags", "query_by_tags",
    "query_by_text", READ_ON,
)  # fmt: skip
_PLACE: Final = {"backend": "kernel", "notebook_id": "user"}
SERVED: Final = (
    ServedAs("run_code", _CODE, _PLACE, RUN_CODE),
    ServedAs("variables", _VARIABLES, _PLACE, VARIABLES),
)
PROFILE: Final = ToolProfile(
    "kernel", dict.fromkeys((_CODE, _VARIABLES, *_CONTEXT), ToolConfig()), has_others=True
)
"""Code, variables, search of the context, and the user's tools and operations."""
