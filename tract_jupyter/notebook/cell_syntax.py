"""Parse the body of a `%%tract_operation` cell into a spec. No code of the cell is executed.

In a Python body, the docstring is the description, annotated assignments are fields, and functions are actions::

    '''Verify source URLs.'''
    urls: Annotated[list[str], "URLs to verify"]
    note: Annotated[str, "For people", "volatile"] = ""     # standing approvals ignore it
    fires_on = {"moment": "commit", "tokens": 8000, "fields": {"urls": []}}     # fires as a policy
    two_stage = True                                        # a model writes guidance first
    verified: bool = False

    def verify(pending, strict: bool = False):
        '''Check that all URLs are in the context.'''
        ...

The line of `%tract_fire` is `NAME field=value ... --fields {...} --review`. A value is a Python literal, JSON, `$name`
for a variable, or a bare word. Expressions are not evaluated.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import tokenize
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import yaml

from tract_jupyter.exceptions import OperationError, SpecError, nearest
from tract_jupyter.models import LONGEST_YAML, twice_in, unique_object
from tract_jupyter.operations import (
    ActionDef,
    FiringCondition,
    OperationSpec,
    check_code,
    check_spec,
    lines_inside_strings,
    spec_from_dict,
)
from tract_jupyter.review import split_words

if TYPE_CHECKING:
    from collections.abc import Mapping


_VOLATILE = "volatile"
"""The mark of a field that standing approvals and recorded decisions ignore. It follows the description."""
_FIRES_ON, _TWO_STAGE = "fires_on", "two_stage"
"""The settings, which have no type: the condition of automatic firing, and the flag of two stages."""
_ALLOWED = "a docstring, fields (name: type = value) and functions"
_OPERATION = "name, description, fields and actions"


@dataclass(frozen=True)
class ParsedCell:
    """A spec, with the cell line on which the code of each action starts."""

    spec: OperationSpec
    first_lines: dict[str, int] = field(default_factory=dict)

    def in_cell(self, error: SpecError) -> SpecError:
        """Return the error with the line of the cell instead of the line of the action."""
        if error.line is None or error.action not in self.first_lines:
            return error
        return SpecError(
            f"action {error.action!r}: {error.message}", line=self.first_lines[error.action] + error.line - 1
        )

    def checked(self) -> OperationSpec:
        """Return the checked spec."""
        try:
            spec = check_spec(self.spec)
            for action in spec.actions.values():
                check_code(action)
        except SpecError as error:
            raise self.in_cell(error) from None
        return spec

    def with_options(self, *, ask: bool, sandbox: bool) -> ParsedCell:
        """Return the definition with `--ask` and `--sandbox` of the first line applied."""
        spec = replace(self.spec, unhandled="ask") if ask else self.spec
        if sandbox:
            actions = {n: replace(action, isolation="sandbox") for n, action in spec.actions.items()}
            spec = replace(spec, actions=actions)
        return replace(self, spec=spec)


_EMPTY = (
    "the cell defines nothing: write a docstring, fields ('urls: list[str]') and actions ('def check(pending): ...') "
    "below its first line"
)


def parse_python(name: str, text: str) -> ParsedCell:
    """Parse a Python body.

    Raises:
        SpecError: the body has a syntax error, or a statement other than a docstring, a field and a function.
    """
    tree = _parse(text)
    if not tree.body:
        raise SpecError(_EMPTY)
    lines = list(io.StringIO(text, newline=None))  # like Python; `splitlines` also splits within strings
    description = ""
    fields: dict[str, dict[str, Any]] = {}
    actions: dict[str, ActionDef] = {}
    first_lines: dict[str, int] = {}
    settings: dict[str, Any] = {}
    for position, node in enumerate(tree.body):
        if position == 0 and _docstring(node) is not None:
            description = inspect.cleandoc(_docstring(node) or "")
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in {_FIRES_ON, _TWO_STAGE}:
            name_of_setting = ast.unparse(node.targets[0])
            if name_of_setting in settings:
                raise SpecError(f"duplicate {name_of_setting!r}", line=node.lineno)
            settings[name_of_setting] = _condition(node) if name_of_setting == _FIRES_ON else _flag(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            _refuse_second(fields, node.target.id, node)
            fields[node.target.id] = _field(node)
        elif isinstance(node, ast.FunctionDef):
            _refuse_second(actions, node.name, node)
            actions[node.name], first_lines[node.name] = _action(node, lines)
        else:
            _refuse(node)
    spec = OperationSpec(name, description, fields, actions, **settings)
    return ParsedCell(spec, first_lines)


def parse_json(text: str) -> dict[str, Any]:
    """Parse a JSON body."""
    try:
        data = json.loads(text, object_pairs_hook=unique_object)
    except json.JSONDecodeError as error:
        raise SpecError(f"not valid JSON: {error.msg}", line=error.lineno) from None
    except ValueError as error:
        raise SpecError(str(error)) from None
    except RecursionError:
        raise SpecError("the JSON is nested too deeply") from None
    return _mapping(data, "JSON")


def parse_yaml(text: str, holds: str = _OPERATION) -> dict[str, Any]:
    """Parse a YAML body. It contains plain data only, without tags and aliases."""
    if len(text) > LONGEST_YAML:
        raise SpecError(
            f"the YAML has {len(text):,} characters, but the limit is {LONGEST_YAML:,}. "
            "Shorten it, or write it in Python"
        )
    try:
        data = yaml.load(text, Loader=_PlainLoader)  # noqa: S506 # derives from SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise SpecError(f"not valid YAML: {error.problem}", line=mark.line + 1 if mark else None) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SpecError(f"not valid YAML: {error}") from None
    return _mapping(data, "YAML", holds)


def parse_cell(name: str, text: str, form: str) -> ParsedCell:
    """Parse a body in the form `python`, `json` or `yaml`. JSON and YAML may contain the name instead.

    Raises:
        SpecError: the body is not valid, or has another name.
    """
    if form == "python":
        if not name:
            raise SpecError("name the operation: %%tract_operation citation_check")
        return parse_python(name, text)
    if not text.strip():
        raise SpecError(
            f"the cell defines nothing: write the operation as {form.upper()} below its first line"
        )
    data = parse_json(text) if form == "json" else parse_yaml(text)
    if name and data.setdefault("name", name) != name:
        raise SpecError(f"the cell's first line names {name!r}, its body {data['name']!r}; use one name")
    return ParsedCell(spec_from_dict(data))


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        source = (error.text or "").strip()
        raise SpecError(f"{error.msg}{f': {source[:80]}' if source else ''}", line=error.lineno) from None
    except UnicodeEncodeError:
        raise SpecError("the cell holds a lone surrogate, which is not valid Unicode") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SpecError(
            f"the cell cannot be parsed: {str(error) or 'its code is nested too deeply'}"
        ) from None


def _field(node: ast.AnnAssign) -> dict[str, Any]:
    kind, *texts = _annotation(node.annotation)
    definition: dict[str, Any] = {"type": kind}
    if texts and texts[0]:
        definition["description"] = texts[0]
    if _VOLATILE in texts[1:]:
        definition["volatile"] = True
    # as in Python: a field without a default is required
    definition |= {"required": True} if node.value is None else {"default": _literal(node.value)}
    return definition


def _condition(node: ast.Assign) -> FiringCondition:
    try:
        return FiringCondition.from_dict(_literal(node.value))
    except SpecError as error:
        raise SpecError(error.message, line=node.lineno) from None


def _flag(node: ast.Assign) -> bool:
    value = _literal(node.value)
    if not isinstance(value, bool):
        raise SpecError(
            f"{_TWO_STAGE} is True or False, not {ast.unparse(node.value)[:60]}", line=node.lineno
        )
    return value


def _action(node: ast.FunctionDef, lines: list[str]) -> tuple[ActionDef, int]:
    _check_function(node)
    arguments = [*node.args.args[1:], *node.args.kwonlyargs]
    defaults = _defaults(node.args)
    kinds = {a.arg: _annotation(a.annotation)[0] if a.annotation else "Any" for a in arguments}
    if len(kinds) < len(arguments):
        raise SpecError(f"function {node.name!r} names a parameter twice", line=node.lineno)
    body = node.body[1:] if _docstring(node.body[0]) is not None else node.body
    if not body:
        raise SpecError(
            f"function {node.name!r} has only a docstring; write at least 'pending.approve()'",
            line=node.lineno,
        )
    if body[0].lineno == node.lineno:
        raise SpecError(f"start the body of {node.name!r} on a new line", line=node.lineno)
    first = _first_line(node, lines)
    action = ActionDef(
        name=node.name,
        description=inspect.cleandoc(_docstring(node.body[0]) or ""),
        params=kinds,
        code=_body_text(lines, body, first, node.end_lineno or first),
        required=[a.arg for a in arguments if a.arg not in defaults],
        defaults={name: value for name, value in defaults.items() if value is not None},
    )
    return action, first


def _check_function(node: ast.FunctionDef) -> None:
    if node.decorator_list:
        raise SpecError(
            f"function {node.name!r} has a decorator, which would run; remove it", line=node.lineno
        )
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
        raise SpecError(
            f"function {node.name!r}: every parameter needs a name. Remove '*' and '/'", line=node.lineno
        )
    if not arguments.args or arguments.args[0].arg != "pending":
        raise SpecError(f"the first parameter of function {node.name!r} is 'pending'", line=node.lineno)


def _defaults(arguments: ast.arguments) -> dict[str, Any]:
    by_position = zip(reversed(arguments.args), reversed(arguments.defaults), strict=False)
    by_keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    pairs = [*by_position, *((a, d) for a, d in by_keyword if d is not None)]
    return {argument.arg: _literal(default) for argument, default in pairs}


def _annotation(node: ast.expr) -> list[str]:
    """Return the text of the type and the strings after it in `Annotated[T, "description", "volatile"]`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) in {"Annotated", "typing.Annotated"}:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        texts = [p.value for p in parts[1:] if isinstance(p, ast.Constant) and isinstance(p.value, str)]
        return [_annotation(parts[0])[0], *texts]
    return [ast.unparse(node)]


def _body_text(lines: list[str], body: list[ast.stmt], first: int, last: int) -> str:
    """Return the lines of an action without the indentation of the function. Lines inside strings stay unchanged."""
    indent = body[0].col_offset
    inside = lines_inside_strings(body)
    unindented = [
        line if number in inside or line[:indent].strip() else line[indent:] or "\n"
        for number, line in enumerate(lines[first - 1 : last], first)
    ]
    return "".join(unindented).rstrip() + "\n"


def _first_line(node: ast.FunctionDef, lines: list[str]) -> int:
    """Return the first line of the code: after the docstring or the `def`. Comments belong to the code."""
    if _docstring(node.body[0]) is not None:
        return (node.body[0].end_lineno or node.body[0].lineno) + 1
    rest = iter(lines[node.lineno - 1 :])
    header_end = next(
        t for t in tokenize.generate_tokens(lambda: next(rest, "")) if t.type == tokenize.NEWLINE
    )
    return node.lineno + header_end.start[0]


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise SpecError(
            f"a default must be a literal, because the cell is not executed: {ast.unparse(node)[:60]}",
            line=node.lineno,
        ) from None


def _docstring(node: ast.stmt) -> str | None:
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return node.value.value
    return None


def _refuse_second(known: dict[str, Any], name: str, node: ast.stmt) -> None:
    if name in known:
        raise SpecError(f"{name!r} is defined twice", line=node.lineno)


def _refuse(node: ast.stmt) -> NoReturn:
    hints: dict[type, str] = {
        ast.Import: "put the import into the action that needs it",
        ast.ImportFrom: "put the import into the action that needs it",
        ast.Assign: "give the field a type: name: type = value",
        ast.AsyncFunctionDef: "an action is a plain function, without 'async'",
        ast.ClassDef: "an operation is the whole cell; remove the class line",
    }
    hint = hints.get(type(node), "move it into an action")
    raise SpecError(
        f"a definition holds only {_ALLOWED}; {hint}: {ast.unparse(node)[:60]!r}", line=node.lineno
    )


def _mapping(data: Any, form: str, holds: str = _OPERATION) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise SpecError(f"the {form} body must be an object with {holds}")
    return data


class _PlainLoader(yaml.SafeLoader):
    """A loader of plain data. Duplicate keys and aliases are errors."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.composer.ComposerError(
                None, None, "aliases are not allowed here", self.peek_event().start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 # the base's
        twice = twice_in(
            self.construct_object(key) for key, _ in node.value if isinstance(key, yaml.ScalarNode)
        )
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice!r} is named twice", node.start_mark)
        return super().construct_mapping(node, deep=deep)


# --- the line of `%tract_fire`

FIRE_OPTIONS: Final = ("--fields", "--review")


@dataclass(frozen=True)
class FireLine:
    """A parsed `%tract_fire` line."""

    operation: str
    fields: dict[str, Any]
    review: bool


def parse_fire(line: str, namespace: Mapping[str, Any]) -> FireLine:
    """Parse the line."""
    parts = split_words(line)
    if not parts or parts[0].startswith("-") or "=" in parts[0]:
        raise OperationError("name the operation: %tract_fire citation_check urls=['https://example.com']")
    fields: dict[str, Any] = {}
    review = False
    rest = iter(parts[1:])
    for part in rest:
        if part == "--review":
            review = True
        elif part == "--fields" or part.startswith("--fields="):
            text = part.removeprefix("--fields").removeprefix("=") or next(rest, "")
            _merge(fields, _field_mapping(read_value(text, namespace)))
        else:
            _merge(fields, _assignment(part, namespace))
    return FireLine(parts[0], fields, review)


def read_value(text: str, namespace: Mapping[str, Any]) -> Any:
    """Return the value of a text."""
    if text.startswith("$"):
        name = text[1:]
        if name not in namespace:
            raise OperationError(f"no variable {name!r}.{nearest(name, namespace)}")
        return namespace[name]
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    if not text or text[0] in "([{\"'":
        raise OperationError(f"{text[:60]!r} is neither a Python literal nor JSON; use $name for a variable")
    return text


def _assignment(part: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    name, equals, text = part.partition("=")
    if part.startswith("--"):
        raise OperationError(
            f"no option {part!r}.{nearest(part, FIRE_OPTIONS)} The options are {' and '.join(FIRE_OPTIONS)}"
        )
    if not equals or not name.isidentifier():
        raise OperationError(f"{part[:60]!r} is not field=value; put quotes around text with spaces")
    return {name: read_value(text, namespace)}


def _merge(fields: dict[str, Any], more: dict[str, Any]) -> None:
    for name in more:
        if name in fields:
            raise OperationError(f"duplicate field {name!r}")
    fields |= more


def _field_mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise OperationError(f"--fields takes a dict such as {{'urls': []}}, got {type(value).__name__}")
    return value
