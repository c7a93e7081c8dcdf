"""A profile as one list of operations, with ids and orders that are unique over its blocks (X11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import ProfileError
from tract_jupyter.runs.model import Operation
from tract_jupyter.runs.profile.rules import Together, ids_are_unique, tags_have_one_writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.runs.profile.model import Block, Profile
    from tract_jupyter.runs.terms import ExecutionMode

BUCKET: Final = 1_000_000
"""How far apart the orders of blocks are."""

_EXACT: Final = 2**52
"""Whole numbers up to here are exact as floats, with room for the buckets."""


@dataclass(frozen=True, slots=True)
class CompiledProfile:
    """What a run is planned from.

    Attributes:
        operations: block by block, as written; all of them, also those that are disabled.
        fingerprint: `id:version` of what is in it, joined by `|`; empty if there is nothing.
    """

    operations: tuple[Operation, ...]
    fingerprint: str
    profile_id: str
    version: int
    session_id: str
    execution_mode: ExecutionMode


def compile_profile(profile: Profile) -> CompiledProfile:
    """Put a profile's own operations and those of its enabled blocks into one list.

    Blocks go by (order, id). An operation of a block is called `block:operation`, also in dependencies and
    conditions. Every operation of an earlier block comes before all of a later one: orders are whole numbers, a million
    apart for each block, as long as they fit; in a block where they don't, their ranks take their place. A profile
    that is disabled has no operations (E9).

    Raises:
        ProfileError: two operations of different blocks have one id or write one artifact.
    """
    parts = _parts(profile) if profile.enabled else []
    operations: list[Operation] = []
    for place, part in enumerate(parts):
        orders = _orders(part.operations, is_first=place == 0, is_last=place == len(parts) - 1)
        operations += [
            _placed(one, part.prefix, place * BUCKET + order)
            for one, order in zip(part.operations, orders, strict=True)
        ]
    _check(operations)
    return CompiledProfile(
        tuple(operations), "|".join(part.fingerprint for part in parts),
        profile.profile_id, profile.version, profile.session_id, profile.execution_mode,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Part:
    prefix: str
    fingerprint: str
    operations: tuple[Operation, ...]


def _parts(profile: Profile) -> list[_Part]:
    own = _Part("", f"{profile.profile_id}:{profile.version}", profile.operations)
    refs = sorted(profile.blocks, key=lambda ref: (ref.order, ref.block.block_id))
    shared = [_part(ref.block) for ref in refs if ref.enabled and ref.block.enabled]
    return [own, *shared] if own.operations else shared


def _part(block: Block) -> _Part:
    return _Part(f"{block.block_id}:", f"{block.block_id}:{block.version}", block.operations)


def _orders(operations: Sequence[Operation], *, is_first: bool, is_last: bool) -> list[int]:
    """Return whole numbers that put operations in the order that they say, and stay within their block's bucket."""
    given = [one.config.order for one in operations]
    whole = [int(order) for order in given]
    lowest = -_EXACT if is_first else 0
    highest = _EXACT if is_last else BUCKET - 1
    keeps_apart = len(set(whole)) == len(set(given))
    if keeps_apart and all(lowest <= order <= highest for order in whole):
        return whole
    ranks = {order: rank for rank, order in enumerate(sorted(set(given)))}
    return [ranks[order] for order in given]


def _placed(operation: Operation, prefix: str, order: int) -> Operation:
    config = operation.config
    conditions = tuple(
        one.model_copy(update={"source": prefix + one.source}) for one in config.run_conditions
    )
    changes = {
        "order": float(order),
        "depends_on": tuple(prefix + name for name in config.depends_on),
        "run_conditions": conditions,
    }
    about = operation.definition.model_copy(update={"operation_id": prefix + operation.id})
    return Operation(definition=about, config=config.model_copy(update=changes))


def _check(operations: Sequence[Operation]) -> None:
    together = Together(operations, [one.id for one in operations], {})
    found = [*ids_are_unique(together), *tags_have_one_writer(together)]
    if found:
        raise ProfileError([(rule, f"operation {who!r}, {field}", text) for rule, who, field, text in found])
