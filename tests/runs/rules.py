"""The rules of runs. `python -m tests.runs.rules` prints the tests and vectors of each rule.

A test names its rules at the start of its docstring: `R10, R25: ...`. A vector names them in `rules`.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

RULES = {
    "R1": "An operation is a black box; outside it are only a status and explicit effects",
    "R2": "It runs at one of two hooks: before or after the main call",
    "R3": "It is given the run's context, and returns effects on the prompt, the turn, or artifacts",
    "R4": "Prompt effects change the prompt of this one call",
    "R5": "Canonicalization changes the current turn only, never older history",
    "R6": "An artifact is `art.<tag>`, persisted or run_only",
    "R7": "An operation is no part of the main call, and does not control it",
    "R8": "The unit of configuration is an operation with its hook",
    "R9": "A run begins with `generate` or `regenerate`",
    "R10": "Before-operations may run side by side; each waits until all it depends on are `done`",
    "R11": "All that were supposed to run are terminal before the barrier",
    "R12": "A required one that is not `done` keeps the main call from starting",
    "R13": "Behind the barrier there is exactly one main call",
    "R14": "After-operations follow the same rules",
    "R15": "Statuses, and the effects that were applied, are recorded",
    "R16": "What a definition holds",
    "R17": "An operation need not consist of steps",
    "R18": "`enabled`",
    "R19": "`required` blocks the barrier before, and fails the run after",
    "R20": "What is not required never blocks",
    "R21": "A failed required after-operation takes nothing back",
    "R22": "`hooks`, normally one",
    "R23": "`triggers`, both if absent",
    "R24": "`order` is mandatory, and the priority of commits",
    "R25": "`dependsOn` is strict",
    "R26": "Whoever needs another's result lists it in `dependsOn`",
    "R27": "`params` belong to the kind, and hold no secrets",
    "R28": "`debug` is optional",
    "R29": "The context is read-only, and says which run, trigger, hook and turn it is",
    "R30": "Before: the draft of the prompt. After: the reply",
    "R31": "Persisted artifacts and the run's own can be read; others' results through a dependency only",
    "R32": "A signal to abort, and a deadline",
    "R33": "Which effects are allowed here, and how large things may be",
    "R34": "The context is complete",
    "R35": "A result has a status, `required` as configured, effects, bounded debugging",
    "R36": "`skipped` is a terminal status, and no error",
    "R37": "A skipped operation has no effects",
    "R38": "Reasons to skip: disabled, trigger, condition, dependency",
    "R39": "How they are spelled",
    "R40": "A guard is `done` and writes a boolean; dependents read it and run or are skipped",
    "R41": "Prompt effects are allowed before the main call only",
    "R42": "`prompt.append_after_last_user` stands right after the current user message",
    "R43": "`prompt.system_update` prepends, appends or replaces",
    "R44": "`prompt.insert_at_depth`: 0 is the tail, -N is N messages before the end",
    "R45": "A message has a role, content, and may name its source",
    "R46": "Effects are applied in a deterministic order",
    "R47": "The canon of a turn is its user message and its reply",
    "R48": "Before: the user's part only. After: both",
    "R49": "A rewrite makes a new variant and selects it",
    "R50": "Artifacts are made and changed, persisted or for this run",
    "R51": "One operation writes one tag at most",
    "R52": "What an artifact holds",
    "R53": "No raw exception leaves an operation",
    "R54": "An error has a code and a bounded, safe message",
    "R55": "Codes are stable",
    "R56": "Each execution leaves an OperationRun",
    "R57": "It explains without keeping what is sensitive",
    "R58": "Execution may be parallel, the commit is deterministic",
    "R59": "Only `done` has effects",
    "R60": "Commit order: dependencies, then `order`, then id",
    "R61": "A failed dependency: skipped if optional, an error if required",
    "R62": "Operations meet in artifacts and effects only",
    "R63": "A state and its difference are two operations",
    "G1": "A required operation that is blocked ends as `dependency_failed`",
    "G2": "What is disabled or not triggered leaves a trace",
    "G3": "... and does not count at the barrier",
    "G4": "A required one that its own condition skipped does",
    "G5": "A dependency outside the plan counts as failed, transitively",
    "G6": "Plan errors are found when saved and when run; the run fails before the barrier",
    "G7": "A cycle among disabled operations is an error when saved, not when run",
    "G8": "Ids are compared by code point",
    "G9": "Commits take from a ready queue that is sorted anew",
    "G10": "So does starting; `order` never delays what is independent",
    "G11": "The limit of concurrency is optional and positive",
    "G12": "A blocked operation is settled with the first dependency that fails",
    "G13": "Of two inserts after the user message the later one stands closer to it",
    "G14": "Two inserts at one depth keep their order",
    "G15": "A depth beyond the window is clamped to just after the first system message; its sign is ignored",
    "G16": "A system update makes a system message, or changes the first",
    "G17": "The current user message is known by identity",
    "G18": "Without a user message the anchor is the tail",
    "G19": "Role `developer` is accepted",
    "G20": "A running operation sees its direct dependencies' effects, in commit order",
    "G21": "Good effects of an operation stay when one of them is bad",
    "G22": "A forbidden effect is recorded; of a required operation it fails the run",
    "G23": "Two tags of one operation are refused before anything is applied",
    "G24": "An unknown effect is a validation error",
    "G25": "What raises after an abort was aborted",
    "G26": "What finishes in spite of it is `done`; nothing new starts",
    "G27": "What had not started is skipped as `run_aborted`",
    "G28": "Aborted before the barrier, the main call does not start",
    "G29": "What never started has no start time",
    "G30": "A second rewrite of the user's message goes on from the first",
    "G31": "Codes are in lower snake case",
    "E1": "A commit is a step of its own, made twice: before the main call and after the reply",
    "E2": "It is given what has ended at the hook: status, order, dependencies and effects; only `done` has any",
    "E3": "Effects of one operation are applied in the order in which it gave them",
    "E4": "Each hook has its effects: the prompt before, the reply after, the user's message and artifacts at both",
    "E5": "Every effect is checked first: its form, its hook, its size, how many there are, its tag",
    "E6": "An effect of a required operation that cannot be applied fails the run",
    "E7": "An effect of an optional operation that cannot be applied is only reported",
    "E8": "The report of a commit lists every effect with its status and its error",
    "E9": "Without a profile, or with one that is switched off, a run is plain generation",
    "E10": "`executionMode: sequential` runs one operation at a time",
    "E11": "Artifacts and counters belong to a branch, a profile and its session; a new session starts empty",
    "E12": "A run ends as `done`, `failed` (before the barrier, in the main call, or after it) or `aborted`",
    "E13": "Every planned operation is recorded, even if the run fails early",
    "E14": "An abort or a deadline is signalled to running operations and to the main call",
    "E15": "The events of a run are numbered from 1, without gaps",
    "E16": "One operation of a profile writes a tag; this is checked when it is saved",
    "E17": "A dependency is another operation of the same profile or block, and there are no circles",
    "E18": "An operation runs only at hooks at which its dependencies run too",
    "E19": "A profile is data: ids are unique, `order` is a number, and nothing in it plans or runs",
    "E20": "Kind `llm`: one question to a model; its value is the text or the parsed JSON",
    "E21": "Kind `template`: a text that is rendered without a model; its value is a string",
    "E22": "Kind `guard`: exactly the declared keys, each with a boolean, as one JSON artifact",
    "E23": "A condition asks a guard that is a dependency; all conditions of an operation must hold",
    "E24": "The history of an artifact holds its newest values, up to `maxItems`",
    "E25": "An attempt may have a time limit; errors that may pass are tried again, a bounded number of times",
    "X01": "`activation`: an operation may be due only every so many turns or context tokens",
    "X02": "Errors of planning have stable codes, and end the run as failed",
    "X03": "A new value takes the old one's place in either write mode; the history has both",
    "X04": "An operation configures one artifact; its exposures say what else the value becomes",
    "X05": "What is exposed as `ui_inline` stands beside the run and is never sent",
    "X06": "A bad effect neither undoes the operation's other effects nor stops them",
    "X07": "An operation of an unknown kind is skipped as `unsupported_kind`",
    "X08": "JSON is found in a reply as it stands, in a code block, or by a pattern",
    "X09": "What templates see of a run",
    "X10": "A text is rendered once, within limits, and what data says is never executed",
    "X11": "Blocks: operations that several profiles share; their ids get the block's as a prefix",
}  # fmt: skip


def expanded(named: str) -> set[str]:
    """The rules in a text such as `R10, R25, G8 to G10, X01`."""
    found = set(re.findall(r"\b[RGEX]\d+\b", named))
    for letter, first, last in re.findall(r"\b([RGE])(\d+) to [RGE](\d+)\b", named):
        found |= {f"{letter}{number}" for number in range(int(first), int(last) + 1)}
    return found


def by_tests() -> dict[str, list[str]]:
    """Which test functions name each rule."""
    found: dict[str, list[str]] = {}
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        text = path.read_text("utf-8")
        if "/runs/" not in path.as_posix() and not path.name.startswith("test_running"):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                head = (ast.get_docstring(node) or "").partition(":")
                named = head[0] if head[1] and re.fullmatch(r"[RGEX\d, to]+", head[0]) else ""
                for rule in expanded(named):
                    where = path.relative_to(ROOT / "tests").as_posix()
                    found.setdefault(rule, []).append(f"{where}::{node.name}")
    return found


def by_vectors() -> dict[str, list[str]]:
    """Which vectors name each rule; of a resolution, none does."""
    found: dict[str, list[str]] = {}
    for vector in json.loads((ROOT / "tests" / "vectors" / "operations.json").read_text("utf-8")):
        for rule in vector["rules"]:
            found.setdefault(rule, []).append(vector["id"])
    return found


def table() -> str:
    """Return the rules with their tests and vectors, one per line."""
    tests, vectors = by_tests(), by_vectors()
    lines = []
    for rule, text in RULES.items():
        lines.append(f"{rule}: {text}")
        lines += [f"    {name}" for name in sorted(tests.get(rule, []))]
        lines += [f"    vectors: {', '.join(vectors[rule])}"] if rule in vectors else []
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
