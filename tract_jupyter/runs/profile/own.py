"""The tract's own operations that fire in each run, as a block of the run's profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.runs.profile.build import run_operation
from tract_jupyter.runs.profile.model import BlockRef, OperationBlock, OperationProfile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.operations import OperationSpec
    from tract_jupyter.runs.model import Operation

BLOCK: Final = "own"
"""The id of the block; its operations are named `own:NAME`."""
_LAST: Final = 1e9


def with_own(profile: OperationProfile | None, specs: Sequence[OperationSpec]) -> OperationProfile | None:
    """Return the profile with the tract's own operations at the end; only these if there is no profile.

    Args:
        profile: the chosen profile; None for none.
        specs: the tract's own operations; each names its hook.
    """
    if not specs:
        return profile
    block = OperationBlock.of(BLOCK, [_operation(spec, place) for place, spec in enumerate(specs)])
    if profile is None:
        return OperationProfile.of(BLOCK, blocks=[block])
    return profile.model_copy(update={"blocks": (*profile.blocks, BlockRef(block=block, order=_LAST))})


def _operation(spec: OperationSpec, place: int) -> Operation:
    when = spec.fires_on
    assert when is not None  # noqa: S101 # they are those that say it
    more: dict[str, Any] = {} if when.action is None else {"action": when.action}
    hook: Any = when.hook  # the name of a hook is valid as well
    return run_operation(
        spec.name, "dynamic", order=place, when=hook, required=when.required, description=spec.description,
        operation=spec.name, fields=when.fields, **more,
    )  # fmt: skip
