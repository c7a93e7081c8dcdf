"""The API reference: `python -m tests.reference` writes docs/api.md.

It has the public names, with signatures and the first paragraph of each docstring: the names of `tract_jupyter`, the methods and parts of a `Tract`, and
the names of its packages that a guide, a tutorial or a signature on this page uses. All other names are internal.
"""

from __future__ import annotations

import inspect
import json
import re
import tempfile
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Union, get_args, get_origin

import tract_jupyter
from tract_jupyter import Session, Tract
from tract_jupyter.review import Trust

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "api.md"
COMMAND = "python -m tests.reference"
PARTS = (
    "operations",
    "hooks",
    "review",
    "tools",
    "scripts",
    "runs",
    "profiles",
    "models",
    "costs",
    "autonomy",
    "cassette",
    "forks",
    "mcp",
    "workspace",
)
"""The attributes of a tract that are objects with methods of their own."""

NOT_GUIDES = ("api", "architecture", "build", "dependencies", "glossary", "questions", "runs_inside")
"""The pages that name internals: for contributors, or made from the code."""

_BEGINNING = f"""\
# API reference

The public names: those of `tract_jupyter`, the methods and parts of a `Tract`, and the names of packages that a guide, a tutorial or a signature on this page
uses. Every other name is internal and may change in any release. `{COMMAND}` writes this page from signatures and docstrings; `help(name)` shows the whole docstring.
"""


def document():
    """Return the page."""
    blocks = [
        _BEGINNING,
        "## tract_jupyter",
        "What `from tract_jupyter import ...` gives.",
        *root(),
        *tract(),
        *session(),
    ]
    offered = {package: dict(members(package)) for package in packages()}
    public = names_in_use(guides())
    fresh = {name for block in blocks for name in _names(_head(block))} | public
    shown = set()
    while fresh:  # a public signature makes its types public
        found = [(package, name) for package, names in offered.items() for name in fresh & names.keys()]
        fresh = (
            {used for package, name in found for used in _names(_head(offered[package][name]))}
            - shown
            - fresh
        )
        shown |= {name for _, name in found}
    for package, names in offered.items():
        entries = [text for name, text in names.items() if name in shown]
        if entries:
            blocks += [f"## {package.__name__}", first_paragraph(package), *again(package), *entries]
    return "\n\n".join(block.strip("\n") for block in blocks if block) + "\n"


def _head(block):
    return block.partition("\n\n")[0]


def _names(text):
    return set(re.findall(r"[A-Za-z_]\w+", text))


def guides():
    """The text of each guide, of the README, of CONTRIBUTING.md and of the tutorials."""
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.stem not in NOT_GUIDES]
    for page in [*pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        yield page.read_text(encoding="utf-8")
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        yield "\n".join(
            f"```\n{''.join(cell['source'])}\n```" for cell in cells if cell["cell_type"] == "code"
        )


def names_in_use(texts):
    """The names in the code of these texts."""
    code = (part for text in texts for part in re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    return {name for part in code for name in _names(part)}


def root():
    """The names that the package itself exports."""
    for name in sorted(tract_jupyter.__all__, key=str.lower):
        if not name.startswith("_") and name not in {"Tract", "Session"}:
            yield entry(name, getattr(tract_jupyter, name))


def tract():
    """The verbs of a tract, and each of its parts."""
    yield "## Tract"
    yield first_paragraph(Tract)
    yield from methods("Tract", Tract, without=PARTS)
    with tempfile.TemporaryDirectory() as folder, Tract.open(trust=Trust(Path(folder) / "secret")) as opened:
        for part in PARTS:
            if hasattr(type(opened), part):
                kind = type(getattr(opened, part))
                yield f"## Tract.{part}"
                yield first_paragraph(kind)
                yield from methods(f"Tract.{part}", kind)


def session():
    """The methods of a session."""
    yield "## Session"
    yield first_paragraph(Session)
    yield from methods("Session", Session)


def packages():
    """The packages with a public interface, in the order of their names."""
    package = ROOT / "tract_jupyter"
    for path in sorted(package.rglob("__init__.py")):
        if path.parent != package and "__all__" in path.read_text():
            yield import_module(".".join(path.parent.relative_to(ROOT).parts))


def _exports(module):
    return sorted(
        (name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)), key=str.lower
    )


def _is_in_root(module, name):
    return getattr(tract_jupyter, name, None) is getattr(module, name)


def members(module):
    """The names that a package exports and the root does not, each with its entry."""
    for name in _exports(module):
        if not _is_in_root(module, name):
            yield name, entry(name, getattr(module, name))


def again(module):
    """The names that the root also has."""
    names = [f"`{name}`" for name in _exports(module) if _is_in_root(module, name)]
    if names:
        yield f"Also in the root: {', '.join(names)}."


def methods(owner, kind, without=()):
    """The public methods and properties of a class, those that it inherits from classes of ours, too."""
    for name in sorted(dir(kind)):
        found = inspect.getattr_static(kind, name)
        home = next((base for base in kind.__mro__ if name in vars(base)), object)
        if name.startswith("_") or name in without or not home.__module__.startswith("tract_jupyter"):
            continue
        if isinstance(found, property | cached_property):
            function = found.fget if isinstance(found, property) else found.func
            yield line(f"{owner}.{name}{returned(function)}", first_paragraph(function))
        elif callable(getattr(kind, name)):
            yield entry(
                f"{owner}.{name}", getattr(kind, name), bound=isinstance(found, staticmethod | classmethod)
            )


def entry(name, found, *, bound=True):
    """One name: its signature, and what it is."""
    if not callable(found):
        return line(name, "")
    if inspect.isclass(found) and issubclass(found, Enum):
        return line(f"{name}: {', '.join(member.name for member in found)}", first_paragraph(found))
    if inspect.isclass(found) and issubclass(found, BaseException):
        return line(name, first_paragraph(found))
    return line(name + signature(found, bound=bound), first_paragraph(found))


def line(head, text):
    """A heading in code, and a paragraph."""
    return f"**`{head}`**\n\n{text}"


def signature(found, *, bound=True):
    """The parameters with types and defaults; without `self`. Empty if Python does not know them."""
    if getattr(found, "_is_protocol", False) or get_origin(found) is not None:
        return ""  # a protocol or an alias of a type: their signatures depend on Python's version
    if hasattr(found, "model_rebuild"):
        found.model_rebuild()  # a model that is built when it is first used has no signature before
    try:
        known = inspect.signature(found)
    except (TypeError, ValueError):
        return ""
    parts, is_keyword = [], False
    parameters = list(known.parameters.values())
    for parameter in parameters if bound else parameters[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            parts.append("*")
        is_keyword = is_keyword or parameter.kind in {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL}
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        annotation = "" if parameter.annotation is parameter.empty else f": {words(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f" = {value(parameter.default)}"
        parts.append(f"{stars}{parameter.name}{annotation}{default}")
    arrow = (
        ""
        if inspect.isclass(found) or known.return_annotation is known.empty
        else f" → {words(known.return_annotation)}"
    )
    return f"({', '.join(parts)}){arrow}"


def returned(function):
    """`: Type` of a property."""
    annotation = getattr(function, "__annotations__", {}).get("return")
    return "" if annotation is None else f": {words(annotation)}"


def words(annotation):
    """An annotation as it is written, without the texts that tools tell about a parameter."""
    annotation = getattr(annotation, "__forward_arg__", annotation)
    if hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    if get_origin(annotation) in {Union, UnionType}:  # written as `Optional` or not, by version
        return " | ".join("None" if one is NoneType else words(one) for one in get_args(annotation))
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(
        r"\btract_jupyter\.(\w+\.)*|\b(typing|collections\.abc|datetime|pathlib)\.(?=[A-Z])", "", text
    )
    text = re.sub(r"Annotated\[(.*?), [\"'].*\]", r"\1", text, flags=re.DOTALL)
    return " ".join(text.replace("'", '"').split())


def value(default):
    """A default, without what differs from process to process."""
    if isinstance(default, Enum):
        return f"{type(default).__name__}.{default.name}"
    text = repr(default)
    return "..." if text.startswith("<") or " at 0x" in text else text.replace("'", '"')


def first_paragraph(found):
    """The first paragraph of a docstring, on one line."""
    text = inspect.getdoc(found) or ""
    return " ".join(text.partition("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(document(), encoding="utf-8")
