"""What code can do, in a sentence, such as "Can start other programs and write any file", for a reviewer.

It is made of what the analysis found and of the names in the code, so it explains and contains nothing; the names
themselves stand behind it (`advice`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tract_jupyter.analysis import Category, RiskLevel
from tract_jupyter.models import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tract_jupyter.analysis import Finding

_BY_CATEGORY: Final = {
    Category.PROCESS: "start other programs",
    Category.CODE_EXECUTION: "run code made of text",
    Category.DESERIALISATION: "run code that a file holds",
    Category.NATIVE: "call native code",
    Category.NETWORK: "use the network",
    Category.TAMPERING: "change how other code behaves",
    Category.INTROSPECTION: "look into Python's internals",
    Category.FILESYSTEM_DELETE: "delete or move files",
    Category.FILESYSTEM_WRITE: "write files",
    Category.FILESYSTEM_READ: "read files",
    Category.ENVIRONMENT: "read secrets and environment variables",
}
"""What a finding of a category says that the code can do, the worst first."""
_BY_FILE: Final = ("delete", "overwrite", "change", "write", "read")
_SAID_BY_FILES: Final = {
    "write files": {"write", "overwrite", "change"},
    "read files": {"read"},
    "delete or move files": {"delete"},
}
"""What the names of files say more exactly, if there are any that this is done to."""
_READING: Final = frozenset(
    {
        "compile",
        "log",
        "head",
        "diff",
        "status",
        "current_branch",
        "branches",
        "get",
        "show",
        "search",
        "tags",
    }
)
"""Members of a tract that only read."""
_TOLD_ELSEWHERE: Final = ("a computed path", "a computed address", "a command", "code from text")
_FEW, _LENGTH = 2, 40  # names that are said, and characters of each
NOTHING: Final = "No use of files, the network, other programs, tools or the context was found."


def abilities(findings: Iterable[Finding], reach: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return what code can do, as verbs with what they are done to, the worst first.

    Args:
        findings: what the analysis found in it.
        reach: the names in it by kind, as in `advice.Reach`.
    """
    imports = reach.get("imports", frozenset())
    categories = {f.category for f in findings if f.level > RiskLevel.LOW or f.text not in imports}
    files = _files(reach.get("files", frozenset()))
    found = [said for category, said in _BY_CATEGORY.items() if category in categories]
    hosts = sorted(reach.get("hosts", ()))
    if hosts and "?" not in hosts:
        found = [said for said in found if said != "use the network"]
        found.insert(0, f"contact {_few(hosts, 'host')}")
    exact = {entry.partition(":")[0] for entry in reach.get("files", ())}
    found = [said for said in found if not exact & _SAID_BY_FILES.get(said, set())] + files
    tools = sorted(reach.get("tools", ()))
    found += [f"call the {'tool' if len(tools) == 1 else 'tools'} {_few(tools, 'tool')}"] if tools else []
    found += _context({*reach.get("calls", ()), *reach.get("attributes", ())})
    if any(not entry.startswith(_TOLD_ELSEWHERE) for entry in reach.get("unknown", ())):
        found.append("do more than its text tells")
    return tuple(found)


def ability_text(found: Sequence[str]) -> str:
    """Return abilities as a sentence."""
    return f"Can {_listed(found)}." if found else NOTHING


def change_text(before: Sequence[str], now: Sequence[str]) -> str:
    """Return what a new version can do, compared with the one before, as sentences."""
    parts = {
        "New": [one for one in now if one not in before],
        "Unchanged": [one for one in now if one in before],
        "No longer": [one for one in before if one not in now],
    }
    said = [f"{kind}: {_listed(names)}." for kind, names in parts.items() if names]
    return " ".join(said) or NOTHING


def _files(entries: Iterable[str]) -> list[str]:
    """Return what is done to files: by name where there are few, to any file where a path is computed."""
    by_verb: dict[str, list[str]] = {}
    for entry in sorted(entries):
        verb, _, path = entry.partition(":")
        by_verb.setdefault(verb, []).append(path)
    read, there = set(by_verb.get("read", ())), {*by_verb.get("overwrite", ()), *by_verb.get("change", ())}
    by_verb["read"] = sorted(read - there)
    return [_done_to(verb, paths, there, read) for verb in _BY_FILE if (paths := by_verb.get(verb))]


def _done_to(verb: str, paths: Sequence[str], there: set[str], read: set[str]) -> str:
    """Return what is done to files; of those that are `there`, also that they exist, and whether they are read."""
    said = f"{verb} {'any file' if '?' in paths else _few(paths, 'file')}"
    if not there.issuperset(paths):
        return said
    exist, are = ("exist", "are") if len(paths) > 1 else ("exists", "is")
    return f"{said}, which {exist}{f' and {are} read here' if read.issuperset(paths) else ''}"


def _context(names: Iterable[str]) -> list[str]:
    members = {
        name.removeprefix("pending.tract").lstrip(".") for name in names if name.startswith("pending.tract")
    }
    firsts = {member.partition(".")[0].partition("(")[0] for member in members}
    if not members:
        return []
    return ["read the context" if firsts <= _READING else "change the context"]


def _few(names: Sequence[str], word: str) -> str:
    shown = [one_line(name, _LENGTH) for name in names[:_FEW]]
    more = len(names) - len(shown)
    return _listed([*shown, *([f"{more} more {word}{'s' * (more > 1)}"] if more else [])])


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
