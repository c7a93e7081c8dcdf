"""The registry of kinds: built-in ones, which are imported on first use, and kinds of other packages."""

from __future__ import annotations

from functools import cached_property
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
"""Entry points of this group name a class or function that returns a kind."""

_NOT_KINDS: Final = {"base", "decisions", "json_output", "registry"}


def _built_in() -> set[str]:
    """Return the names of the built-in kinds. Each is the name of a module here, which is not imported yet."""
    from tract_jupyter.runs import kinds

    return {one.name for one in iter_modules(kinds.__path__)} - _NOT_KINDS


class KindRegistry:
    """Kinds by name.

    Args:
        names: only these built-in kinds, and none of other packages; None for all.
        more: additional kinds. They replace kinds of the same name.
    """

    def __init__(
        self, names: Iterable[str] | None = None, more: Mapping[str, OperationKind] | None = None
    ) -> None:
        self._kinds: dict[str, OperationKind] = dict(more or {})
        self._is_complete = names is None
        self._built_in = _built_in() if names is None else set(names)

    @cached_property
    def _external(self) -> dict[str, Any]:
        """The kinds of other packages. To find them, Python reads the metadata of all installed packages."""
        # another package cannot replace a built-in kind
        return _external_kinds(self._built_in) if self._is_complete else {}

    def __contains__(self, name: object) -> bool:
        return name in self._kinds or name in self._built_in or name in self._external

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._kinds, *self._built_in, *self._external}))

    def __len__(self) -> int:
        return len({*self._kinds, *self._built_in, *self._external})

    def __getitem__(self, name: str) -> OperationKind:
        """Return the kind of this name.

        Raises:
            RunError: the kind is unknown, or cannot be imported.
        """
        if name not in self._kinds:
            self._kinds[name] = self._make(name)
        return self._kinds[name]

    def configured(self, operation: Operation) -> Operation:
        """Return the operation for the engine: its `params` may set retries and a timeout."""
        name = operation.definition.kind
        kind = self._kinds.get(name)
        if kind is None and name not in self:
            return operation
        change = getattr(kind or self[name], "configured", None)
        if change is None:
            return operation
        return operation.model_copy(update={"config": change(operation.config)})

    def missing_models(
        self, operations: Iterable[Operation], look_up: Callable[[str | None, str | None], object]
    ) -> list[tuple[str, str, str]]:
        """Return the operations with an unknown model or credential, as problems of a `ProfileError`.

        Args:
            operations: operations of any kind.
            look_up: takes a `ModelRef` and raises `LLMConfigError`: `Models.resolve`, or `Models.client`, which also
                needs
                the key.
        """
        problems = []
        for one in operations:
            ref = self._model_ref(one)
            try:
                if ref is not None:
                    look_up(*ref)
            except LLMConfigError as error:
                field = "providerRef" if ref is None or ref.credential is None else "credentialRef"
                problems.append(("unknown_model", f"operation {one.id!r}, params.{field}", str(error)))
        return problems

    def _model_ref(self, operation: Operation) -> ModelRef | None:
        try:
            named = getattr(self[operation.definition.kind], "model_ref", None)
        except RunError:  # reported when it runs
            return None
        ref: ModelRef | None = None if named is None else named(operation)
        return ref

    def _make(self, name: str) -> OperationKind:
        if name in self._built_in:
            module = import_module(f"tract_jupyter.runs.kinds.{name}")
            classes = [value for value in vars(module).values() if isinstance(value, type)]
            kind: OperationKind = next(each for each in classes if getattr(each, "name", "") == name)()
            return kind
        if name not in self._external:
            raise RunError(f"Unknown kind of operation: {name!r}.{nearest(name, self)}")
        try:
            external: OperationKind = self._external[name].load()()
        except Exception as error:
            raise RunError(
                f"The kind {name!r} of another package cannot be loaded: {error}. Repair or remove that package."
            ) from error
        return external


def _external_kinds(known: set[str]) -> dict[str, Any]:
    return {one.name: one for one in entry_points(group=GROUP) if one.name not in known}
