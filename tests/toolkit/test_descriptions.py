"""A tool's description names its action, its object, and when not to use it.

The words of a description must lead to the right tool. The tasks in `tasks.toml` use the words of a user who
has not read the descriptions. A simple keyword model picks a tool for each task. It knows only words. If it
picks the wrong tool, a description lacks a common word or does not state the difference from a similar tool.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tract_jupyter import Tract

TASKS = tomllib.loads((Path(__file__).parent / "tasks.toml").read_text())
FLOOR = 0.9
"""The part of a profile's tasks that the right tool is picked for."""
STOP_WORDS = re.compile(
    r"a|an|and|are|as|at|be|but|by|do|does|for|from|had|has|have|i|if|in|into|is|it|its|just|let|me|my|no|"
    r"not|of|on|one|or|so|still|than|that|the|their|them|then|these|they|this|to|up|was|we|were|what|when|"
    r"where|who|whole|with|would|you|your"
)
OF_NAMES, OF_DESCRIPTIONS = 3, 2
"""How often a word of a name and of a description counts; one about an argument counts once."""
VERBS = re.compile(
    r"\b(?:Add|Bring|Change|Clear|Combine|Compare|Continue|Copy|Create|Decide|Delete|Explain|Find|"
    r"Free|Give|Label|Let|List|Look|Make|Put|Read|Remove|Replay|Run|Say|See|Show|Summarize|"
    r"Switch|Take|Tell|Undo|Use|Write)\b"
)
"""What a description begins with."""
OBJECTS = re.compile(
    r"\b(?:context|commit|commits|message|messages|branch|branches|tag|tags|label|policy|model|"
    r"tool|operation|notebook|notebooks|code|answer|state|tract|agent|agents|space)\b"
)
NOT_FOR = re.compile(r"(.+\.) (Not (?:for|to|into) [^.]+)\.")
"""The last sentence says when to use something else, and what."""
NO_OTHER = re.compile(r"it (?:holds|applies) from now on|call the tool|use the tool itself")
"""What is said where no single tool stands in."""


ENDING = re.compile(r"(?<=...)(?:ization|arie|ation|ing|ize|ary|i?e|ly|y)?(?:d|s)?$")


def stem(word):
    """Return a word without its usual endings: `summarized` and `summary` have the same stem."""
    short = ENDING.sub("", word, count=1)
    return short[:-1] if len(short) > 3 and short[-1] == short[-2] else short


def words(text):
    return [stem(word) for word in re.findall(r"[a-z]+", text.lower()) if not STOP_WORDS.fullmatch(word)]


def what_for(description):
    """Return a description without its last sentence, which describes tasks of other tools."""
    return description.partition(" Not ")[0]


class KeywordModel:
    """Okapi BM25 over name, description and descriptions of arguments."""

    def __init__(self, tools):
        self.documents = {
            tool["name"]: Counter(
                words(tool["name"].replace("_", " ")) * OF_NAMES
                + words(what_for(tool["description"])) * OF_DESCRIPTIONS
                + [
                    word
                    for name, schema in tool["input_schema"]["properties"].items()
                    for word in words(f"{name.replace('_', ' ')} {schema.get('description', '')}")
                ]
            )
            for tool in tools
        }
        self.average = sum(map(Counter.total, self.documents.values())) / len(self.documents)
        self.having = Counter(word for document in self.documents.values() for word in document)

    def pick(self, task):
        return max(self.documents, key=lambda name: self._score(set(words(task)), self.documents[name]))

    def _score(self, asked, document, k=1.2, b=0.5):
        length = k * (1 - b + b * document.total() / self.average)
        return sum(
            math.log(1 + (len(self.documents) - self.having[word] + 0.5) / (self.having[word] + 0.5))
            * document[word] * (k + 1) / (document[word] + length)
            for word in asked
            if document[word]
        )  # fmt: skip


@pytest.fixture(scope="module")
def tools():
    with Tract.open() as tract:
        return {profile: tract.as_tools(profile, format="anthropic") for profile in TASKS}


def wrong(tools, tasks):
    """Return the tasks with a wrong tool, and the number of tasks."""
    model = KeywordModel(tools)
    picked = [(task, tool, model.pick(task)) for tool, told in tasks.items() for task in told]
    return [one for one in picked if one[1] != one[2]], len(picked)


@pytest.mark.parametrize("profile", TASKS)
def test_the_right_tool_is_found_by_its_words(tools, profile):
    assert set(TASKS[profile]) == {tool["name"] for tool in tools[profile]}
    missed, tasks = wrong(tools[profile], TASKS[profile])
    assert tasks >= 30
    assert len(missed) <= (1 - FLOOR) * tasks, missed


@pytest.mark.parametrize("profile", TASKS)
def test_without_descriptions_it_is_not(tools, profile):
    for without in ({"description": ""}, {"description": "", "input_schema": {"properties": {}}}):
        missed, tasks = wrong([{**tool, **without} for tool in tools[profile]], TASKS[profile])
        assert len(missed) > 0.4 * tasks


@pytest.mark.parametrize("profile", TASKS)
def test_each_description_has_an_action_an_object_and_a_case_not_to_use_it(tools, profile):
    names = {tool["name"] for tool in tools[profile]}
    for tool in tools[profile]:
        name, description = tool["name"], tool["description"]
        whole = NOT_FOR.fullmatch(description)
        assert whole, f"{name}: the last sentence says when not to use it"
        does, other = whole.groups()
        assert VERBS.match(does), f"{name}: start with a verb of VERBS, or add yours there"
        assert OBJECTS.search(does), f"{name}: it says to what"
        instead = set(re.findall(r"\w+", other.partition(": ")[2])) & names - {name}
        assert instead or NO_OTHER.search(other), f"{name}: it says what to use instead"


def test_tasks_are_not_copied_from_descriptions(tools):
    for profile, of_tools in TASKS.items():
        told = {tool["name"]: tool["description"].lower() for tool in tools[profile]}
        for tool, tasks in of_tools.items():
            assert all(task.lower().rstrip(".?") not in told[tool] for task in tasks)
