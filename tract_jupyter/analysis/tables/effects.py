"""Effects of library calls as data: the package's TOML files, and files of the user. They are read on first use.

A file may have

* ``[symbols]``: for each rule, by its name, lines ``level owner: name name`` (see `reader`);
* ``[modules]``: for each rule, lines ``level: module module``, whose import alone is a finding;
* ``[keywords]``: for each rule, lines ``level value: keyword keyword``, for all functions;
* ``[sets]``: for each rule, lines ``level owner: member member``, for assignments to attributes and keys;
* ``[[calls]]``: an argument that changes the level of a call, see `ArgumentEffect`;
* ``paths``: lines ``kind owner: name name``, for operations that open a path in an argument;
* ``same``: lines ``name: other other``, for other names of one object, and for results of calls:
  ``acme.Client(): acme.connect() acme.Pool().get()``;
* ``values``: lines ``value: name name``, for results of functions without arguments, and for constants, such as the
  folders of startup files;
* lists of words: ``path_keywords``, ``target_keywords``, ``named_keywords`` (names of arguments with paths),
  ``private_sources`` (functions with private results), ``collecting_hosts`` (addresses that collect the data of
  requests), ``steering_files``, ``steering_modules``, ``steering_folders`` and ``steering_variables`` (they control
  later code),
  ``secret_files``, ``collected`` (objects whose collections have the same name), ``pass_on`` (functions that return
  their first argument), ``databases`` (packages whose objects execute statements).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tract_jupyter.analysis.findings import RiskLevel
from tract_jupyter.analysis.tables import reader
from tract_jupyter.exceptions import TractError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_Function = TypeVar("_Function", bound="Callable[..., Any]")
_Key = TypeVar("_Key")

FOLDER = Path(__file__).parent
NONE = "none"
"""The level for no finding."""


class EffectsError(TractError, ValueError):
    """An unreadable effects file, or one with an unknown name."""


@dataclass(frozen=True, slots=True)
class ArgumentEffect:
    """The effect of an argument on the level of a call.

    Attributes:
        level: The level of a mention, and of a call if no word in `levels` describes the argument; None for no
            finding.
        is_set: True if the file sets the level. Otherwise the level comes from ``[symbols]``.
        keywords: The argument's names.
        position: The argument's position; None if it has only names.
        levels: Words and levels. The first word that describes the argument decides. `rules.arguments` has the words.
        where: The name of another argument, and a word that must describe it. Otherwise the entry does not apply.
    """

    level: RiskLevel | None
    is_set: bool
    keywords: tuple[str, ...]
    position: int | None
    levels: tuple[tuple[str, RiskLevel | None], ...]
    where: tuple[str, str] | None = None


@dataclass
class CallEffects:
    """The contents of all effects files. If two files have the same name, the later one applies."""

    symbols: dict[str, dict[str, RiskLevel]] = field(default_factory=dict)
    modules: dict[str, dict[str, RiskLevel | None]] = field(default_factory=dict)
    keywords: dict[str, dict[tuple[str, str], RiskLevel]] = field(default_factory=dict)
    sets: dict[str, dict[str, RiskLevel]] = field(default_factory=dict)
    calls: dict[tuple[str, str], list[ArgumentEffect]] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    words: dict[str, frozenset[str]] = field(default_factory=dict)

    def rules(self) -> frozenset[str]:
        """Return the names of all rules in the files."""
        named = {rule for _, rule in self.calls}
        named.update(rule for entries in self.keywords.values() for rule, _ in entries)
        named.update(rule for entries in self.sets.values() for rule in entries)
        return frozenset(named.union(self.symbols, self.modules))

    def add(self, data: Mapping[str, Any]) -> None:
        """Add the contents of a file."""
        unknown = data.keys() - _SECTIONS
        if unknown:
            raise ValueError(f"there is no section {min(unknown)!r}; use {', '.join(sorted(_SECTIONS))}")
        for rule, text in data.get("symbols", {}).items():
            self.symbols.setdefault(rule, {}).update(reader.levels(text))
        for rule, text in data.get("modules", {}).items():
            self.modules.setdefault(rule, {}).update(reader.modules(text))
        for rule, text in data.get("keywords", {}).items():
            for keyword, value, level in reader.keywords(text):
                self.keywords.setdefault(keyword, {})[rule, value] = level
        for rule, text in data.get("sets", {}).items():
            for name, level in reader.levels(text).items():
                self.sets.setdefault(name, {})[rule] = level
        self._add_calls(data.get("calls", ()))
        self.paths.update(reader.symbols(data.get("paths", "")))
        self.same.update(reader.aliases(data.get("same", "")))
        self.values.update(reader.aliases(data.get("values", "")))
        for key in _WORDS & data.keys():
            self.words[key] = self.words.get(key, frozenset()) | reader.words(data[key])

    def check(self) -> None:
        """Raise `ValueError` if a call has no level."""
        for (name, rule), calls in self.calls.items():
            known = self.symbols.get(rule, {}).keys() & set(reader.patterns_of(name))
            if not known and not any(call.is_set for call in calls):
                raise ValueError(f"the call {name} of {rule} needs a level")

    def _add_calls(self, entries: Iterable[Mapping[str, Any]]) -> None:
        new: dict[tuple[str, str], list[ArgumentEffect]] = {}
        for entry in entries:
            unknown = entry.keys() - _ENTRY
            if unknown or not {"rule", "names"} <= entry.keys():
                raise ValueError(
                    f"invalid keys of a call: {', '.join(sorted(entry))}. 'rule' and 'names' are required; 'at', "
                    "'level' and 'levels' are optional"
                )
            at = entry.get("at", [])
            if not isinstance(at, list):
                raise TypeError(f"at is a list of an argument's names and its place, not {at!r}")
            where = entry.get("where", ["", ""])
            if not (isinstance(where, list) and len(where) == 2):  # noqa: PLR2004
                raise ValueError(f"where is a list of an argument's name and a word for it, not {where!r}")
            call = ArgumentEffect(
                _level(entry.get("level", NONE)),
                "level" in entry,
                tuple(place for place in at if isinstance(place, str)),
                next((place for place in at if isinstance(place, int)), None),
                tuple((word, _level(level)) for word, level in entry.get("levels", {}).items()),
                tuple(entry["where"]) if "where" in entry else None,
            )
            for name in reader.names(entry["names"]):
                if call.is_set:
                    self.symbols.setdefault(entry["rule"], {}).setdefault(name, call.level or RiskLevel.LOW)
                new.setdefault((name, entry["rule"]), []).append(call)
        self.calls.update(new)


_WORDS = reader.words("""
    path_keywords target_keywords named_keywords collecting_hosts private_sources steering_files steering_variables
    steering_folders steering_modules secret_files collected pass_on databases
""")
_SECTIONS = _WORDS | reader.words("symbols modules keywords sets calls paths same values")
_ENTRY = reader.words("rule names at level levels where")


def _level(name: str) -> RiskLevel | None:
    return None if name == NONE else RiskLevel(name)


_derived: list[Callable[[], None]] = []
_own: list[str] = []


def derived(function: _Function) -> _Function:
    """Cache a function's results until the effects files change (decorator)."""
    remembered = lru_cache(maxsize=16_384)(function)
    _derived.append(remembered.cache_clear)
    return cast("_Function", remembered)


@derived
def effects() -> CallEffects:
    """Return the effects of all files: the package's files, then the files passed to `use`."""
    return load(_own)


@derived
def of_keyword(name: str) -> tuple[tuple[tuple[str, str], RiskLevel], ...]:
    """Return the entries of an argument's name: rule and word, and the level."""
    return _matching(effects().keywords, name)


@derived
def of_set(name: str) -> tuple[tuple[str, RiskLevel], ...]:
    """Return the entries of an assigned name: rule and level."""
    return _matching(effects().sets, name)


def _matching(known: Mapping[str, Mapping[_Key, RiskLevel]], name: str) -> tuple[tuple[_Key, RiskLevel], ...]:
    """Return the entries of a name, and of the matching patterns (``*_command``)."""
    matching = (
        entries for pattern, entries in known.items() if "*" in pattern and fnmatchcase(name, pattern)
    )
    return tuple(pair for entries in (known.get(name, {}), *matching) for pair in entries.items())


def own_effects() -> tuple[str, ...]:
    """Return the files passed to `use`."""
    return tuple(_own)


def load(paths: Sequence[str]) -> CallEffects:
    """Read the package's files, then other files."""
    contents = CallEffects()
    for path in sorted(FOLDER.glob("*.toml")):
        contents.add(tomllib.loads(path.read_text(encoding="utf-8")))
    for name in paths:
        try:
            contents.add(tomllib.loads(Path(name).read_text(encoding="utf-8")))
            contents.check()
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise EffectsError(f"The effects file {name} cannot be used: {error}.") from None
    return contents


def use(paths: Iterable[str]) -> None:
    """Use these files in this process, in addition to the package's files. Replace earlier files."""
    files = list(paths)
    if files == _own == []:
        return
    _own[:] = files
    for forget in _derived:
        forget()
