"""`%%tract_agent`: a user defines an agent, with options and instructions or as a file with front matter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.agents import (
    KEYS,
    AgentDefinition,
    AgentState,
    file_text,
    findings_rows,
    parse_file,
    read_budget,
    text_findings,
)
from tract_jupyter.exceptions import AgentError, OperationError, nearest
from tract_jupyter.models import Allowance, shortened, unified_diff
from tract_jupyter.notebook.agents.tree import AgentPage
from tract_jupyter.notebook.options import BUDGET_LIMITS
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.diff import side_by_side
from tract_jupyter.notebook.views.html import View, element, fragment
from tract_jupyter.notebook.views.styles import output_html
from tract_jupyter.toolkit import python_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.agents import Agent, Agents
    from tract_jupyter.notebook.options import AgentOptions
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.review import ValueRow

_FENCE: Final = "---"
_SHOWN: Final = 60
_MANY: Final = {"unknown_tool": "tool", "unknown_toolset": "toolset", "unknown_model": "model"}


def define(notebook: NotebookSession, options: AgentOptions, body: str) -> View:
    """Define an agent, or a new version of an active one, and return its view."""
    agents = notebook.tract.agents
    try:
        return _define(notebook, agents, options, body)
    except AgentError as error:
        raise OperationError(f"{_sentence(error)}. Nothing was defined") from None


def _define(notebook: NotebookSession, agents: Agents, options: AgentOptions, body: str) -> View:
    former = None
    if is_file(body):
        definition = _of_file(options, body)
        former = _active(agents, definition.name)
        _check_update_of_file(definition, former)
    else:
        former = _active(agents, options.name)
        definition = _of_options(options, body, former)
    is_same = former is not None and former.definition == definition
    if options.check or is_same:
        agents.maker.check_definition(definition, _person(notebook))
        if former is None and not is_same:
            agents.maker.check_new(definition, _person(notebook))
        sentence = (
            f"{definition.name} already has this definition." if is_same else "The definition is valid."
        )
        return DefinedAgent(sentence, _changes(former, definition), text_notices(definition))
    if former is not None and former.definition.runtime != definition.runtime:
        raise OperationError("the runtime of an agent does not change; use another name. Nothing was defined")
    changes = _changes(former, definition)
    values: dict[str, Any] = {
        "instructions": definition.instructions, "description": definition.description, "model": definition.model,
        "tools": list(definition.tools), "toolsets": list(definition.toolsets), "budget": definition.budget,
    }  # fmt: skip
    if former is None:
        agent = agents.create(definition.name, **values, runtime=definition.runtime)
        called = f"tools.agents.{python_name(agent.name)}(...)"
        sentence = f"Defined {agent.name}: {called} calls it. Models that may call agents can also call it."
    else:
        agent = agents.update(definition.name, **values)
        sentence = (
            f"Changed {agent.name}, now version {agent.version}. Permissions of the old version do not apply."
        )
    page = AgentPage(notebook.agent_watch, agent, [], is_past=False)
    return DefinedAgent(sentence, changes, text_notices(definition), page)


@dataclass(frozen=True)
class DefinedAgent(View):
    """The result of a cell: a sentence, the changes as a unified diff, remarks about the text, and the agent."""

    said: str
    changes: str
    notices: tuple[ValueRow, ...]
    page: AgentPage | None = None

    def to_html(self) -> Html:
        """Return the result as HTML."""
        changes = (rows.sub("Changes"), side_by_side(self.changes)) if self.changes else None
        notices = [
            element(
                "li", element("b", row.name), f" {row.value} ", element("span", row.description, class_="dim")
            )
            for row in self.notices
        ]
        listed = (rows.sub("Notice in its text"), element("ul", notices)) if notices else None
        page = None if self.page is None else self.page.to_html()
        return fragment(output_html((element("p", self.said), changes, listed)), page)

    def to_text(self) -> str:
        """Return the result as text."""
        notices = [f"notice: {row.name}, {row.value}: {row.description}" for row in self.notices]
        page = "" if self.page is None else self.page.to_text()
        return "\n".join(filter(None, [self.said, self.changes, *notices, page]))


def is_file(body: str) -> bool:
    """Return True if a cell starts with front matter."""
    return body.lstrip("\n").partition("\n")[0].rstrip() == _FENCE


def text_notices(definition: AgentDefinition) -> tuple[ValueRow, ...]:
    """Return remarks about suspicious text in a definition."""
    return findings_rows(text_findings(definition.instructions))


# ---


def _of_file(options: AgentOptions, body: str) -> AgentDefinition:
    if options.given:
        raise OperationError(
            f"a cell with front matter takes no such options. Write {options.given[0].lstrip('-')}: in the "
            f"front matter instead of {', '.join(options.given)}. Nothing was defined"
        )
    text = body.lstrip("\n").rstrip("\n")
    first, _, rest = text.partition("\n")
    definition = parse_file(f"{first.rstrip()}\n{rest}")
    if options.name and options.name != definition.name:
        raise OperationError(
            f"the line names the agent {options.name[:_SHOWN]!r}, but the front matter {definition.name!r}. Leave one "
            "of them out. Nothing was defined"
        )
    if definition.compatible_models:
        raise OperationError(
            "compatible_models is for files that others adopt; name one model, or none. Nothing was defined"
        )
    return definition


def _of_options(options: AgentOptions, body: str, former: Agent | None) -> AgentDefinition:
    """Return the definition from options and instructions. Values that the line omits come from the former version."""
    if not options.name:
        raise OperationError(
            "name the agent: %%tract_agent NAME, or front matter that has a name. Nothing was defined"
        )
    old = None if former is None else former.definition
    budget = None if options.budget is None else _budget(options.budget)
    return AgentDefinition(
        name=options.name, instructions=body.strip("\n"),
        description=options.description if options.description is not None else "" if old is None else old.description,
        model=options.model or (None if old is None else old.model),
        compatible_models=() if old is None or options.model else old.compatible_models,
        tools=_list(options.tools, () if old is None else old.tools),
        toolsets=_list(options.toolsets, () if old is None else old.toolsets),
        budget=budget or (None if old is None else old.budget),
        runtime=options.runtime or (None if old is None else old.runtime),
    )  # fmt: skip


def _list(text: str | None, old: tuple[str, ...]) -> tuple[str, ...]:
    return old if text is None else tuple(filter(None, re.split(r"[,\s]+", text)))


def _budget(text: str) -> Allowance:
    """Parse a budget: `steps=20,usd=0.5`."""
    limits: dict[str, Any] = {}
    for part in filter(None, re.split(r"[,\s]+", text)):
        name, equals, value = part.partition("=")
        if name not in BUDGET_LIMITS:
            raise OperationError(
                f"a budget has no limit {name[:_SHOWN]!r}.{nearest(name, BUDGET_LIMITS)} The limits are "
                f"{', '.join(BUDGET_LIMITS)}. Example: --budget steps=20,usd=0.5. Nothing was defined"
            )
        if name in limits:
            raise OperationError(f"the budget names {name} twice; name it once. Nothing was defined")
        try:
            if not equals:
                raise ValueError(part)
            limits[name] = float(value) if name in {"usd", "seconds"} else int(value.replace("_", ""))
        except ValueError:
            raise OperationError(
                f"the limit of {name} must be a number, such as {name}=20, not {value[:_SHOWN]!r}. Nothing was defined"
            ) from None
    return read_budget(limits) or Allowance()


def _active(agents: Agents, name: str) -> Agent | None:
    return next((agent for agent in agents if agent.name == name and agent.state is AgentState.ACTIVE), None)


def _check_update_of_file(definition: AgentDefinition, former: Agent | None) -> None:
    old = None if former is None else former.definition
    for name in ("model", "budget"):
        if old is not None and getattr(old, name) is not None and getattr(definition, name) is None:
            raise OperationError(
                f"{definition.name!r} has a {name}, which a new version cannot leave out: name one. Nothing was defined"
            )


def _changes(former: Agent | None, definition: AgentDefinition) -> str:
    if former is None:
        return ""
    before, after = (text.removesuffix("\n").split("\n") for text in (former.text, file_text(definition)))
    return "\n".join(unified_diff(before, after, f"version {former.version}", "now"))


def _person(notebook: NotebookSession) -> Any:
    from tract_jupyter.agents import AgentCaller

    return AgentCaller(notebook.tract)


def _sentence(error: AgentError) -> str:
    """Return the text of an error. For an unknown name, suggest the nearest one instead of listing all."""
    noun = _MANY.get(error.code)
    text = str(error).rstrip(".")
    if noun is None:
        return text
    wrong = re.search(r"'([^']*)'", text)
    name = wrong[1] if wrong else ""
    near = nearest(name, error.allowed).rstrip()
    lists = "%tract tools lists them" if noun == "tool" else ""
    there = lists or (f"There are {', '.join(error.allowed)}" if error.allowed else "There are none")
    return f"there is no {noun} {shortened(name, _SHOWN)!r} here.{near} {there}"


# --- completion


def body_words(notebook: NotebookSession, above: list[str], line: str) -> list[tuple[str, str]]:
    """Return the words that may follow in a line of the front matter; none in the instructions.

    `above` is without the line of the magic, and `line` ends at the cursor.
    """
    if not above or above[0].rstrip() != _FENCE or _FENCE in [entry.rstrip() for entry in above[1:]]:
        return []
    agents = notebook.tract.agents
    key, colon, _ = line.partition(":")
    if line.startswith(("-", " ")):
        section = next(
            (entry.partition(":")[0] for entry in reversed(above) if entry[:1] not in {"-", " "}),
            "",
        )
        names: dict[str, Iterable[str]] = {
            "tools": agents.executor.tools(),
            "toolsets": agents.toolsets,
            "compatible_models": agents.models,
        }
        if section == "budget":
            return [(f"{name}: ", "limit") for name in BUDGET_LIMITS]
        return [(name, section) for name in names.get(section, ())]
    if colon:
        values = {"model": agents.models, "runtime": agents.runtimes}
        return [(name, key) for name in values.get(key, ())]
    used = {entry.partition(":")[0] for entry in above}
    return [(f"{name}: ", "field") for name in KEYS if name not in used]
