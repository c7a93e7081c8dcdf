"""Profiles and reusable blocks of operations, as data (E19, X11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import uuid4

from pydantic import AfterValidator, Field

from tract_jupyter.exceptions import ProfileError
from tract_jupyter.models.canonical import digest
from tract_jupyter.models.text import brief_repr
from tract_jupyter.runs.model import Operation  # pydantic reads the annotation
from tract_jupyter.runs.terms import Data, ExecutionMode

if TYPE_CHECKING:
    from tract_jupyter.runs.profile.bundle import CompiledProfile
    from tract_jupyter.runs.profile.lint import ProfileWarning  # it is what the findings are

DEFAULT_SESSION: Final = "default"
_SHOWN: Final = 8


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is blank: give one")
    return value


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_not_blank)]
Version = Annotated[int, Field(ge=1)]
FiniteOrder = Annotated[float, Field(strict=True)]


class Block(Data):
    """Operations that several profiles may share. Their ids and dependencies mean operations of the same block."""

    block_id: Annotated[str, Field(max_length=100), AfterValidator(_not_blank)]
    name: Name
    description: str | None = None
    version: Version = 1
    enabled: bool = True
    operations: tuple[Operation, ...] = ()

    @classmethod
    def of(cls, block_id: str, operations: Iterable[Operation | dict[str, Any]], **fields: Any) -> Block:
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
        return f"<Block {self.block_id!r}: {_few([one.id for one in self.operations])}>"


class BlockRef(Data):
    """A block's place in a profile: blocks go by (order, id)."""

    block: Block
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
        blocks: Iterable[Block | BlockRef | dict[str, Any]] = (), **fields: Any,
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
            BlockRef(block=one, order=float(place)) if isinstance(one, Block) else one
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
        from tract_jupyter.runs.profile.bundle import compile_profile

        return self.once("compiled", compile_profile)

    @property
    def all_operations(self) -> tuple[Operation, ...]:
        """Its own and those of its blocks, as they are written, also those that are switched off."""
        return (*self.operations, *(one for ref in self.blocks for one in ref.block.operations))

    def lint(self) -> list[ProfileWarning]:
        """Tell what is allowed but probably not meant: operations that never run, artifacts that nobody reads, ..."""
        from tract_jupyter.runs.profile.lint import lint

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
