"""The filters of templates, by name, and how one is applied within the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates.list_filters import LIST_FILTERS
from tract_jupyter.runs.templates.number_filters import NUMBER_FILTERS
from tract_jupyter.runs.templates.text_filters import TEXT_FILTERS

if TYPE_CHECKING:
    from tract_jupyter.runs.templates.scope import Scope

FILTERS: Final = {**TEXT_FILTERS, **LIST_FILTERS, **NUMBER_FILTERS}


def apply_filter(scope: Scope, name: str, value: Any, arguments: list[Any], options: dict[str, Any]) -> Any:
    """A filter's result. What goes in and what comes out is charged to the budget.

    Raises:
        TemplateError: the filter cannot be used like this, or the budget is spent.
    """
    scope.budget.step()
    for one in (value, *arguments, *options.values()):
        scope.budget.weigh(one)
    try:
        made = FILTERS[name](scope, value, *arguments, **options)
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise TemplateError(f"the filter {name!r} cannot be used like this: {error}") from None
    scope.budget.weigh(made)
    return made
