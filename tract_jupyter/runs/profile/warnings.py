"""Warnings about profiles: settings that are allowed but probably wrong. They never prevent saving or running."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import nearest
from tract_jupyter.models import problem_of
from tract_jupyter.runs.kinds.registry import KindRegistry
from tract_jupyter.runs.model import ArtifactSpec, Operation, PromptMessage, PromptPart, TurnRewrite
from tract_jupyter.runs.profile.rules import texts_in
from tract_jupyter.runs.schedule import ready_order
from tract_jupyter.runs.terms import ArtifactUsage, Hook, Persistence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class ProfileWarning:
    """A warning: the rule's name, the operation and field, and a message with the remedy."""

    rule: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def lint(operations: Sequence[Operation]) -> list[ProfileWarning]:
    """Return warnings about operations. Disabled ones are ignored."""
    about = _About(operations)
    return [
        warning for operation in about.operations for look in _LOOKS for warning in look(operation, about)
    ]


class _About:
    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = [one for one in operations if one.config.enabled]
        self.kinds = KindRegistry()
        self.by_id = {one.id: one for one in self.operations}
        self.disabled = {one.id for one in operations} - self.by_id.keys()
        self.reads = {one.id: _read_by(one) for one in self.operations}
        self.writers = {
            one.config.artifact.tag: one for one in self.operations if one.config.artifact is not None
        }
        self.guards = {condition.source for one in self.operations for condition in one.config.run_conditions}
        ids = {one.config.artifact.artifact_id for one in self.operations if one.config.artifact is not None}
        nodes = [(one.id, one.config.order, one.config.depends_on) for one in self.operations]
        self.places = {name: place for place, name in enumerate(ready_order(nodes)[0])}
        self.names = {*self.writers, *(name for name in ids if name)}


_READ = re.compile(r"""\bart(?:\.([A-Za-z_]\w*)|\[\s*["']([^"']+)["']\s*\])""")


def _read_by(operation: Operation) -> set[str]:
    return {
        found[1] or found[2]
        for _, text in texts_in(operation.config.params, "")
        for found in _READ.finditer(text)
    }


def _warn(rule: str, operation: Operation, field: str, message: str) -> ProfileWarning:
    return ProfileWarning(rule, f"operation {operation.id!r}, {field}", message)


def _unreachable(one: Operation, about: _About) -> Iterator[ProfileWarning]:
    wanted: dict[tuple[str, str], bool] = {}
    for condition in one.config.run_conditions:
        key = (condition.source, condition.output)
        if wanted.setdefault(key, condition.is_) is not condition.is_:
            message = f"{condition.source}.{condition.output} must be both true and false: it never runs"
            yield _warn("unreachable", one, "runConditions", message)
    for name in one.config.depends_on:
        if name in about.disabled:
            yield _warn(
                "unreachable", one, "dependsOn", f"{name!r} is disabled, so this never runs: enable it"
            )
        elif name in about.by_id and not set(one.config.triggers) & set(about.by_id[name].config.triggers):
            message = (
                f"{name!r} never runs on the same trigger, so this never runs: give both the same triggers"
            )
            yield _warn("unreachable", one, "dependsOn", message)


def _unread(one: Operation, about: _About) -> Iterator[ProfileWarning]:
    artifact = one.config.artifact
    if artifact is None or artifact.exposures or one.id in about.guards or _is_shown(artifact):
        return
    names = {artifact.tag, artifact.artifact_id}
    readers = [name for name, reads in about.reads.items() if reads & names and name != one.id]
    # no pattern finds reads by the operation's id
    waiting = [other.id for other in about.operations if one.id in other.config.depends_on and _by_id(other)]
    if not readers and not waiting:
        message = f"nothing reads art.{artifact.tag}: give it an exposure, read it in a text, or leave it out"
        yield _warn("unread_artifact", one, "artifact", message)


def _is_shown(artifact: ArtifactSpec) -> bool:
    return artifact.usage in {ArtifactUsage.UI_ONLY, ArtifactUsage.PROMPT_AND_UI}


def _by_id(operation: Operation) -> bool:
    return any("artByOpId" in text for _, text in texts_in(operation.config.params, ""))


def _reads(one: Operation, about: _About) -> Iterator[ProfileWarning]:
    for name in sorted(about.reads[one.id]):
        writer = about.writers.get(name)
        if writer is None:
            if name not in about.names:
                message = f"it reads art.{name}, which no operation here writes.{nearest(name, sorted(about.names))}"
                yield _warn("unknown_artifact", one, "params", message)
        elif _may_miss(one, writer):
            message = f"it reads art.{name} of {writer.id!r}, which may not have ended: add {writer.id!r} to dependsOn"
            yield _warn("read_without_dependency", one, "params", message)


def _may_miss(reader: Operation, writer: Operation) -> bool:
    """Return True if the value of this run may be missing (R26); a persisted one is from earlier runs."""
    artifact = writer.config.artifact
    if artifact is None or artifact.persistence is Persistence.PERSISTED or reader.id == writer.id:
        return False
    together = set(reader.config.hooks) & set(writer.config.hooks)
    too_early = Hook.BEFORE in reader.config.hooks and Hook.BEFORE not in writer.config.hooks
    return (bool(together) or too_early) and writer.id not in reader.config.depends_on


def _kind(one: Operation, about: _About) -> Iterator[ProfileWarning]:
    kind = one.definition.kind
    if kind not in about.kinds:
        guess = nearest(kind, about.kinds)
        message = f"kind {kind!r} is unknown; such operations are skipped unless a package adds it.{guess}"
        yield _warn("unsupported_kind", one, "kind", message)


def _pattern(one: Operation, _about: _About) -> Iterator[ProfileWarning]:
    pattern = one.config.params.get("jsonCustomPattern")
    problem = problem_of(pattern) if isinstance(pattern, str) else None
    if problem is not None:
        message = f"the pattern is not a regular expression: {problem}; each run will fail"
        yield _warn("regex_invalid", one, "params.jsonCustomPattern", message)


def _overwrites(one: Operation, about: _About) -> Iterator[ProfileWarning]:
    place = about.places.get(one.id, 0)
    for what, is_replaced in _targets(one):
        for other in about.operations if is_replaced else ():
            writes = dict(_targets(other))
            if what not in writes or about.places.get(other.id, 0) >= place or not _run_together(one, other):
                continue
            if what != _SYSTEM and other.id in one.config.depends_on:
                continue  # it sees the other's text, and may continue from it
            message = (
                f"it overwrites {what} of {other.id!r}: keep one of them, make them depend on opposite answers of a "
                f"guard, or let this one continue from the other with after={other.id!r}"
            )
            yield _warn("overwritten", one, "artifact.exposures", message)


_SYSTEM: Final = "the system message"
_TEXTS: Final = {"current_user_main": "the user's message", "assistant_output_main": "the reply"}


def _targets(operation: Operation) -> Iterator[tuple[str, bool]]:
    artifact = operation.config.artifact
    for exposure in artifact.exposures if artifact is not None else ():
        if isinstance(exposure, TurnRewrite):
            yield _TEXTS[exposure.target], True
        elif isinstance(exposure, PromptPart):
            yield _SYSTEM, exposure.mode == "replace"


def _run_together(one: Operation, other: Operation) -> bool:
    """Return True if both may run at a hook of one run: no guard's answer excludes one of them."""
    if not set(one.config.hooks) & set(other.config.hooks):
        return False
    if not set(one.config.triggers) & set(other.config.triggers):
        return False
    answers = {(condition.source, condition.output): condition.is_ for condition in one.config.run_conditions}
    return all(
        answers.get((condition.source, condition.output), condition.is_) is condition.is_
        for condition in other.config.run_conditions
    )


def _both_hooks(one: Operation, _about: _About) -> Iterator[ProfileWarning]:
    artifact = one.config.artifact
    if artifact is None or Hook.AFTER not in one.config.hooks or Hook.BEFORE not in one.config.hooks:
        return
    if any(isinstance(exposure, PromptPart | PromptMessage) for exposure in artifact.exposures):
        message = (
            "after the main call there is no prompt to change, which is an error there: use two operations"
        )
        yield _warn("exposure_at_both_hooks", one, "artifact.exposures", message)


_LOOKS: Final[tuple[Callable[[Operation, _About], Iterator[ProfileWarning]], ...]] = (
    _unreachable, _unread, _reads, _kind, _pattern, _both_hooks, _overwrites,
)  # fmt: skip
