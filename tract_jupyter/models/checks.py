"""Checks of arguments. Each check refuses an unknown value before anything changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError, TractError
from tract_jupyter.models.budget import TokenBudget
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from collections.abc import Collection


def check_limit(limit: object) -> int:
    """Return the limit; a negative one counts as 0."""
    if type(limit) is not int:
        raise ContentError(f"limit must be a whole number, such as 20, not {brief_repr(limit)}")
    return max(limit, 0)


def check_text(text: object, what: str, *, error: type[TractError] = ContentError) -> str:
    """Return the value if it is a text. `what` names it in the error."""
    if not isinstance(text, str):
        raise error(f"{what} must be a string, not {brief_repr(text)}")
    return text


def check_dict(value: object, what: str) -> None:
    """Check that a value is a dict."""
    if not isinstance(value, dict):
        raise ContentError(f'{what} must be a dict such as {{"key": "value"}}, not {brief_repr(value)}')


def check_budget(budget: object) -> None:
    """Check that a value can be the budget of a tract. None means no limit."""
    if not (budget is None or isinstance(budget, TokenBudget)):
        raise ContentError(
            f"budget must be TokenBudget(max_tokens), or None for no limit, not {brief_repr(budget)}"
        )


def check_choice(value: object, choices: Collection[str], what: str) -> None:
    """Check that a value is one of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ContentError(f"{what} must be {' or '.join(map(repr, choices))}, not {brief_repr(value)}")


def several(values: object, what: str) -> list[Any]:
    """Return the items as a list. A single text counts as a list of one.

    Raises:
        ContentError: the value is not iterable.
    """
    if isinstance(values, str):
        return [values]
    if not isinstance(values, Iterable):
        raise ContentError(f"{what} must be a list of strings, not {brief_repr(values)}")
    return list(values)


def listed(values: object, what: str) -> list[str]:
    """Return the texts as a list. A single text counts as a list of one.

    Raises:
        ContentError: the value is not a list of texts.
    """
    texts = several(values, what)
    for text in texts:
        if not isinstance(text, str):
            raise ContentError(f"{what} must be a list of strings, but it contains {brief_repr(text)}")
    return texts


def diagnosis_of(result: object) -> str:
    """Return a validator's diagnosis; empty if the reply is valid.

    A validator returns None, a text, True, False, or both as a pair: `(False, "the date is missing")`.
    """
    if isinstance(result, tuple) and len(result) == 2:  # noqa: PLR2004 # a pair
        passed, why = result
        if isinstance(passed, bool) and (why is None or isinstance(why, str)):
            return "" if passed else why or _NO_REASON
    if isinstance(result, bool):
        return "" if result else _NO_REASON
    if result is None or isinstance(result, str):
        return result or ""
    raise ContentError(
        "a validator must return None or True if the text is valid, or else an error text, False, or "
        f"(False, text), not {brief_repr(result)}"
    )


_NO_REASON = "the validator rejected it without a reason"


def check_tag(tag: object) -> None:
    """Check that a value can be a tag."""
    if not isinstance(tag, str) or not tag.strip() or len(tag) > 255:  # noqa: PLR2004 # the column's width
        raise ContentError(f"{tag!r} is not a valid tag; use a text of 1 to 255 characters")
    check_words(tag)


def check_words(text: str) -> None:
    """Check that every database can store a text."""
    canonical_json(text)
    if "\0" in text:
        raise ContentError(f"{text[:60]!r} has a NUL character, which some databases cannot store; remove it")


LONGEST_YAML: Final = 32_000
"""The most characters of a YAML text. Reading takes about 10 microseconds for each."""


def unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a JSON text, as an `object_pairs_hook`. Most readers silently use the last of two values."""
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError(f"{brief_repr(twice_in(key for key, _ in pairs))} is named twice in one object")
    return data


def twice_in(values: Iterable[Any]) -> Any | None:
    """Return the first duplicate item; None without duplicates."""
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None
