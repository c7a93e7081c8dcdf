"""Profiles and reusable blocks of operations, as data, and all operations of a profile in one list (E19, X11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import uuid4

from pydantic import AfterValidator, Field

from tract_jupyter.exceptions import ProfileError
from tract_jupyter.models import brief_repr, digest
from tract_jupyter.runs.model import Operation  # pydantic reads the annotation
from tract_jupyter.runs.profile.rules import OperationSet, ids_are_unique, tags_have_one_writer
from tract_jupyter.runs.terms import Data, ExecutionMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.runs.profile.warnings import ProfileWarning  # it is what the findings are

DEFAULT_SESSION: Final = "default"
_SHOWN: Final = 8


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is blank: give one")
    return value


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_not_blank)]
Version = Annotated[int, Field(ge=1)]
FiniteOrder = Annotated[float, Field(strict=True)]


class OperationBlock(Data):
    """Operations that several profiles may share. Their ids and dependencies mean operations of the same block."""

    block_id: Annotated[str, Field(max_length=100), AfterValidator(_not_blank)]
    name: Name
    description: str | None = None
    version: Version = 1
    enabled: bool = True
    operations: tuple[Operation, ...] = ()

    @classmethod
    def of(
        cls, block_id: str, operations: Iterable[Operation | dict[str, Any]], **fields: Any
    ) -> OperationBlock:
        """Make a block and check it.

        Args:
            block_id: it becomes a part of the operations' ids, `block_id:operation`; also the name, if none is given.
            operations: as data, or as JSON.
            fields: the others of a block, such as `version=2`.

        Raises:
            ProfileError: with all that is wrong.
        """
        from tract_jupyter.runs.profile.validate import read_block

        content = {"operations": _listed(operations, "operations")}
        return read_block({"block_id": block_id, "name": block_id, **fields, **content})

    def __repr__(self) -> str:
        return f"<OperationBlock {self.block_id!r}: {_few([one.id for one in self.operations])}>"


class BlockRef(Data):
    """A block's place in a profile: blocks go by (order, id)."""

    block: OperationBlock
    order: FiniteOrder = 0
    enabled: bool = True


class OperationProfile(Data):
    """The operations of a run: its own, and blocks of them.

    Attributes:
        enabled: without it, runs are plain generation (E9).
        session_id: what its artifacts and counters are kept under; another one starts empty (E11).
        operations: its own; they come before those of the blocks.
    """

    profile_id: Name
    name: Name
    description: str | None = None
    enabled: bool = True
    execution_mode: ExecutionMode = ExecutionMode.CONCURRENT
    session_id: Annotated[str, Field(max_length=200), AfterValidator(_not_blank)] = DEFAULT_SESSION
    version: Version = 1
    operations: tuple[Operation, ...] = ()
    blocks: tuple[BlockRef, ...] = ()

    @classmethod
    def of(
        cls, name: str, operations: Iterable[Operation | dict[str, Any]] = (),
        blocks: Iterable[OperationBlock | BlockRef | dict[str, Any]] = (), **fields: Any,
    ) -> OperationProfile:  # fmt: skip
        """Make a profile and check it: `OperationProfile.of("diary", [run_operation("summary", ...), ...])`.

        Args:
            name: of the profile; also its id, if none is given.
            operations: its own, as data or JSON.
            blocks: shared ones, in the order in which they are given unless a `BlockRef` says another.
            fields: the others of a profile, such as `execution_mode="sequential"`.

        Raises:
            ProfileError: with all that is wrong.
        """
        from tract_jupyter.runs.profile.validate import read_profile

        refs = [
            BlockRef(block=one, order=float(place)) if isinstance(one, OperationBlock) else one
            for place, one in enumerate(_listed(blocks, "blocks"))
        ]
        content = {"operations": _listed(operations, "operations"), "blocks": refs}
        return read_profile({"profile_id": name, "name": name, **fields, **content})

    @classmethod
    def from_dict(cls, value: object) -> OperationProfile:
        """Read what `to_dict` gave, and check it.

        Raises:
            ProfileError: with all that is wrong.
        """
        from tract_jupyter.runs.profile.validate import read_profile

        return read_profile(value)  # type: ignore[arg-type] # it is checked there

    def compile(self) -> CompiledProfile:
        """Put all operations into one list, with ids and orders that are unique over blocks.

        Raises:
            ProfileError: blocks that do not go together.
        """
        return self.once("compiled", compile_profile)

    @property
    def all_operations(self) -> tuple[Operation, ...]:
        """Its own and those of its blocks, as they are written, also those that are switched off."""
        return (*self.operations, *(one for ref in self.blocks for one in ref.block.operations))

    def lint(self) -> list[ProfileWarning]:
        """Return what is allowed but probably not meant: operations that never run, artifacts that nobody reads, ..."""
        from tract_jupyter.runs.profile.warnings import lint

        return lint(self.compile().operations)

    def with_new_session(self) -> OperationProfile:
        """Return the same profile with an empty memory: later runs start without artifacts and counters (E11)."""
        return self.model_copy(update={"session_id": uuid4().hex})

    @property
    def fingerprint(self) -> str:
        """The sha256 over all of it."""
        return digest(self.to_dict())

    def __repr__(self) -> str:
        shared = [f"{ref.block.block_id}:{one.id}" for ref in self.blocks for one in ref.block.operations]
        return f"<OperationProfile {self.name!r}: {_few([one.id for one in self.operations] + shared)}>"


def _listed(given: Any, what: str) -> list[Any]:
    if isinstance(given, Data | Mapping | str) or not isinstance(given, Iterable):
        raise ProfileError([("not_a_list", what, f"give a list of {what}, not {brief_repr(given)}")])
    return list(given)


def _few(ids: list[str]) -> str:
    more = [f"and {len(ids) - _SHOWN} more"] if len(ids) > _SHOWN else []
    return ", ".join([*ids[:_SHOWN], *more]) or "no operations"


_BUCKET: Final = 1_000_000
"""How far apart the orders of blocks are."""

_EXACT: Final = 2**52
"""Whole numbers up to here are exact as floats, with room for the buckets."""


@dataclass(frozen=True, slots=True)
class CompiledProfile:
    """A profile in the form that a run is planned from.

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


def compile_profile(profile: OperationProfile) -> CompiledProfile:
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
            _placed(one, part.prefix, place * _BUCKET + order)
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


def _parts(profile: OperationProfile) -> list[_Part]:
    own = _Part("", f"{profile.profile_id}:{profile.version}", profile.operations)
    refs = sorted(profile.blocks, key=lambda ref: (ref.order, ref.block.block_id))
    shared = [_part(ref.block) for ref in refs if ref.enabled and ref.block.enabled]
    return [own, *shared] if own.operations else shared


def _part(block: OperationBlock) -> _Part:
    return _Part(f"{block.block_id}:", f"{block.block_id}:{block.version}", block.operations)


def _orders(operations: Sequence[Operation], *, is_first: bool, is_last: bool) -> list[int]:
    """Return whole numbers that put operations in the order that they say, and stay within their block's bucket."""
    given = [one.config.order for one in operations]
    whole = [int(order) for order in given]
    lowest = -_EXACT if is_first else 0
    highest = _EXACT if is_last else _BUCKET - 1
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
    together = OperationSet(operations, [one.id for one in operations], {})
    found = [*ids_are_unique(together), *tags_have_one_writer(together)]
    if found:
        raise ProfileError([(rule, f"operation {who!r}, {field}", text) for rule, who, field, text in found])
