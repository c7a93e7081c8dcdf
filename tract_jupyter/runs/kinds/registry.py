"""The registry of kinds: built-in ones, imported when first used, and those of other packages."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import LLMConfigError, RunError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tract_jupyter.runs.kinds.base import ModelRef, OperationKind
    from tract_jupyter.runs.model import Operation

GROUP: Final = "tract_jupyter.run_kinds"
"""Entry points of this group name a class without parameters, or a function, that gives a kind."""

_NOT_KINDS: Final = {"base", "decisions", "json_output", "registry"}


def _built_in() -> set[str]:
    """Return the names of the built-in kinds. Each is the name of a module here, which is not imported yet."""
    from tract_jupyter.runs import kinds

    return {one.name for one in iter_modules(kinds.__path__)} - _NOT_KINDS


class KindRegistry:
    """Kinds by name.

    Args:
        names: only these of the built-in ones, and none of other packages; None for all there are.
        more: others, which win over those of the same name.
    """

    def __init__(
        self, names: Iterable[str] | None = None, more: Mapping[str, OperationKind] | None = None
    ) -> None:
        self._made: dict[str, OperationKind] = dict(more or {})
        self._built_in = _built_in() if names is None else set(names)
        # whoever installs a package cannot thereby change what a built-in kind does
        self._brought: dict[str, Any] = {} if names is not None else _brought(self._built_in)

    def __contains__(self, name: object) -> bool:
        return name in self._made or name in self._built_in or name in self._brought

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._made, *self._built_in, *self._brought}))

    def __len__(self) -> int:
        return len({*self._made, *self._built_in, *self._brought})

    def __getitem__(self, name: str) -> OperationKind:
        """Return the kind of this name.

        Raises:
            RunError: the kind is unknown, or cannot be imported.
        """
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def configured(self, operation: Operation) -> Operation:
        """Return the operation as the engine runs it: its `params` may set attempts and a time limit."""
        name = operation.definition.kind
        kind = self._made.get(name)
        if kind is None and name not in self:
            return operation
        change = getattr(kind or self[name], "configured", None)
        if change is None:
            return operation
        return operation.model_copy(update={"config": change(operation.config)})

    def missing_models(
        self, operations: Iterable[Operation], look_up: Callable[[str | None, str | None], object]
    ) -> list[tuple[str, str, str]]:
        """Return the operations that name an unknown model or credential, as problems of a `ProfileError`.

        Args:
            operations: of any kinds.
            look_up: takes a `ModelRef`, and raises `LLMConfigError`: `resolve` of `Models`, or its `client`, which
                wants the key too.
        """
        found = []
        for one in operations:
            ref = self._model_ref(one)
            try:
                if ref is not None:
                    look_up(*ref)
            except LLMConfigError as error:
                field = "providerRef" if ref is None or ref.credential is None else "credentialRef"
                found.append(("unknown_model", f"operation {one.id!r}, params.{field}", str(error)))
        return found

    def _model_ref(self, operation: Operation) -> ModelRef | None:
        try:
            named = getattr(self[operation.definition.kind], "model_ref", None)
        except RunError:  # that is told where it is to run
            return None
        ref: ModelRef | None = None if named is None else named(operation)
        return ref

    def _make(self, name: str) -> OperationKind:
        if name in self._built_in:
            module = import_module(f"tract_jupyter.runs.kinds.{name}")
            kind: OperationKind = next(
                one
                for one in vars(module).values()
                if isinstance(one, type) and getattr(one, "name", "") == name
            )()
            return kind
        if name not in self._brought:
            raise RunError(f"unknown kind of operation: {name!r}.{nearest(name, self)}")
        try:
            brought: OperationKind = self._brought[name].load()()
        except Exception as error:
            raise RunError(
                f"the kind {name!r} of another package cannot be used: {error}; mend or remove that package"
            ) from error
        return brought


def _brought(known: set[str]) -> dict[str, Any]:
    return {one.name: one for one in entry_points(group=GROUP) if one.name not in known}
