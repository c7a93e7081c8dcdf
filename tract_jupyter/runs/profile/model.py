"""Profiles and shared blocks of operations as data, and their compilation into one list (E19, X11)."""

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

    from tract_jupyter.runs.profile.warnings import ProfileWarning  # it is part of a signature

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
    """Operations that profiles can share. Their ids and dependencies refer to the same block."""

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
            block_id: the prefix of the operations' ids, `block_id:operation`; also the default name.
            operations: operations, or their JSON.
            fields: other fields of a block, such as `version=2`.

        Raises:
            ProfileError: lists all problems.
        """
        from tract_jupyter.runs.profile.validate import read_block

        content = {"operations": _listed(operations, "operations")}
        return read_block({"block_id": block_id, "name": block_id, **fields, **content})

    def __repr__(self) -> str:
        return f"<OperationBlock {self.block_id!r}: {_few([one.id for one in self.operations])}>"


class BlockRef(Data):
    """A block in a profile. Blocks are sorted by (order, id)."""

    block: OperationBlock
    order: FiniteOrder = 0
    enabled: bool = True


class OperationProfile(Data):
    """The operations of a run: its own, and blocks.

    Attributes:
        enabled: False to run the model without operations (E9).
        session_id: the key of its artifacts and counters; a new one starts without them (E11).
        operations: its own operations. They run before the operations of blocks.
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
            name: the name; also the default id.
            operations: its own operations, or their JSON.
            blocks: shared blocks in this order, unless a `BlockRef` has another order.
            fields: other fields of a profile, such as `execution_mode="sequential"`.

        Raises:
            ProfileError: lists all problems.
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
        """Read the result of `to_dict`, and check it.

        Raises:
            ProfileError: lists all problems.
        """
        from tract_jupyter.runs.profile.validate import read_profile

        return read_profile(value)  # type: ignore[arg-type] # it is checked there

    def compile(self) -> CompiledProfile:
        """Return all operations in one list, with unique ids and orders.

        Raises:
            ProfileError: blocks conflict.
        """
        return self.once("compiled", compile_profile)

    @property
    def all_operations(self) -> tuple[Operation, ...]:
        """Its operations and the operations of its blocks as written, including disabled ones."""
        return (*self.operations, *(one for ref in self.blocks for one in ref.block.operations))

    def lint(self) -> list[ProfileWarning]:
        """Return warnings: operations that never run, artifacts that nothing reads, ..."""
        from tract_jupyter.runs.profile.warnings import lint

        return lint(self.compile().operations)

    def with_new_session(self) -> OperationProfile:
        """Return the profile with a new session: runs start without artifacts and counters (E11)."""
        return self.model_copy(update={"session_id": uuid4().hex})

    @property
    def fingerprint(self) -> str:
        """The sha256 of the whole profile."""
        return digest(self.to_dict())

    def __repr__(self) -> str:
        shared = [f"{ref.block.block_id}:{one.id}" for ref in self.blocks for one in ref.block.operations]
        return f"<OperationProfile {self.name!r}: {_few([one.id for one in self.operations] + shared)}>"


def _listed(value: Any, what: str) -> list[Any]:
    if isinstance(value, Data | Mapping | str) or not isinstance(value, Iterable):
        raise ProfileError([("not_a_list", what, f"give a list of {what}, not {brief_repr(value)}")])
    return list(value)


def _few(ids: list[str]) -> str:
    more = [f"and {len(ids) - _SHOWN} more"] if len(ids) > _SHOWN else []
    return ", ".join([*ids[:_SHOWN], *more]) or "no operations"


_BUCKET: Final = 1_000_000
"""The distance between the orders of blocks."""

_EXACT: Final = 2**52
"""The largest whole number that is exact as a float and leaves room for the buckets."""


@dataclass(frozen=True, slots=True)
class CompiledProfile:
    """A profile in the form for planning.

    Attributes:
        operations: all operations block by block, including disabled ones.
        fingerprint: `id:version` of its parts, joined by `|`; empty if there are none.
    """

    operations: tuple[Operation, ...]
    fingerprint: str
    profile_id: str
    version: int
    session_id: str
    execution_mode: ExecutionMode


def compile_profile(profile: OperationProfile) -> CompiledProfile:
    """Combine the operations of a profile and of its enabled blocks into one list.

    Blocks are sorted by (order, id). An operation of a block is named `block:operation`, also in dependencies and
    conditions. All operations of a block come before the next block, because blocks are a million orders apart. If the
    orders of a block do not fit, their ranks replace them. A disabled profile has no operations (E9).

    Raises:
        ProfileError: operations of two blocks have the same id or write the same artifact.
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
    first = _Part("", f"{profile.profile_id}:{profile.version}", profile.operations)
    refs = sorted(profile.blocks, key=lambda ref: (ref.order, ref.block.block_id))
    shared = [_part(ref.block) for ref in refs if ref.enabled and ref.block.enabled]
    return [first, *shared] if first.operations else shared


def _part(block: OperationBlock) -> _Part:
    return _Part(f"{block.block_id}:", f"{block.block_id}:{block.version}", block.operations)


def _orders(operations: Sequence[Operation], *, is_first: bool, is_last: bool) -> list[int]:
    """Return the operations' positions as whole numbers within the block's range. Their order stays the same."""
    orders = [one.config.order for one in operations]
    numbers = [int(order) for order in orders]
    lowest = -_EXACT if is_first else 0
    highest = _EXACT if is_last else _BUCKET - 1
    keeps_apart = len(set(numbers)) == len(set(orders))
    if keeps_apart and all(lowest <= order <= highest for order in numbers):
        return numbers
    ranks = {order: rank for rank, order in enumerate(sorted(set(orders)))}
    return [ranks[order] for order in orders]


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
    violations = [*ids_are_unique(together), *tags_have_one_writer(together)]
    if violations:
        raise ProfileError(
            [(rule, f"operation {who!r}, {field}", text) for rule, who, field, text in violations]
        )
