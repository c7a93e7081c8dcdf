"""A rehearser whose effects the test chooses, and whose `keep` binds names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.models import digest
from tract_jupyter.rehearsal import Effects, VariableEffect
from tract_jupyter.scripts import Rehearsing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter import Tract


@dataclass(frozen=True)
class FakeChange:
    """A change that a test chooses."""

    change_id: str
    variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    certainty: str = "exact"


class FakeRehearsal:
    """The effects of a code; `values` are bound by `keep`."""

    def __init__(
        self, code: str, effects: Effects, namespace: dict[str, Any], values: dict[str, Any]
    ) -> None:
        self.code, self.effects = code, replace(effects, digest=digest([code, effects.to_data()]))
        self.changed: tuple[str, ...] = ()
        self.is_discarded = False
        self._namespace, self._values = namespace, values

    def changed_since(self) -> tuple[str, ...]:
        return self.changed

    def keep(self) -> FakeChange:
        assert not self.is_discarded
        self._namespace.update(self._values)
        return FakeChange("change-1", variables=tuple(self._values))

    def discard(self) -> None:
        self.is_discarded = True


class FakeRehearser:
    """Answers with the effects for a code; `why_not` refuses each rehearsal."""

    workspace = Path()
    backups = None

    def __init__(self) -> None:
        self.why_not = ""
        self.default: Effects | None = None
        self.effects: dict[str, Effects] = {}
        self.values: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.replies: list[Any] = []
        self.made: list[FakeRehearsal] = []

    def rehearse(
        self, code: str, namespace: dict[str, Any], *, tools: Callable[..., Any], **_: Any
    ) -> FakeRehearsal:
        if self.why_not:
            raise RehearsalError(self.why_not)
        self.replies += [tools(name, arguments) for name, arguments in self.calls]
        values = self.values.get(code, {})
        created = tuple(VariableEffect(name, "created", "", "int") for name in values)
        default = self.default or Effects(variables=created)
        self.made.append(FakeRehearsal(code, self.effects.get(code, default), namespace, values))
        return self.made[-1]


def rehearse_in(tract: Tract) -> FakeRehearser:
    """Rehearse the scripts of a tract with a fake."""
    fake = FakeRehearser()
    tract.scripts.rehearsing = Rehearsing(tract.executor, lambda: fake)  # type: ignore[arg-type, return-value]
    tract.scripts.rehearsing.is_on = True
    return fake
