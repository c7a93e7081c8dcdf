"""Rules about functions that no table describes. Their names and arguments suggest the effect.

The check reads the words of the name (``drop_table``, ``loadPickle``) and the texts in the arguments: shell commands,
addresses with a body, paths outside the workspace, names of functions.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.paths import PathLocation
from tract_jupyter.analysis.rules.arguments import carries, is_own_host, suffix_of
from tract_jupyter.analysis.rules.base import GUESS, HIGH, LIKELY, MEDIUM, RULES
from tract_jupyter.analysis.rules.lookup import asked_attributes, rules_for
from tract_jupyter.analysis.source import last_name
from tract_jupyter.analysis.tables import known_modules
from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import HOLE, MAX_NAME, UNKNOWN, canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.values import Value
    from tract_jupyter.analysis.view import CodeView


@dataclass(frozen=True, slots=True)
class OtherCall:
    """A call of a function that no table describes.

    Attributes:
        node: The call.
        words: The words of the function's name, in lower case.
        texts: The texts in the arguments. A list of words also counts as one text.
    """

    node: ast.Call
    words: frozenset[str]
    texts: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The function's source text, shortened."""
        return ast.unparse(self.node.func)[:80]

    def keyword(self, *names: str) -> ast.expr | None:
        """Return the argument of one of these names."""
        return next((keyword.value for keyword in self.node.keywords if keyword.arg in names), None)


_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Split a name into its words, in lower case: ``drop_table``, ``create_marketOrder``."""
    return tuple(word.lower() for word in _WORD.findall(name[:MAX_NAME]))


_HANDLES_TEXT = words("""
    print input repr str format append add insert extend join split rsplit splitlines partition replace startswith
    endswith find rfind index count strip lstrip rstrip lower upper encode update setdefault pop discard contains
    match fullmatch search sub findall finditer compile info debug warning warn error exception critical log isin eq
    title suptitle caption label xlabel ylabel annotate text legend markdown header subheader code display show
    dedent escape quote message user system assistant chat ask prompt complete predict tokenize describe comment
    note heading paragraph isinstance raise fail tokenise token translate ignore exclude skip filter
""")
"""Words in the names of functions that store, show, search or discuss a text, but do not execute it."""

_COMPUTES = (
    known_modules.SCIENCE
    | known_modules.LEARNING
    | known_modules.PICTURES
    | words(
        "numpy pandas polars pyarrow xarray sqlparse sqlglot textwrap tabulate rich IPython bs4 lxml regex nltk"
    )
)
"""Packages that only compute or draw, except for their entries in the tables."""


def other_calls(view: CodeView) -> tuple[OtherCall, ...]:
    """Return the calls of functions that no table describes. Leave out functions that only handle texts."""
    return view.look(_find, view)


def _find(view: CodeView) -> tuple[OtherCall, ...]:
    calls = []
    for node in view.deadline.watched(view.of(ast.Call)):
        name_words = frozenset(words_of(last_name(node.func)))
        if name_words and not _is_inert(name_words, node.func, view):
            calls.append(OtherCall(node, name_words, tuple(dict.fromkeys(_texts(node, view)))))
    return tuple(calls)


def _is_inert(name_words: frozenset[str], function: ast.expr, view: CodeView) -> bool:
    if not name_words.isdisjoint(_HANDLES_TEXT):
        return True
    value = view.resolver.value(function)
    if value.functions or (isinstance(function, ast.Name) and function.id in view.program.classes):
        return True  # the analyzer reads the user's own function
    if isinstance(function, ast.Attribute) and view.resolver.value(function.value).consts:
        owner = view.resolver.value(function.value)
        return not owner.names
    return bool(value.names) and all(map(_is_described, value.names))


def _is_described(name: str) -> bool:
    if "client" in words_of(name.partition("()")[0].rpartition(".")[2]) or name.startswith("openai."):
        return False
    package = name.partition(".")[0].partition("(")[0]
    return package in _COMPUTES or package in sys.stdlib_module_names or package in {"tools", "tract_jupyter"}


_MAX_TEXTS = 32
_DESCRIBES = words(
    "ignore exclude excludes skip description help title label comment doc docstring message reason"
)
"""Names of arguments that describe or exclude something."""


def _texts(node: ast.Call, view: CodeView) -> Iterator[str]:
    named = (keyword.value for keyword in node.keywords if keyword.arg not in _DESCRIBES)
    for argument in (*node.args, *named):
        value = view.resolver.value(argument)
        if value is UNKNOWN:
            continue
        yield from value.texts
        for entry in (member for _, member in (value.entries or ())[:_MAX_TEXTS]):
            yield from entry.texts
        yield from _of_items(value)


def _of_items(value: Value) -> Iterator[str]:
    if not value.items:
        return
    items = [item.texts[0] if item.texts else HOLE for item in value.items[:_MAX_TEXTS]]
    yield from items
    if len(items) > 1:
        yield " ".join(items)


def findings(view: CodeView) -> Iterator[Finding]:
    """Yield the findings about calls of functions that no table describes."""
    for call in other_calls(view):
        for look in _LOOKS:
            yield from look(call, view)
    yield from _configured(view)


# shell commands

_RUNS = words(
    "run exec execute shell system cmd command bash sh spawn popen call invoke launch start remote ssh process"
)
_COMMAND = re.compile(
    r"\s{0,9}(?:sudo\s|rm\s+-|rm\s+[~/.*]|rmdir\s|mkfs|dd\s+if=|shutdown\b|reboot\b|halt\b|chmod\s+[-+0-7a-z]|chown\s|kill(?:all)?\s+-"
    r"|pkill\s|nc\s+-|ncat\s|curl\s+(?:-|http)|wget\s+(?:-|http)|scp\s|rsync\s+-|ssh\s+\S|bash\s+-c|sh\s+-c|eval\s+[\"$]|crontab\s"
    r"|printenv\b|git\s+(?:push|reset|clean|config|clone)\b|pip3?\s+install|conda\s+install|apt(?:-get)?\s+(?:-|install|remove)"
    r"|docker\s+(?:run|rm|exec|system)\b|kubectl\s+(?:delete|exec|apply)\b|aws\s+\w+\s+\w|gcloud\s+\w|az\s+\w+\s+\w|terraform\s+(?:destroy|apply)\b"
    r"|systemctl\s|iptables\s|useradd\s|usermod\s|passwd\s|truncate\s+-s|shred\s|:\(\)\s*\{|echo\s[^|>\n]{0,999}(?:>|\|)|cat\s+[~/.])"
)
_LINE = re.compile(r"\s{0,9}[\w./~-]{1,99}(?:\s+\S[^\n]{0,999})?$")
_SHELL_SIGN = re.compile(r"\s-{1,2}\w|[|;&<>]|\s[~/]\w")
_PIPED = re.compile(
    r"\|\s{0,9}(?:sudo\s+)?(?:ba|z)?sh\b|(?:&&|;|\|)\s{0,9}(?:sudo\s|rm\s+-|curl\s|wget\s|nc\s)|\$\((?:curl|wget)\s|>\s{0,9}/(?:etc|dev/sd)"
)


def is_command(text: str) -> bool:
    """Return True if a text is a shell command that is a finding in every call."""
    return bool(_COMMAND.match(text) or _PIPED.search(text))


def _is_line(text: str) -> bool:
    return bool(_LINE.match(text) and _SHELL_SIGN.search(text[:1000]) and not _QUERY.match(text))


_QUERY = re.compile(
    r"(?i)\s{0,9}(?:match|optional\s+match|unwind|merge|select|with|return|insert|update|delete|create|call|show|describe|explain|profile"
    r"|from\s*\(|prefix|ask|construct|fields|source|use|let|for|g\.V)\b"
)
"""A statement of a query language. Its arrows and pipes do not indicate a shell."""


def _runs_command(call: OtherCall, view: CodeView) -> Iterator[Finding]:
    looks = (is_command, _is_line) if not call.words.isdisjoint(_RUNS) else (is_command,)
    if any(view.look(look, text) for text in call.texts for look in looks):
        yield RULES["TJ101"].finding(
            view, call.node.func, f"{call.shown} gets a shell command.", HIGH, LIKELY
        )


# the network

_SENDS = words("""
    post put patch send upload publish push submit notify emit transmit report forward sync share export deliver
    webhook ingest exfiltrate store save write dump log
""")
_BODIES = words("data json body payload content files file message attachment attachments")
_ADDRESS = re.compile(
    r"(?i)(?:https?|ftps?|sftp|wss?|tcp|udp|smtp|scp|ssh|s3|gs|azure|redis|amqp|kafka|mqtt)://\S"
)


def _sends(call: OtherCall, view: CodeView) -> Iterator[Finding]:
    if not any(view.look(_ADDRESS.match, text) and not is_own_host(text) for text in call.texts):
        return
    count = len(call.node.args) + len(call.node.keywords)
    has_body = call.keyword(*_BODIES) is not None or (count > 1 and not call.words.isdisjoint(_SENDS))
    if has_body or carries(call.node, view):
        reason = f"{call.shown} sends data to another machine."
        yield RULES["TJ301"].finding(view, call.node.func, reason, HIGH, LIKELY)


# files

_REMOVES = words("rm remove delete del unlink rmtree rmdir purge wipe erase destroy trash clean clear prune")
_OPENS = words("""
    load read open parse import ingest get fetch scan ls list walk copy cp mv move upload attach add include source
    connect login auth key cat head tail from ingest index zip tar pack backup mount watch
""")
_SAVES = words(
    "save write dump export store put create download extract unpack sync link install restore append touch mkdir"
)
_RECURSIVE = ("recursive", "recurse", "r", "force_recursive", "tree")
_OUTSIDE = re.compile(
    r"~[\w-]{0,99}(?:/|$)|/(?:etc|home|root|Users|var|usr|proc|sys|dev|boot|opt|srv|mnt|bin|sbin|Library)/"
    r"|[A-Za-z]:\\|\$\{?HOME"
)


_PATH_AND_FLAG = 2
"""The arguments of ``fs.delete(path, True)``."""


def _removes(call: OtherCall, view: CodeView) -> Iterator[Finding]:
    if call.words.isdisjoint(_REMOVES):
        return
    recursive = call.keyword(*_RECURSIVE) or (
        call.node.args[-1] if len(call.node.args) == _PATH_AND_FLAG else None
    )
    places = {
        view.workspace.locate(text)
        for text in call.texts
        if _is_path(text, view) or text.startswith(("/", "~"))
    }
    outside = not places.isdisjoint({PathLocation.OUTSIDE, PathLocation.SECRET, PathLocation.PROTECTED})
    if isinstance(recursive, ast.Constant) and recursive.value is True:
        reason = f"{call.shown} removes a whole tree."
        yield RULES["TJ203"].finding(view, call.node.func, reason, HIGH, LIKELY)
    elif outside:
        reason = f"{call.shown} removes a path outside the workspace."
        yield RULES["TJ203"].finding(
            view, call.node.func, reason, MEDIUM if "remove" in call.words else HIGH, LIKELY
        )


def _is_path(text: str, view: CodeView) -> bool:
    return len(text) <= MAX_NAME and "\n" not in text and bool(view.look(_OUTSIDE.match, text))


def _opens(call: OtherCall, view: CodeView) -> Iterator[Finding]:
    if any(map(rules_for, view.resolver.value(call.node.func).names)):
        return  # a table describes it
    saves = not call.words.isdisjoint(_SAVES)
    for text in call.texts:
        if len(text) > MAX_NAME or "\n" in text or " " in text.strip():
            continue
        place = view.workspace.locate(text)
        if place is PathLocation.SECRET and _names_secret(text, call):
            reason = f"{call.shown} gets {place.value}."
            yield RULES["TJ205"].finding(view, call.node.func, reason, HIGH, LIKELY, Category.FILESYSTEM_READ)
        elif (
            place is PathLocation.OUTSIDE
            and _is_path(text, view)
            and (saves or not call.words.isdisjoint(_OPENS))
        ):
            view.external.append(text)
            category = Category.FILESYSTEM_WRITE if saves else Category.FILESYSTEM_READ
            reason = f"{call.shown} gets {place.value}."
            yield RULES["TJ204"].finding(view, call.node.func, reason, HIGH, LIKELY, category)


_BARE = words(
    "load read open parse import upload attach connect login auth save write copy cp mv move backup"
)


def _names_secret(text: str, call: OtherCall) -> bool:
    """Return True if a text is a path: ``conf/.env``, or ``server.key`` for a function that opens files."""
    return "/" in text or text.startswith(".") or not call.words.isdisjoint(_BARE)


# what is destroyed

_DROPS = words("drop terminate destroy wipe erase nuke purge delete remove truncate uninstall revoke kill")
_STRONG = words("wipe nuke purge")
_EMPTIES = words("drop truncate")
_ENDS = words("terminate destroy wipe nuke purge")
_STORES = words("""
    table tables database databases db schema schemas collection collections keyspace bucket buckets container
    containers volume volumes disk disks instance instances cluster clusters stack stacks repo repos repository
    repositories branch account accounts tenant project projects workspace workspaces topic topics stream streams
    queue queues namespace namespaces pod pods deployment deployments service services vm vms server servers image
    images snapshot snapshots backup backups secret secrets blob blobs object objects file files folder folders
    directory directories dir tree users user group groups role roles policy policies zone domain network
    function functions endpoint endpoints subscription subscriptions resource resources records record documents
    dataset datasets model models experiment experiments worker workers process processes job
    jobs session sessions everything all many
""")
_WEAK = words("""
    object objects record records documents image images function functions user users group groups file files service
    services resource resources network domain zone stream tree all many branch policy role roles policies volume
    container containers snapshot account accounts db server servers dataset datasets model models experiment
    experiments worker workers process processes job jobs session sessions
""")
"""Words that also occur in the names of functions that only compute: ``remove_objects(mask)``."""


def _destroys(call: OtherCall, view: CodeView) -> Iterator[Finding]:
    level = _destroying(call)
    if level is None or level < HIGH:
        level = _destroying_member(call, view) or level
    if level is not None:
        reason = f"{call.shown} destroys something, by its name."
        yield RULES["TJ203"].finding(view, call.node.func, reason, level, GUESS)


def _destroying(call: OtherCall) -> RiskLevel | None:
    name = words_of(last_name(call.node.func))
    verb, *rest = name
    if verb not in _DROPS or last_name(call.node.func) in asked_attributes():
        return None
    method = isinstance(call.node.func, ast.Attribute)
    force = call.keyword("force")
    if method and isinstance(force, ast.Constant) and force.value is True:
        return HIGH
    things = _STORES.intersection(rest)
    if things:
        sure = HIGH if method else MEDIUM
        weak = MEDIUM if method else None
        return HIGH if not things <= _WEAK else weak if verb == "remove" else sure
    if not method:
        return None
    arguments = call.node.args or call.node.keywords
    if not rest and (verb in _STRONG or (verb in _EMPTIES and not arguments)):
        return HIGH
    return MEDIUM if verb in _ENDS or (verb == "delete" and rest) else None


_REFS = words(
    "branches local reference references ref refs tag tags release releases remote remotes key keys item items"
)
_NO_STORES = words(
    "tree stream streams image images function functions object objects model models dir everything all many file"
)


def _destroying_member(call: OtherCall, view: CodeView) -> RiskLevel | None:
    """Return the level of ``repo.references.delete(x)``. The object before the verb names the target."""
    function = call.node.func
    if not isinstance(function, ast.Attribute):
        return None
    verb, *rest = words_of(function.attr)
    in_loop = view.in_loop(call.node)
    if not (call.node.args or call.node.keywords):
        owner_words = {word for name in view.resolver.value(function.value).names for word in words_of(name)}
        destroys = in_loop or not owner_words.isdisjoint(_STORES - _WEAK)
        return HIGH if verb == "delete" and not rest and destroys else None
    if verb not in {"delete", "destroy", "terminate"}:
        return None
    if rest:
        return HIGH if in_loop and _NO_STORES.isdisjoint(rest) else None
    owner = function.value.func if isinstance(function.value, ast.Call) else function.value
    things = (_STORES | _REFS).intersection(words_of(last_name(owner))) - _NO_STORES
    if not things or not isinstance(owner, ast.Attribute):
        return None
    return HIGH if in_loop or not things <= _WEAK | _REFS else MEDIUM


# formats that run code, and functions named by text

_PICKLES = words("pyobj pickle pickled pickles pkl unpickle unpickled joblib dill cloudpickle marshal")
_LOADS = words("load loads read restore decode deserialize parse import unpickle")
_READS = _LOADS | words("from open get fetch recv receive")
_PICKLED = frozenset({".pkl", ".pickle", ".dill", ".joblib", ".p", ".pck", ".cloudpickle", ".marshal"})


def _unpickles(call: OtherCall, view: CodeView) -> Iterator[Finding]:
    named = not call.words.isdisjoint(_PICKLES) and not call.words.isdisjoint(_READS)
    pickled = any(suffix_of(text) in _PICKLED for text in call.texts if len(text) <= MAX_NAME)
    if named or (pickled and not call.words.isdisjoint(_LOADS)):
        rule = RULES["TJ108"]
        yield rule.finding(view, call.node.func, f"{call.shown} {rule.effect}.", HIGH, LIKELY)


_DOTTED = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*){1,9}")
_GRAVE = frozenset({"TJ101", "TJ102", "TJ106", "TJ107", "TJ108", "TJ203"})
_MOCKS = words("patch mock stub spy logger")


def names_effect(text: str) -> bool:
    """Return True if a text is the dotted name of a function that runs, loads or destroys something."""
    if len(text) > MAX_NAME or _DOTTED.fullmatch(text) is None:
        return False
    name = canonical(text.replace(":", "."))
    return any(rule.code in _GRAVE and level >= HIGH for rule, level in rules_for(name))


_IMPORTS = words("import locate")
_BY_NAME = words("string object item class attr attribute symbol callable dotted")
_NAMED = frozenset({"symbol", "by", "name"})


def _imports_by_name(call: OtherCall, view: CodeView) -> Iterator[Finding]:
    rule = RULES["TJ401"]
    if call.words.isdisjoint(_MOCKS) and any(view.look(names_effect, text) for text in call.texts):
        reason = f"{call.shown} gets the name of a dangerous function."
        yield rule.finding(view, call.node.func, reason, HIGH, LIKELY)
    elif call.words >= _NAMED or (call.words & _IMPORTS and call.words & _BY_NAME):
        level = MEDIUM if call.texts and HOLE not in "".join(call.texts[:1]) else HIGH
        yield rule.finding(view, call.node.func, f"{call.shown} {rule.effect}.", level, LIKELY)


_FACTORIES = words(
    "() _target_ class_path class cls factory callable func function handler import target entry_point task hook"
)


def _configured(view: CodeView) -> Iterator[Finding]:
    """Yield the findings about dictionaries that name a function for other code to call."""
    for display in view.deadline.watched(view.of(ast.Dict)):
        for key, value in zip(display.keys, display.values, strict=True):
            named = isinstance(key, ast.Constant) and key.value in _FACTORIES
            if named and any(view.look(names_effect, text) for text in view.resolver.value(value).texts):
                reason = "The entry names a dangerous function, for a library to call."
                yield RULES["TJ110"].finding(view, value, reason, HIGH, LIKELY)


_LOOKS = (_runs_command, _sends, _removes, _opens, _destroys, _unpickles, _imports_by_name)
