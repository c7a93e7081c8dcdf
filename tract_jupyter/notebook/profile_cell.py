"""The `%%tract_profile` cell: the profile of a run as YAML, with errors by line, and completion.

No code of the cell runs, and nothing is sent to a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import yaml

from tract_jupyter.exceptions import OperationError, ProfileError, nearest
from tract_jupyter.models import brief_repr
from tract_jupyter.notebook.cell_syntax import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from tract_jupyter.notebook.commands.profiles import ProfileView
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.runs import Operation
    from tract_jupyter.runs.profile import OperationProfile

PROFILE_KEYS = ("description", "enabled", "execution_mode", "session_id", "operations")
_STEP = 10  # the difference of default orders
_WHERE = re.compile(r"operation '(?P<id>[^']*)'(?:, (?:(?:params|config)\.)?(?P<field>\w+))?")
_TYPED = {  # the names of fields in the cell
    "depends_on": ("after", "only_if"), "run_conditions": ("only_if",), "hooks": ("when",), "artifact": ("tag", "into"),
    "template": ("text",), "prompt": ("text",), "output_contract": ("outputs",),
}  # fmt: skip
_Path = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class ProfileCell:
    """The parsed body of a cell, and the line of each key."""

    data: dict[str, Any]
    lines: Mapping[_Path, int]

    @classmethod
    def parse(cls, body: str) -> ProfileCell:
        """Read YAML. The line of the magic is line 1."""
        text = "\n" + body
        data = parse_yaml(text, "description and operations")
        return cls(data, dict(_key_lines(yaml.compose(text, Loader=yaml.SafeLoader), ())))

    def profile(self, name: str, functions: Collection[str]) -> OperationProfile:
        """Return the checked profile."""
        from tract_jupyter.runs.profile import OperationProfile

        problems = self._unknown((), PROFILE_KEYS)
        entries = self.data.get("operations") or {}
        if not isinstance(entries, dict):
            self._refuse(
                [(("operations",), "operations must be a mapping of names: NAME: {kind: ..., text: ...}")]
            )
        operations, parsed = [], []
        for place, (key, fields) in enumerate(entries.items(), 1):
            operation, wrong = self._operation(str(key), fields, place, functions)
            operations += [operation] if operation is not None else []
            parsed += wrong
        if problems or parsed:
            self._refuse([*problems, *parsed])
        fields = {key: value for key, value in self.data.items() if key in PROFILE_KEYS[:-1]}
        return self.placed(lambda: OperationProfile.of(name, operations, **fields))

    def placed(self, make: Callable[[], T]) -> T:
        """Call a function that may reject the profile, and return its result."""
        try:
            return make()
        except ProfileError as error:
            self._refuse(self._of(error))

    def _operation(
        self, key: str, fields: Any, place: int, functions: Collection[str]
    ) -> tuple[Operation | None, list[tuple[_Path, str]]]:
        from tract_jupyter.runs.kinds import KindRegistry
        from tract_jupyter.runs.profile import field_names, run_operation

        path = ("operations", key)
        if not isinstance(fields, dict):
            return None, [
                (path, f"operation {key!r} has fields, such as text: ..., not {brief_repr(fields)}")
            ]
        kind, kinds = fields.get("kind", "template"), KindRegistry()
        if not isinstance(kind, str) or kind not in kinds:
            guess = nearest(kind, kinds) if isinstance(kind, str) else ""
            message = f"there is no kind {kind!r}.{guess} There are {', '.join(kinds)}"
            return None, [((*path, "kind"), message)]
        names = field_names(kind)
        problems = self._unknown(path, names) if hasattr(kinds[kind], "parameters") else []
        named = fields.get("function")
        if kind == "compute" and isinstance(named, str) and named not in functions:
            guess = nearest(named, functions)
            message = f"no function {named!r} is registered.{guess} @tract.functions.register does it, before this cell"
            problems.append(((*path, "function"), message))
        if problems:
            return None, problems
        try:
            return run_operation(key, **{"order": _STEP * place, **fields}), []
        except ProfileError as error:
            return None, self._of(error)

    def _unknown(self, path: _Path, names: Collection[str]) -> list[tuple[_Path, str]]:
        data: Any = self.data
        for key in path:
            data = data[key]
        return [
            ((*path, str(key)), f"there is no field {str(key)!r}.{nearest(str(key), names)}")
            for key in data
            if _snake(str(key)) not in names
        ]

    def _of(self, error: ProfileError) -> list[tuple[_Path, str]]:
        problems = []
        for _, where, message in error.problems:
            problems.append((self._path(where, message), f"{where}: {message}" if where else message))
        return problems

    def _path(self, where: str, message: str) -> _Path:
        """Return the path of the key that a problem is about."""
        match = _WHERE.search(where)
        if match is None:
            return ()
        path, field = ("operations", match["id"]), _snake(match["field"] or "")
        if field == "params":
            field = _snake(message.partition(":")[0])
        typed = [name for name in (field, *_TYPED.get(field, ())) if (*path, name) in self.lines]
        return (*path, *typed[:1])

    def _refuse(self, problems: Iterable[tuple[_Path, str]]) -> NoReturn:
        messages = sorted((self._line(path), message) for path, message in problems)
        raise OperationError(
            "\n".join(f"line {line}: {message}" for line, message in dict.fromkeys(messages))
        )

    def _line(self, path: _Path) -> int:
        """Return the line of a key, or the line of its closest parent."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def _key_lines(node: Any, path: _Path) -> Iterable[tuple[_Path, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            key_path = (*path, str(key.value))
            yield key_path, key.start_mark.line + 1
            yield (*path, _snake(str(key.value))), key.start_mark.line + 1
            yield from _key_lines(value, key_path)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match[1].lower()}", name)


def save_profile(
    notebook: NotebookSession, name: str, body: str, *, activate: bool, check: bool
) -> ProfileView:
    """Check a profile, save it unless `check` is true, and return its view."""
    from tract_jupyter.notebook.commands.profiles import saved_view, unsaved_view
    from tract_jupyter.runs import FUNCTIONS

    tract = notebook.tract
    cell = ProfileCell.parse(body)
    profile = cell.profile(name, {**FUNCTIONS, **tract.functions})
    if check:
        return unsaved_view(profile, "The profile is valid. Nothing was saved.")
    cell.placed(lambda: tract.profiles.save(profile, activate=activate))
    note = "Saved and active." if activate else f"Saved. %tract profile {name} --activate uses it."
    return saved_view(tract, name, note)


# --- completion


def body_words(notebook: NotebookSession, above: list[str], line: str) -> list[tuple[str, str]]:
    """Return the words that may follow in a line of the cell, each with its kind.

    `above` is without the line of the magic, and `line` ends at the cursor.
    """
    key, colon, _ = line.partition(":")
    if colon:
        return [(word, "value") for word in _values(notebook, key.strip(), above)]
    depth = len(line) - len(line.lstrip())
    if not depth:
        used = {line_above.partition(":")[0] for line_above in above}
        return [(f"{name}: ", "field") for name in PROFILE_KEYS if name not in used]
    siblings, is_field = _siblings(above, depth)
    if not is_field:
        return []
    from tract_jupyter.runs.profile import field_names

    kind = siblings.get("kind", "template")
    return [(f"{name}: ", "field") for name in field_names(kind) if name not in siblings]


def _siblings(above: list[str], depth: int) -> tuple[dict[str, str], bool]:
    """Return the fields above in the same operation, and True if the line belongs to an operation."""
    siblings: dict[str, str] = {}
    for line_above in reversed(above):
        if not line_above.strip():
            continue
        indent = len(line_above) - len(line_above.lstrip())
        if indent < depth:
            return siblings, indent > 0 and line_above.rstrip().endswith(":")
        key, colon, value = line_above.strip().partition(":")
        if indent == depth and colon:
            siblings[key] = value.strip()
    return siblings, False


def _values(notebook: NotebookSession, key: str, above: list[str]) -> Iterable[str]:
    from tract_jupyter.runs import FUNCTIONS, RunTrigger
    from tract_jupyter.runs.kinds import KindRegistry
    from tract_jupyter.runs.profile import PLACES

    if key == "kind":
        return KindRegistry()
    if key == "function":
        return sorted({**FUNCTIONS, **notebook.tract.functions})
    if key == "tool":
        return notebook.tract.executor.tools()
    if key == "provider_ref":
        return notebook.tract.models
    if key == "after":
        inner = [item for item in above if re.fullmatch(r" +[\w-]+:\s*", item)]
        return [item.strip().rstrip(":") for item in inner]
    return {
        "into": PLACES,
        "when": ("before", "after", "both"),
        "triggers": tuple(item.value for item in RunTrigger),
        "execution_mode": ("concurrent", "sequential"),
        **dict.fromkeys(("required", "enabled", "keep"), ("true", "false")),
    }.get(key, ())
