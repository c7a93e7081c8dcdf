"""`.agent` files: YAML front matter, followed by the unchanged instructions. Reading a file never runs code.

    ---
    name: checker
    description: Checks sums.
    tools:
    - add
    ---
    You check sums.

If you write a definition to a file and read the file again, you get exactly the same definition.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tract_jupyter.agents.definition import AgentDefinition, check_keys, read_budget
from tract_jupyter.exceptions import AgentError
from tract_jupyter.models import (
    LONGEST_YAML,
    brief_repr,
    make_private_folder,
    open_private,
    open_regular,
    sha256,
    twice_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ENDING: Final = ".agent"
"""The file name extension."""
KEYS: Final = ("name", "description", "model", "compatible_models", "tools", "toolsets", "budget", "runtime")
"""The keys of the front matter."""
_FENCE: Final = "---"
_MOST_BYTES: Final = 256_000
_NOT_HERE: Final = ("entry", "schema_in_ref")
_HIDDEN_END: Final = re.compile("[\x85\u2028\u2029]|\r(?!\n)")
"""Characters that end a line in YAML but in few other places."""


class _Dumper(yaml.SafeDumper):
    """Writes strings in a form that YAML reads back unchanged."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    # quote every other text with escapes: the other YAML styles fold lines or change line ends
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


class _Loader(yaml.SafeLoader):
    """Reads plain data. It rejects aliases and duplicate keys."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise AgentError("bad_file", "an .agent file cannot use YAML aliases (*name); write the value")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 # as yaml has it
        twice = twice_in(self.construct_object(key, deep=True) for key, _ in node.value)
        if twice is not None:
            raise AgentError("bad_file", f"the front matter has {brief_repr(twice)} twice; keep one")
        return super().construct_mapping(node, deep)


def file_text(definition: AgentDefinition) -> str:
    """Return the file text of a definition."""
    front = yaml.dump(
        definition.front_matter(), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10**9
    )
    _check_length(front)
    return f"{_FENCE}\n{front}{_FENCE}\n{definition.instructions}"


def _check_length(front: str) -> None:
    if len(front) > LONGEST_YAML:
        raise AgentError(
            "too_long",
            f"the front matter has {len(front):,} characters; the maximum is {LONGEST_YAML:,}. List fewer tools, for "
            "example with a toolset",
        )


def file_hash(text: str) -> str:
    """Return the SHA-256 of a file's text, as 64 hex digits. It identifies the version."""
    return sha256(text.encode())


def parse_file(text: str) -> AgentDefinition:
    """Parse the text of an `.agent` file."""
    front, body = _parted(text.removeprefix("\ufeff"))
    _check_length(front)
    hidden = _HIDDEN_END.search(front)
    if hidden is not None:
        raise AgentError(
            "bad_file",
            f"the front matter has the line end {hidden.group()!r}, which can hide a line; write it as an escape",
        )
    try:
        data = yaml.load(front, Loader=_Loader)  # noqa: S506 # derives from SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError, AttributeError) as error:
        if isinstance(error, AgentError):
            raise
        problem = getattr(error, "problem", None) or str(error)
        raise AgentError("bad_file", f"the front matter is not valid YAML: {problem}") from None
    if not isinstance(data, dict):
        raise AgentError(
            "bad_file",
            "missing frontmatter: an .agent file begins with '---', lines such as 'name: checker', and '---'",
        )
    for key in _NOT_HERE:
        if key in data:
            raise AgentError("bad_file", f"an .agent file must not declare {key!r}", KEYS)
    if "name" not in data:
        raise AgentError("bad_file", "an .agent file must have a 'name' field", KEYS)
    check_keys("an .agent file", data, KEYS, "unknown_key")
    values = {**data, "budget": read_budget(data.get("budget"))}
    return AgentDefinition(instructions=body, **values)


def _parted(text: str) -> tuple[str, str]:
    """Return the front matter and the body."""
    lines = list(_lines(text))
    if lines and lines[0].rstrip("\r\n") == _FENCE:
        for number, line in enumerate(lines[1:], 1):
            if line.rstrip("\r\n") == _FENCE:
                return "".join(lines[1:number]), "".join(lines[number + 1 :])
    raise AgentError(
        "bad_file",
        "missing frontmatter: an .agent file begins with '---', lines such as 'name: checker', and '---'",
    )


def _lines(text: str) -> Iterator[str]:
    r"""Yield the lines with their line ends. Only `\n` ends a line, unlike in `str.splitlines`."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def read_file(path: Path) -> str:
    """Return the unchanged text of a file."""
    try:
        with open(path, "rb", opener=open_regular) as file:  # Path.open takes no opener
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise AgentError("no_file", f"{path.name} cannot be read: {why}") from None
    if len(data) > _MOST_BYTES:
        raise AgentError("too_long", f"{path.name} is larger than the maximum of {_MOST_BYTES:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise AgentError("bad_file", f"{path.name} is not UTF-8 text") from None


def new_file(path: Path, roots: Sequence[Path]) -> Path:
    """Return the resolved path for a promoted file. A relative path starts at the first root."""
    if not roots:
        raise AgentError(
            "bad_path", "the workspace has no folder; set one with tract.workspace.roots = ['PLACE']"
        )
    if not str(path).isprintable():
        raise AgentError("bad_path", f"{brief_repr(str(path))} contains invisible characters; remove them")
    requested = Path(path).expanduser()
    target = (requested if requested.is_absolute() else roots[0] / requested).resolve()
    if target.suffix != ENDING:
        raise AgentError("bad_path", f"{requested} must end with {ENDING!r}, such as agents/NAME{ENDING}")
    if not any(target.is_relative_to(root) for root in roots):
        raise AgentError(
            "bad_path", f"{requested} is outside the workspace {roots[0].name!r}; choose a path inside it"
        )
    if not target.parent.is_dir():
        raise AgentError("bad_path", f"the folder {target.parent.name} does not exist; create it first")
    if os.path.lexists(target):
        raise AgentError("file_exists", f"the file {requested} exists already; nothing was written")
    return target


class AgentFolder:
    """The folder for one session's files. It is created with the first file.

    Args:
        usual: the parent folder for all sessions. None means a temporary folder that `close` deletes.
        session: name of the session.
    """

    def __init__(self, usual: Path | None, session: str) -> None:
        self._usual = self._parent = usual
        self._session = session
        self._current: Path | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def parent(self) -> Path:
        """The parent folder for all sessions."""
        if self._parent is not None:
            return self._parent
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="tract-agents-", ignore_cleanup_errors=True)
        return Path(self._temporary.name)

    def move(self, parent: Path | None) -> None:
        """Set the parent folder for new files. None means the default."""
        self._parent = self._usual if parent is None else parent.expanduser().absolute()
        self._current = None

    def ensure(self) -> Path:
        """Return the folder of the session. Create it if it does not exist yet, or no longer exists."""
        if self._current is None or not self._current.exists():
            folder = self.parent / self._session
            try:
                make_private_folder(self.parent)
                folder.mkdir(mode=0o700)
            except OSError as error:
                why = error.strerror or type(error).__name__
                raise AgentError(
                    "no_folder",
                    f"the folder for agents' files cannot be created next to the store: {why}. Set another folder: "
                    "tract.agents.directory = 'PLACE'",
                ) from None
            self._current = folder
        return self._current

    def close(self) -> None:
        """Remove temporary files, and the session folder if it is empty."""
        if self._current is not None:
            with suppress(OSError):  # the folder is not empty
                self._current.rmdir()
        if self._temporary is not None:
            self._temporary.cleanup()


def write_file(path: Path, text: str, *, is_new: bool) -> None:
    """Write a file atomically."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        try:
            with open(aside, "xb", opener=open_private) as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                os.link(aside, path)  # unlike a rename, it fails if the file exists
            else:
                aside.replace(path)
        finally:
            with suppress(FileNotFoundError):
                aside.unlink()
    except FileExistsError:
        raise AgentError("file_exists", f"the file {path.name} exists already; nothing was written") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise AgentError("no_file", f"{path.name} cannot be written: {why}. Nothing was saved") from None
