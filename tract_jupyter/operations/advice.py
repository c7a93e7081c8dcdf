"""The reach of code, the additional reach of a new version, its abilities in a sentence, and its findings.

The abilities summarize the findings and the names in the code. They restrict nothing. `Advice` configures the analysis
for reviews: the active rules, and notes for the reviewer about them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tract_jupyter.analysis import Category, RiskLevel
from tract_jupyter.models import one_line
from tract_jupyter.models.schema import type_text
from tract_jupyter.operations.sandboxed import REACH
from tract_jupyter.review import ACCESS, CodeBlock, ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.analysis import AnalysisResult, AnalysisSession, Capabilities, CodeAnalyzer, Finding
    from tract_jupyter.operations.spec import ActionDef, OperationSpec


_SHOWN = 40  # entries of each kind
_MEANING = {
    "imports": "modules",
    "calls": "called functions",
    "attributes": "read and written names",
    "files": "files",
    "hosts": "hosts",
    "tools": "tools",
    "unknown": "not visible in its text",
    "fields": "fields",
    "actions": "actions",
    "decides": "default decision",
}
Reach = dict[str, frozenset[str]]
"""Names by kind: the kinds of `Capabilities`, and `fields`, `actions`, `decides`."""


def spec_reach(spec: OperationSpec) -> Reach:
    """Return the access of an operation: its code, typed fields and actions, and its default decision.

    Code in the sandbox can access only the fields, so its text does not count.
    """
    return {
        **_code_reach(action for action in spec.actions.values() if not action.is_sandboxed),
        "fields": frozenset(
            f"{p.name}: {type_text(p.annotation)}{', volatile' if p.name in spec.volatile else ''}"
            for p in spec.parameters()
        ),
        "actions": frozenset(
            f"{name}{action.parameters().signature_text()}{', in the sandbox' if action.is_sandboxed else ''}"
            for name, action in spec.actions.items()
        ),
        "decides": frozenset(
            [
                *(["approved if no handler decides"] if spec.unhandled == "approve" else []),
                *([f"fires by itself {spec.fires_on}"] if spec.fires_on is not None else []),
                *(["each firing asks a model for guidance"] if spec.two_stage else []),
            ]
        ),
    }


def handler_reach(operation: str, code: ActionDef) -> Reach:
    """Return the access of a handler, and the operation that it decides about."""
    return {**_code_reach([code]), "decides": frozenset({f"decides about {operation}"})}


def gained(old: Mapping[str, frozenset[str]] | None, new: Mapping[str, frozenset[str]]) -> Reach:
    """Return the access that the new version adds. Without an old version, return all access.

    Access that the analysis cannot understand never counts as unchanged. It counts as added again.
    """
    if old is None:
        return dict(new)
    from tract_jupyter.analysis import Capabilities, widened

    of_code = frozenset(_as_dict(Capabilities()))
    before, now = (Capabilities(**{kind: reach[kind] for kind in of_code}) for reach in (old, new))
    added = {
        **_as_dict(widened(before, now)),
        **{kind: new[kind] - old.get(kind, frozenset()) for kind in new if kind not in of_code},
    }
    return {kind: names for kind, names in added.items() if names}


def reach_table(
    old: Mapping[str, frozenset[str]] | None, new: Mapping[str, frozenset[str]], summary: str = ""
) -> ValueTable:
    """Return a table of the added access for a reviewer, under a summary. If there is none, the table says so."""
    added = gained(old, new)
    title = ACCESS if old is None else f"{ACCESS} that the approved version could not"
    rows = tuple(
        ValueRow(kind, _MEANING[kind], _listed_names(added[kind])) for kind in _MEANING if added.get(kind)
    )
    nothing = ValueRow("nothing new", "", "It can access nothing that the approved version could not.")
    return ValueTable(title, rows or ((nothing,) if old is not None else ()), "nothing", summary)


def _code_reach(actions: Iterable[ActionDef]) -> Reach:
    from tract_jupyter.analysis import Capabilities, capabilities_of

    each = [capabilities_of(action.code, parameters=("pending", *action.params)) for action in actions]
    return _as_dict(Capabilities().merged(each))


def _as_dict(capabilities: Capabilities) -> Reach:
    return {field.name: getattr(capabilities, field.name) for field in fields(capabilities)}


def _listed_names(names: frozenset[str]) -> str:
    first = sorted(names)[:_SHOWN]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


# --- the abilities of code, in a sentence such as "Can start other programs and write any file"

_BY_CATEGORY: Final = {
    Category.PROCESS: "start other programs",
    Category.CODE_EXECUTION: "run code made of text",
    Category.DESERIALISATION: "run code that a file holds",
    Category.NATIVE: "call native code",
    Category.NETWORK: "use the network",
    Category.DATABASE: "change a database",
    Category.TAMPERING: "change how other code behaves",
    Category.INTROSPECTION: "look into Python's internals",
    Category.FILESYSTEM_DELETE: "delete or move files",
    Category.FILESYSTEM_WRITE: "write files",
    Category.FILESYSTEM_READ: "read files",
    Category.ENVIRONMENT: "read secrets and environment variables",
}
"""The ability for each category of findings, the worst first."""
_BY_FILE: Final = ("delete", "overwrite", "change", "write", "read")
_MILD: Final = ("control processes", "wait for input", "read environment variables")
_VERBS: Final = {
    Category.FILESYSTEM_DELETE: "delete",
    Category.DATABASE: "change",
    Category.FILESYSTEM_WRITE: "write",
    Category.FILESYSTEM_READ: "read",
}
_UNKNOWN: Final = {
    "a function handed on": "",  # covered by its findings
    "a computed variable of the environment": "",
    "native code": "",
    "a computed import": "import modules that are known only when it runs",
    "a computed call": "call functions that are known only when it runs",
    "a computed attribute": "use attributes that are known only when it runs",
    "a computed tool": "call tools that are known only when it runs",
    "the interpreter's insides": _BY_CATEGORY[Category.INTROSPECTION],
    "names looked up by text": _BY_CATEGORY[Category.INTROSPECTION],
    "a format that reads private attributes": _BY_CATEGORY[Category.INTROSPECTION],
    "everything of": "import all names of a module",
    **dict.fromkeys(("a computed path", "a computed address", "a command", "code from text"), ""),
}
"""The abilities for the kinds of `Capabilities.unknown`. Empty if findings, files and hosts already cover the kind."""
_MAGIC: Final = "a shell line or magic: %"
_READING: Final = frozenset({
    "compile", "log", "head", "diff", "status", "current_branch", "branches", "get", "show", "search", "tags",
})  # fmt: skip
"""The tract's members that only read."""
_FEW, _LENGTH = 2, 40  # the maximum number of names, and of characters of each
NOTHING: Final = "No use of files, the network, other programs, tools or the context was found."


def abilities(
    findings: Collection[Finding],
    reach: Mapping[str, frozenset[str]],
    existing: Collection[str] = (),
    *,
    keeps: bool = False,
) -> tuple[str, ...]:
    """Return the abilities of code, as verbs with their objects, the worst first.

    `existing` are the entries of `used_files` that exist. With `keeps`, the code appends to files instead of
    overwriting them.
    """
    magics = _magics(reach)
    used = [f for f in findings if not (_is_import(f, reach) or (magics and f.text[:1] == "%"))]
    files = _files(used_files(findings, reach), existing, keeps=keeps)
    others = {_ability_of(finding) for finding in used if finding.category not in _VERBS}
    verbs = [text for text in (*_BY_CATEGORY.values(), *_MILD) if text in others]
    without_paths = {finding.category for finding in used if finding.category in _VERBS and not finding.paths}
    hosts = sorted(reach.get("hosts", ()))
    if hosts and "?" not in hosts:
        verbs = [text for text in verbs if text != "use the network"]
        verbs.insert(0, f"contact {_few(hosts, 'host')}")
    file_verbs = {text.partition(" ")[0] for text in files}
    verbs += [
        _BY_CATEGORY[category]
        for category, verb in _VERBS.items()
        if category in without_paths and not file_verbs & _VERB_FORMS.get(verb, {verb})
    ]
    verbs += files
    tools = sorted(reach.get("tools", ()))
    verbs += [f"call the {'tool' if len(tools) == 1 else 'tools'} {_few(tools, 'tool')}"] if tools else []
    verbs += _context({*reach.get("calls", ()), *reach.get("attributes", ())})
    verbs += (
        [f"use the {'magic' if len(magics) == 1 else 'magics'} {_few(magics, 'magic')}"] if magics else []
    )
    return tuple(dict.fromkeys([*verbs, *_unknown(reach)]))


_VERB_FORMS: Final = {"write": {"write", "overwrite", "change"}, "change": {"change"}}


def _ability_of(finding: Finding) -> str:
    if finding.code == "TJ106":
        return "wait for input" if finding.text == "input" else "control processes"
    if finding.category is Category.ENVIRONMENT and finding.level is RiskLevel.LOW:
        return "read environment variables"
    return _BY_CATEGORY.get(finding.category, "")


def _is_import(finding: Finding, reach: Mapping[str, frozenset[str]]) -> bool:
    """Return True if a finding is only about an import, which does nothing by itself."""
    names = reach.get("imports", frozenset())
    is_named = finding.text in names or finding.reason.startswith("Imports ")
    return finding.level is RiskLevel.LOW and not finding.paths and is_named


def _magics(reach: Mapping[str, frozenset[str]]) -> list[str]:
    entries = sorted(reach.get("unknown", ()))
    lines = [entry.removeprefix(_MAGIC[:-1]) for entry in entries if entry.startswith(_MAGIC)]
    return list(dict.fromkeys(line.split()[0] for line in lines))


def _unknown(reach: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for entry in sorted(reach.get("unknown", ())):
        if not entry.startswith(_MAGIC[:-1]):
            known = (text for start, text in _UNKNOWN.items() if entry.startswith(start))
            text = next(known, "do things that its text does not show")
            if text:
                yield text


def ability_text(verbs: Sequence[str]) -> str:
    """Return abilities as a sentence."""
    return f"Can {_listed(verbs)}." if verbs else NOTHING


def change_text(before: Sequence[str], now: Sequence[str]) -> str:
    """Return the abilities of a new version, compared with the previous version, as sentences."""
    parts = {
        "New": [text for text in now if text not in before],
        "Unchanged": [text for text in now if text in before],
        "No longer": [text for text in before if text not in now],
    }
    sentences = [f"{kind}: {_listed(names)}." for kind, names in parts.items() if names]
    return " ".join(sentences) or NOTHING


def used_files(findings: Iterable[Finding], reach: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the files that code uses, as ``verb:path``, with ``?`` for any file.

    The findings also take the previous cells into account. If they know each path, the code uses no other file.
    """
    paths_by_verb: dict[str, set[str]] = {}
    for finding in findings:
        if finding.category in _VERBS:
            paths_by_verb.setdefault(_VERBS[finding.category], set()).update(finding.paths)
    databases = paths_by_verb.get("change", set())
    entries = {f"{verb}:{path}" for verb, paths in paths_by_verb.items() for path in paths}
    for entry in reach.get("files", ()):
        verb, _, path = entry.partition(":")
        is_known = path == "?" and paths_by_verb.get(verb) and "?" not in paths_by_verb[verb]
        is_remote = "://" in path and bool(reach.get("hosts"))
        if verb in _BY_FILE and not (is_known or is_remote):
            entries.add(entry)
    return frozenset(
        entry for entry in entries if not (entry.startswith("read:") and entry.partition(":")[2] in databases)
    )


def _files(entries: Iterable[str], existing: Collection[str], *, keeps: bool) -> list[str]:
    """Return the uses of files with a limited number of names, or ``any file`` for an unknown path."""
    by_verb: dict[str, list[str]] = {}
    for entry in sorted(entries):
        verb, _, path = entry.partition(":")
        if verb == "write" and path in existing:
            verb = "change" if keeps else "overwrite"
        by_verb.setdefault(verb, []).append(path)
    read, there = set(by_verb.get("read", ())), set(existing)
    written = {*by_verb.get("overwrite", ()), *by_verb.get("write", ())}
    by_verb["change"] = [path for path in by_verb.get("change", ()) if path not in written]
    by_verb["read"] = sorted(read - {*by_verb.get("overwrite", ()), *by_verb.get("change", ())})
    return [_done_to(verb, paths, there, read) for verb in _BY_FILE if (paths := by_verb.get(verb))]


def _done_to(verb: str, paths: Sequence[str], there: set[str], read: set[str]) -> str:
    """Return the use of files. Changed files that exist (`there`) are named as existing."""
    if "?" in paths:
        return f"{verb} any file"
    innermost = (path for path in paths if not any(other.startswith(f"{path}/") for other in paths))
    places = _few([_place(path) for path in innermost], "file")
    if verb in {"read", "write", "delete"} or not there.issuperset(paths):
        return f"{verb} {places}"
    files, are = ("files", "are") if len(paths) > 1 else ("file", "is")
    is_read = verb == "overwrite" and read.issuperset(paths)
    return f"{verb} the existing {files} {places}{f', which {are} read here' if is_read else ''}"


def _place(path: str) -> str:
    folder, _, name = path.rpartition("/")
    if name == "?" and folder and "?" not in folder:
        return f"files in {folder}"
    return "this folder" if path == "." else path.removeprefix("./").replace("?", "…")


def _context(names: Iterable[str]) -> list[str]:
    members = {
        name.removeprefix("pending.tract").lstrip(".") for name in names if name.startswith("pending.tract")
    }
    firsts = {member.partition(".")[0].partition("(")[0] for member in members}
    if not members:
        return []
    return ["read the context" if firsts <= _READING else "change the context"]


def _few(names: Sequence[str], word: str) -> str:
    first = [one_line(name, _LENGTH) for name in names[:_FEW]]
    more = len(names) - len(first)
    return _listed([*first, *([f"{more} more {word}{'s' * (more > 1)}"] if more else [])])


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


class Advice:
    """The entry point to the analysis for all reviewed code. Paths are relative to the working directory.

    Raises:
        TractError: a rule or a level does not exist, or the rule cannot be disabled.
    """

    def __init__(self, off: Iterable[str] = (), levels: Mapping[str, str] | None = None) -> None:
        from tract_jupyter.analysis import own_effects

        self.off = tuple(sorted(set(off)))
        self.levels = dict(sorted((levels or {}).items()))
        self.effects = own_effects()
        self._folder = _working_directory()
        if self.off or self.levels:
            _ = self.analyzer  # checks them

    @cached_property
    def analyzer(self) -> CodeAnalyzer:
        """The analyzer with these settings."""
        from tract_jupyter.analysis import CodeAnalyzer

        return CodeAnalyzer(self._folder, off=self.off, levels=self.levels)

    @cached_property
    def _session(self) -> AnalysisSession:
        from tract_jupyter.analysis import AnalysisSession

        return AnalysisSession(self.analyzer)

    def is_of(self, off: Iterable[str], levels: Mapping[str, str], effects: Iterable[str] = ()) -> bool:
        """Return True if the settings are equal to these."""
        return (set(self.off), self.levels, self.effects) == (set(off), dict(levels), tuple(effects))

    @property
    def note(self) -> str:
        """The analysis settings for a reviewer, because disabled rules report nothing."""
        parts = []
        if self.off:
            count = f"{len(self.off)} rules are" if len(self.off) > 1 else "1 rule is"
            parts.append(f"{count} switched off: {', '.join(self.off)}.")
        if self.levels:
            levels = ", ".join(f"{code} {level}" for code, level in self.levels.items())
            parts.append(f"Levels set here: {levels}.")
        if self.effects:
            parts.append(f"Effects of calls also come from {', '.join(self.effects)}.")
        return " ".join(parts)

    def block(self, action: ActionDef) -> CodeBlock:
        """Return an action's code for review: the `def` line, then the body with its own line numbers."""
        header = f"def {action.name}{action.parameters().signature_text('pending')}:"
        block = self.code_block(action.name, action.code)
        notes = [REACH if action.is_sandboxed else "", block.analysis_note]
        note = " ".join(filter(None, notes))
        return replace(block, header=header, description=action.description, analysis_note=note)

    def code_block(
        self,
        title: str,
        code: str,
        *,
        tools: Iterable[str] = (),
        cells_before: Sequence[str] = (),
    ) -> CodeBlock:
        """Return code for review. The code may call these tools and see the variables of these cells."""
        result = self.analyze(code, tools=tools, cells_before=cells_before)
        nothing = "" if result.findings else result.summary()
        note = " ".join(filter(None, [nothing, self.note]))
        return CodeBlock(title, code, result.findings, analysis_note=note)

    def analyze(
        self,
        code: str,
        *,
        tools: Iterable[str] = (),
        cells_before: Sequence[str] = (),
    ) -> AnalysisResult:
        """Analyze code. Unchanged previous cells are analyzed only once."""
        if not cells_before:
            return self.analyzer.analyze(code, tools=tools)
        return self._session.analyze(code, tools=tools, cells_before=cells_before)

    def ability(self, block: CodeBlock) -> str:
        """Return the abilities of code in a sentence. It mentions files that exist already."""
        from tract_jupyter.analysis import capabilities_of

        reach = _as_dict(capabilities_of(block.code))
        written = [f for f in block.findings if f.code == "TJ202" and f.level >= RiskLevel.MEDIUM]
        is_sure = any("adds to" not in finding.reason for finding in written)
        paths = [entry.partition(":")[2] for entry in used_files(block.findings, reach)]
        keeps = not is_sure and _APPENDS.search(block.code) is not None
        return ability_text(abilities(block.findings, reach, list(filter(_exists, paths)), keeps=keeps))


_APPENDS = re.compile(r"""(["'])(?:[bt]?a[bt]?\+?|r[bt]?\+[bt]?)\1""")
"""A file mode that does not truncate the file on opening."""


def _exists(path: str) -> bool:
    with suppress(OSError, ValueError):  # not a path
        return Path(path).expanduser().is_file()
    return False


def _working_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # a cell may have removed it
        return None
