"""From dotted names to the rules that ask for them."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tract_jupyter.analysis.rules.base import RULES, Rule
from tract_jupyter.analysis.rules.plugins import load_plugins
from tract_jupyter.analysis.rules.sinks import kinds_of_paths
from tract_jupyter.analysis.tables.effects import EffectsError, derived, load, use

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable

    from tract_jupyter.analysis.findings import RiskLevel

_Hits = tuple[tuple[Rule, "RiskLevel"], ...]
Hits = tuple[tuple[str, Rule, "RiskLevel"], ...]

_BORING = ("Error", "Exception", "Timeout", "Warning")


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, those of other packages too, ordered by code."""
    load_plugins()
    return tuple(RULES[code] for code in sorted(RULES))


@cache
def rules_by_name() -> dict[str, Rule]:
    """Every rule by its name."""
    return {rule.name: rule for rule in all_rules()}


def use_effects(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Have further files say what the calls of libraries do, in this process and in place of those of before.

    Raises:
        EffectsError: A file cannot be read, or says something that does not exist; nothing has changed then.
    """
    use(check_effects(paths))


def check_effects(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Where the files of effects are, if they can be used.

    Raises:
        EffectsError: A file cannot be read, or says something that does not exist.
    """
    if isinstance(paths, str):
        raise EffectsError(f"Give the files of effects as a list: [{paths!r}].")
    files = [str(Path(path).expanduser().absolute()) for path in paths]
    found = load(files)
    unknown = sorted(found.rules() - rules_by_name().keys())
    if unknown:
        raise EffectsError(_unknown("rule", unknown[0], rules_by_name(), "`%tract rules` lists them"))
    odd = sorted(set(found.paths.values()).difference(kinds_of_paths()))
    if odd:
        raise EffectsError(_unknown("kind of path", odd[0], kinds_of_paths(), "docs/analysis.md lists them"))
    return files


def _unknown(what: str, name: str, known: Collection[str], where: str) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"A file of effects names a {what} {name!r}, which does not exist.{hint} {where[0].upper()}{where[1:]}."


@derived
def _index() -> dict[str, _Hits]:
    table: dict[str, list[tuple[Rule, RiskLevel]]] = {}
    for rule in all_rules():
        for symbol, level in rule.symbols.items():
            table.setdefault(symbol, []).append((rule, level))
    return {symbol: tuple(hits) for symbol, hits in table.items()}


@derived
def rules_for(symbol: str) -> _Hits:
    """The rules that ask for a dotted name, with their levels.

    A whole module's entry counts as well, unless the same rule has one for the name itself.
    """
    exact = _index().get(symbol, ())
    if "." not in symbol:
        return exact
    asked = {rule for rule, _ in exact}
    return exact + tuple(hit for hit in _of_module(symbol, _index()) if hit[0] not in asked)


@derived
def asked(names: frozenset[str]) -> Hits:
    """Those of the names that rules ask for, sorted, each with a rule and its level; most values have none."""
    return tuple((name, rule, level) for name in sorted(names) for rule, level in rules_for(name))


def is_boring(symbol: str) -> bool:
    """Whether the name is a constant or an error class, which do nothing by themselves."""
    last = symbol.rpartition(".")[2]
    # SMTP, FFI and CDLL are no constants, AF_INET is.
    constant = last.isupper() and ("_" in last or last in {"PIPE", "STDOUT", "DEVNULL"})
    return constant or last.endswith(_BORING) or ".exceptions" in symbol


def _of_module(symbol: str, index: dict[str, _Hits]) -> _Hits:
    parts = symbol.split(".")
    # Methods of instances are not what "the whole module" means.
    if "()" in symbol or parts[-1].startswith("__") or is_boring(symbol):
        return ()
    for length in range(len(parts) - 1, 0, -1):
        hits = index.get(".".join([*parts[:length], "*"]))
        if hits is not None:
            return hits
    return ()


@derived
def asked_attributes() -> frozenset[str]:
    """The attributes that some rule asks for, whatever they are read from."""
    return frozenset(symbol[2:] for symbol in _index() if symbol.startswith("*."))


@derived
def known_packages() -> frozenset[str]:
    """The packages that some rule knows a part of."""
    return frozenset(name.partition(".")[0] for name in (*_index(), *_modules())) - {"*", "?"}


@derived
def _modules() -> dict[str, tuple[Rule, RiskLevel] | None]:
    return {
        module: None if level is None else (rule, level)
        for rule in all_rules()
        for module, level in rule.modules.items()
    }


def module_level(module: str) -> tuple[Rule, RiskLevel] | None:
    """The rule that asks for a module's import; the closest entry decides, ``os.path`` before ``os``."""
    table = _modules()
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in table:
            return table[prefix]
    return None
