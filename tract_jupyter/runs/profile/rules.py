"""Rules for the operations of a profile, each a small function over all of them.

Disabled operations are checked like others (G7), because they may be enabled later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tract_jupyter.exceptions import nearest
from tract_jupyter.llm import key_lines
from tract_jupyter.runs.effect_types import EFFECT_LAYERS, EFFECT_TYPES, NO_APPEND, NOT_HERE
from tract_jupyter.runs.effects import effects_of
from tract_jupyter.runs.model import (
    InlineNote,
    Operation,
    PromptMessage,
    PromptPart,
    RunCondition,
    TurnRewrite,
)
from tract_jupyter.runs.reading import is_json
from tract_jupyter.runs.terms import ArtifactUsage, Format, Hook, WriteMode


class Violation(NamedTuple):
    """A broken rule: the operation, the field and a message."""

    rule: str
    operation_id: str
    field: str
    message: str


class OperationSet(NamedTuple):
    """Operations that are saved together, all ids (also of unreadable ones), and the outputs of guards."""

    operations: Sequence[Operation]
    ids: Sequence[str]
    outputs: Mapping[str, Sequence[str]]


Rule = Callable[[OperationSet], Iterator[Violation]]


def names_are_present(these: OperationSet) -> Iterator[Violation]:
    """Require ids, names and kinds that are not blank (R16)."""
    for one in these.operations:
        about = one.definition
        for rule, field, text in [("operation_id", "operationId", one.id), ("name", "name", about.name),
                                  ("kind", "kind", about.kind)]:  # fmt: skip
            if not text.strip():
                yield Violation(rule, one.id, field, f"{field} is blank: give one")


def ids_are_unique(these: OperationSet) -> Iterator[Violation]:
    """Require that no two operations have the same id (E19)."""
    for name, count in Counter(these.ids).items():
        if count > 1:
            yield Violation(
                "duplicate_id", name, "operationId", f"{count} operations have this id: rename all but one"
            )


def it_can_run(these: OperationSet) -> Iterator[Violation]:
    """Require that hooks and triggers, if set, are not empty (R22, R23)."""
    for one in these.operations:
        for rule, field, given in [("hooks_empty", "hooks", one.config.hooks),
                                   ("triggers_empty", "triggers", one.config.triggers)]:  # fmt: skip
            if not given:
                message = f"{field} is empty, so it never runs: name one, leave {field} out, or set enabled to false"
                yield Violation(rule, one.id, field, message)


def dependencies_are_there(these: OperationSet) -> Iterator[Violation]:
    """Require that each dependency is another operation of the same block (E17, X11)."""
    for one in these.operations:
        for name in one.config.depends_on:
            if name == one.id:
                yield Violation("self_dependency", one.id, "dependsOn", "it depends on itself; remove its id")
            elif name not in these.ids:
                message = f"unknown operation {name!r}: correct or remove it.{nearest(name, these.ids)}"
                yield Violation("unknown_dependency", one.id, "dependsOn", message)


def dependencies_run_at_its_hooks(these: OperationSet) -> Iterator[Violation]:
    """Require that the dependencies of an operation run at each of its hooks (E18)."""
    hooks = {one.id: one.config.hooks for one in these.operations}
    for one in these.operations:
        for name in one.config.depends_on:
            missing = [hook for hook in one.config.hooks if hook not in hooks.get(name, one.config.hooks)]
            if missing and name != one.id:
                message = (
                    f"it runs at {missing[0]}, where {name!r} does not: give both the same hooks; "
                    "between hooks, persisted artifacts and the prompt pass values"
                )
                yield Violation("cross_hook_dependency", one.id, "dependsOn", message)


def there_is_no_cycle(these: OperationSet) -> Iterator[Violation]:
    """Refuse cycles of dependencies (E17, G6), also among disabled operations (G7)."""
    needs = {one.id: set(one.config.depends_on) - {one.id} for one in these.operations}
    cycle = find_cycle(needs)
    if cycle:
        way = " -> ".join([*cycle, cycle[0]])
        yield Violation(
            "cycle",
            cycle[0],
            "dependsOn",
            f"these operations form a cycle: {way}; remove one of the dependencies",
        )


def find_cycle(needs: dict[str, set[str]]) -> list[str]:
    """Return the ids of a cycle, each depending on the next, the smallest first; empty if there is none."""
    left = {name: {other for other in others if other in needs} for name, others in needs.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    if not left:
        return []
    # each remaining id depends on a remaining id, so this walk returns to one
    walk = [min(left)]
    while (following := min(left[walk[-1]] & left.keys())) not in walk:
        walk.append(following)
    cycle = walk[walk.index(following) :]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def conditions_ask_guards(these: OperationSet) -> Iterator[Violation]:
    """Require that a condition names an output of a guard that is a dependency (E23)."""
    by_id = {one.id: one for one in these.operations}
    for one in these.operations:
        for condition in one.config.run_conditions:
            broken = _condition(one, condition, by_id, these)
            if broken is not None:
                yield Violation(broken[0], one.id, "runConditions", broken[1])


def _condition(
    one: Operation, condition: RunCondition, by_id: dict[str, Operation], these: OperationSet
) -> tuple[str, str] | None:
    source, output = condition.source, condition.output
    if source not in these.ids:
        return (
            "condition_unknown_source",
            f"unknown operation {source!r}.{nearest(source, these.ids)}",
        )
    guard = by_id.get(source)
    if guard is not None and guard.definition.kind != "guard":
        return (
            "condition_source_not_guard",
            f"{source!r} is of kind {guard.definition.kind!r}: conditions need a guard",
        )
    if source not in one.config.depends_on:
        return "condition_source_not_dependency", f"{source!r} must have ended first: add it to dependsOn"
    # a guard with invalid parameters declares nothing, and is reported itself
    keys = these.outputs.get(source)
    if keys and output not in keys:
        known = ", ".join(keys)
        return (
            "unknown_guard_output",
            f"{source!r} does not declare {output!r}, but {known}.{nearest(output, keys)}",
        )
    return None


def tags_have_one_writer(these: OperationSet) -> Iterator[Violation]:
    """Require that no two operations write the same artifact (E16)."""
    writers: dict[str, list[str]] = {}
    for one in these.operations:
        if one.config.artifact is not None:
            writers.setdefault(one.config.artifact.tag, []).append(one.id)
    for tag, names in writers.items():
        if len(names) > 1:
            message = f"art.{tag} is written by {', '.join(names)}: give each its own tag"
            yield Violation("duplicate_tag", names[1], "artifact.tag", message)


def exposures_fit_the_hooks(these: OperationSet) -> Iterator[Violation]:
    """Require hooks that allow the effects: the prompt before, the reply after (R41, R48, E4)."""
    for one in these.operations:
        for exposure in one.config.artifact.exposures if one.config.artifact is not None else ():
            needed = _needs_hook(exposure)
            if needed is not None and one.config.hooks and needed not in one.config.hooks:
                what = getattr(exposure, "target", None) if needed is Hook.AFTER else None
                message = (
                    f"{what or exposure.type} works only at {needed}: add that hook, or remove the exposure"
                )
                yield Violation("exposure_hook", one.id, "artifact.exposures", message)


def _needs_hook(exposure: object) -> Hook | None:
    if isinstance(exposure, PromptPart | PromptMessage):
        return Hook.BEFORE
    if isinstance(exposure, TurnRewrite) and exposure.target == "assistant_output_main":
        return Hook.AFTER
    return None


def activation_has_interval(these: OperationSet) -> Iterator[Violation]:
    """Require at least one activation interval, each at least one (X01)."""
    for one in these.operations:
        activation = one.config.activation
        if activation is None:
            continue
        intervals = [
            value
            for value in (activation.every_n_turns, activation.every_n_context_tokens)
            if value is not None
        ]
        if not intervals:
            message = "it has no interval: give everyNTurns or everyNContextTokens, or leave activation out"
            yield Violation("activation_empty", one.id, "activation", message)
        elif min(intervals) < 1:
            yield Violation(
                "activation_range", one.id, "activation", f"an interval is at least 1, not {min(intervals):g}"
            )


def params_are_json(these: OperationSet) -> Iterator[Violation]:
    """Require valid JSON parameters (R27)."""
    for one in these.operations:
        if not is_json(one.config.params):
            yield Violation(
                "params_json",
                one.id,
                "params",
                "it has values that are not JSON, such as NaN: use null or text",
            )


def params_hold_no_secrets(these: OperationSet) -> Iterator[Violation]:
    """Require parameters without secrets; they may name credentials (R27)."""
    for one in these.operations:
        for path, text in texts_in(one.config.params, "params"):
            if key_lines(text):
                message = f"{path} looks like a key: store it elsewhere, and name it in credentialRef"
                yield Violation("secret_in_params", one.id, path, message)


def texts_in(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield all texts in a JSON value, each with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from texts_in(part, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for part in value:
            yield from texts_in(part, path)


def guards_write_json(these: OperationSet) -> Iterator[Violation]:
    """Require that a guard writes one JSON artifact (E22)."""
    for one in these.operations:
        artifact = one.config.artifact
        if one.definition.kind == "guard" and artifact is not None and artifact.format is not Format.JSON:
            message = f"a guard writes JSON, not {artifact.format}: set the format to 'json', or leave it out"
            yield Violation("guard_artifact_format", one.id, "artifact.format", message)


def values_are_not_appended(these: OperationSet) -> Iterator[Violation]:
    """Refuse write mode `append`, which has no effect (X03)."""
    for one in these.operations:
        if one.config.artifact is not None and one.config.artifact.write_mode is WriteMode.APPEND:
            yield Violation("write_mode_append", one.id, "artifact.writeMode", NO_APPEND)


def usage_fits_the_exposures(these: OperationSet) -> Iterator[Violation]:
    """Require a usage that agrees with the exposures (R52)."""
    for one in these.operations:
        artifact = one.config.artifact
        if artifact is None or artifact.usage is None:
            continue
        kinds = {type(exposure) for exposure in artifact.exposures}
        for wrong, where, usages in [
            (
                kinds & {PromptPart, PromptMessage},
                "the prompt",
                {ArtifactUsage.UI_ONLY, ArtifactUsage.INTERNAL},
            ),
            (kinds & {InlineNote}, "readers of the run", {ArtifactUsage.PROMPT_ONLY, ArtifactUsage.INTERNAL}),
        ]:
            if wrong and artifact.usage in usages:
                message = f"its value goes to {where}, and usage is {artifact.usage}: leave one of them out"
                yield Violation("usage_exposure", one.id, "artifact.usage", message)


def capabilities_cover_effects(these: OperationSet) -> Iterator[Violation]:
    """Require that declared effects exist and include the operation's own (R16)."""
    for one in these.operations:
        for name in one.definition.declared_effects:
            if name not in EFFECT_TYPES and name not in EFFECT_LAYERS:
                instead = NOT_HERE.get(name) or f"Use {', '.join([*sorted(EFFECT_LAYERS), *EFFECT_TYPES])}."
                message = f"unknown effect {name!r}. {instead}{nearest(name, EFFECT_TYPES)}"
                yield Violation("unknown_effect", one.id, "capabilities", message)
        artifact = one.config.artifact
        effects = () if artifact is None else effects_of(artifact, "")
        for name in dict.fromkeys(effect.type for effect in effects):
            if not one.definition.declares(name):
                message = (
                    f"its artifact makes {name}, which they do not name: add it, or leave capabilities out"
                )
                yield Violation("capability_missing", one.id, "capabilities", message)


RULES: Final[tuple[Rule, ...]] = (
    ids_are_unique, names_are_present, it_can_run, dependencies_are_there, dependencies_run_at_its_hooks,
    there_is_no_cycle, conditions_ask_guards, tags_have_one_writer, exposures_fit_the_hooks, guards_write_json,
    activation_has_interval, params_are_json, params_hold_no_secrets, values_are_not_appended, usage_fits_the_exposures,
    capabilities_cover_effects,
)  # fmt: skip
"""All rules, in the order of reports."""
