"""Four tasks, done by calls one by one and by a script, and what each way sends to the model.

The model is scripted. It counts each whole request, as a provider would: schemas, instructions, and all messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter import Tract
from tract_jupyter.context import default_counter
from tract_jupyter.models import canonical_json
from tract_jupyter.toolkit import CODE_MODE, ToolConfig, ToolProfile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.toolkit import Toolset

_OTHERS: Final = 100  # tools that nobody needs for these tasks, as a few servers bring them
_NO_SCRIPTS: Final = {name: ToolConfig(enabled=False) for name in CODE_MODE}


@dataclass(frozen=True)
class Task:
    """A question, the calls that answer it, and the script that makes the same calls.

    Args:
        name: The name of the row.
        question: The user's question.
        calls: The tool and the arguments of each call.
        code: The script.
        answer: The printed text of the script.
        least: The minimum percentage of sent tokens that a script saves. None without a target.
        others: Tools that the task does not need.
    """

    name: str
    question: str
    calls: Sequence[tuple[str, dict[str, Any]]]
    code: str
    answer: str
    least: float | None
    others: int = _OTHERS


_TOPICS: Final = ("tides", "locks", "ferries", "dykes", "harbours", "buoys", "canals", "pilots")
_PEOPLE: Final = tuple(f"P{number:02}" for number in range(20))

TASKS: Final = (
    Task(
        "8 searches",
        "Which of these eight topics have a page of the year 2019?",
        [("web_search", {"query": topic}) for topic in _TOPICS],
        f"for topic in {_TOPICS}:\n"
        "    years = [hit['year'] for hit in tools.web_search(query=topic)]\n"
        "    if 2019 in years:\n"
        "        print(topic, years.count(2019))",
        "ferries 1\n",
        97.0,
    ),
    Task(
        "20 files, one match",
        "Which of the files f0.txt to f19.txt mentions the needle?",
        [("read_file", {"path": f"f{number}.txt"}) for number in range(20)],
        "for n in range(20):\n"
        "    if 'needle' in tools.read_file(path=f'f{n}.txt'):\n"
        "        print(f'f{n}.txt has it')",
        "f13.txt has it\n",
        99.0,
    ),
    Task(
        "20 people's expenses",
        "Who of P00 to P19 spent more than 2,000 in March?",
        [("get_expenses", {"person": person}) for person in _PEOPLE],
        "for n in range(20):\n"
        "    person = f'P{n:02}'\n"
        "    total = sum(row['amount'] for row in tools.get_expenses(person=person))\n"
        "    if total > 2_000:\n"
        "        print(person, total)",
        "P07 2700\n",
        99.0,
    ),
    Task(
        "one file",
        "How many errors are in server.log?",
        [("read_file", {"path": "server.log"})],
        "print(sum('ERROR' in line for line in tools.read_file(path='server.log').splitlines()))",
        "12\n",
        90.0,
    ),
)

SMALL_TASKS: Final = (
    Task(
        "one short answer, 1 tool",
        "What did P01 spend on day 1?",
        [("get_expense", {"person": "P01", "day": 1})],
        "print(tools.get_expense(person='P01', day=1))",
        "40 EUR\n",
        None,
        0,
    ),
    Task(
        "three short answers in a row, 1 tool",
        "What did P01, P02 and P07 spend on day 1?",
        [("get_expense", {"person": person, "day": 1}) for person in ("P01", "P02", "P07")],
        "for person in ('P01', 'P02', 'P07'):\n    print(tools.get_expense(person=person, day=1))",
        "40 EUR\n40 EUR\n90 EUR\n",
        None,
        0,
    ),
)
"""Tasks with few tools and short answers: a script costs tokens, or saves few."""


def web_search(query: str) -> list[dict[str, Any]]:
    """Search the web, and return the best hits with the beginning of their text."""
    text = f"What everybody should know about {query}, told by somebody who has seen them for years. " * 2
    year = 2019 if query == "ferries" else 2020
    return [
        {"title": f"{query} {n}", "url": f"https://example.org/{query}/{n}", "text": text, "year": year + n}
        for n in range(6)
    ]


def read_file(path: str) -> str:
    """Read a text file of the project."""
    if path == "server.log":
        levels = ("ERROR" if n % 25 == 0 else "INFO" for n in range(300))
        return "".join(
            f"2026-03-01 12:00:{n % 60:02} {level} request {n} served\n" for n, level in enumerate(levels)
        )
    return "It was a quiet day at the harbour, and the ferries came and went. " * 30 + "needle" * (
        path == "f13.txt"
    )


def get_expenses(person: str) -> list[dict[str, Any]]:
    """List what a person spent in March, row by row."""
    each = 90 if person == "P07" else 40
    return [
        {"day": n + 1, "what": "travel, meals and lodging", "amount": each, "currency": "EUR"}
        for n in range(30)
    ]


def get_expense(person: str, day: int) -> str:
    """Return the expenses of a person on one day of March."""
    return f"{get_expenses(person)[day - 1]['amount']} EUR"


def _other(account: str, limit: int = 20, since: str | None = None) -> list[dict[str, Any]]:
    return [{"account": account, "limit": limit, "since": since}]


class _Model:
    """A model that counts the tokens it receives."""

    def __init__(self, tools: Toolset, system: str) -> None:
        self.sent = 0
        self._count = default_counter().count_text
        self._tools = tools
        self._schemas = tools.schemas()
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": system}]

    def ask(self, text: str) -> None:
        """Put a question to it."""
        self._messages.append({"role": "user", "content": text})
        self._request()

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Let it make a call, and tell it the result in the next request."""
        call = {
            "id": f"call_{len(self._messages)}",
            "function": {"name": tool, "arguments": canonical_json(arguments)},
        }
        self._messages.append({"role": "assistant", "tool_calls": [{"type": "function", **call}]})
        output = self._tools.call(tool, arguments)
        told = output if isinstance(output, str) else canonical_json(output)
        self._messages.append({"role": "tool", "tool_call_id": call["id"], "content": told})
        self._request()
        return output

    def _request(self) -> None:
        self.sent += self._count(canonical_json({"tools": self._schemas, "messages": self._messages}))


class Comparison(NamedTuple):
    """The tokens of a task.

    Attributes:
        direct: Sent tokens, with calls one by one.
        script: Sent tokens, with a script.
        metered: The part that a script saves, as the meter says.
    """

    direct: int
    script: int
    metered: float

    @property
    def saved(self) -> float:
        """The part that a script saves; negative if it costs more."""
        return 1 - self.script / self.direct


def compare(task: Task) -> Comparison:
    """Do a task in both ways.

    Raises:
        ValueError: the script did not find the answer.
    """
    with Tract.open() as tract:
        for function in (web_search, read_file, get_expenses) if task.others else (get_expense,):
            tract.tool(function, read_only=True)
        for number in range(task.others):
            about = f"List the entries of register {number} for an account, the newest first."
            tract.tool(_other, name=f"list_register_{number}", description=about, read_only=True)
        profile = ToolProfile("direct", _NO_SCRIPTS, has_others=True, has_built_in=bool(task.others))
        direct = _Model(tract.toolset(profile), "")
        direct.ask(task.question)
        for tool, arguments in task.calls:
            direct.call(tool, arguments)
        in_code = _Model(tract.toolset("code"), tract.scripts.get_system_instructions(query=task.question))
        in_code.ask(task.question)
        told = in_code.call("notebook_execute", {"code": task.code})
        if told["output"] != task.answer:
            raise ValueError(f"{task.name}: {told}")
        return Comparison(direct.sent, in_code.sent, tract.tools.savings().share)
