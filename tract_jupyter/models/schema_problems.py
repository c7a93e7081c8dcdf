"""What is wrong with values, in the words that our own validator uses."""

from __future__ import annotations

from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models.parameters import misfit
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KINDS: Final = {
    "string": "a valid string", "integer": "a valid integer", "number": "a valid number", "boolean": "a valid boolean",
    "array": "a valid list", "object": "a valid dictionary", "null": "None",
}  # fmt: skip
_WANTED: Final = {
    "const": "{}", "minimum": "at least {}", "maximum": "at most {}", "exclusiveMinimum": "greater than {}",
    "exclusiveMaximum": "less than {}", "multipleOf": "a multiple of {}", "pattern": "text that matches {}",
    "minLength": "at least {} characters long", "maxLength": "at most {} characters long",
    "minItems": "a list of at least {}", "maxItems": "a list of at most {}",
    "minProperties": "a dictionary of at least {}", "maxProperties": "a dictionary of at most {}",
    "uniqueItems": "a list without repetitions",
}  # fmt: skip


def problems_of(errors: Iterable[Any]) -> Iterator[str]:
    """One sentence for each thing that is wrong; `errors` are jsonschema's."""
    return chain.from_iterable(map(_problems, errors))


def missing_names(error: Any) -> list[str]:
    """What an object lacks, by an error about `required`."""
    return [name for name in error.validator_value if name not in error.instance]


def _problems(error: Any) -> Iterator[str]:
    keyword, place = error.validator, _place(error.absolute_path)
    if keyword == "required":
        yield from (f"{_place([*error.absolute_path, name])} is missing" for name in missing_names(error))
    elif keyword == "additionalProperties":
        yield f"{place} is unknown there"
    elif keyword in {"unevaluatedProperties", "unevaluatedItems", None}:
        yield f"{place} holds something that is not allowed there"
    elif keyword in {"anyOf", "oneOf"} and error.context:
        yield from _no_branch(error, place)
    else:
        yield misfit(place, _wanted(error), error.instance)


def _no_branch(error: Any, place: str) -> Iterator[str]:
    """What is wrong with the branch that is nearest, or what the branches want."""
    branches = [list(branch) for _, branch in groupby(error.context, lambda e: list(e.schema_path)[:1])]
    deeper = [branch for branch in branches if all(e.path for e in branch)]
    if deeper:
        nearest = min(deeper, key=len)
        yield from problems_of(nearest)
    elif all(len(branch) == 1 and branch[0].validator != "required" for branch in branches):
        wanted = dict.fromkeys(_wanted(branch[0]) for branch in branches)
        yield misfit(place, " or ".join(wanted), error.instance)
    else:
        yield "; or ".join(" and ".join(problems_of(branch)) for branch in branches)


def _wanted(error: Any) -> str:
    keyword, value = error.validator, error.validator_value
    if keyword == "type":
        return " or ".join(
            _KINDS.get(kind, str(kind)) for kind in ([value] if isinstance(value, str) else value)
        )
    if keyword == "enum":
        return f"one of {brief_repr(value)}"
    if keyword in _WANTED:
        return _WANTED[keyword].format(brief_repr(value))
    return f"what {keyword!r} of its schema says ({brief_repr(value)})"


def _place(path: Iterable[str | int]) -> str:
    """`'filters'['lang']`; nothing for the whole."""
    first, *rest = [*path] or [""]
    return (repr(first) if first != "" else "the arguments") + "".join(f"[{part!r}]" for part in rest)
