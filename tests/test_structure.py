"""The design rules about layers, sizes and docstrings, checked for every file of the package."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tract_jupyter
from tests.sources import children, parsed, statements

pytestmark = pytest.mark.xdist_group("sources")  # one process parses all files

ROOT = Path(tract_jupyter.__file__).parent
TESTS = Path(__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
OWN = {ROOT / "__init__.py", ROOT / "__main__.py"}  # the package's own files import everything, lazily

# higher layers may import lower ones; of two parts in one layer, one may import the other
LAYERS = [
    {"notebook"}, {"outside"}, {"orchestrator", "policy", "agents"}, {"runs", "scripts"}, {"loop"}, {"toolkit"}, {"operations"}, {"review"}, {"context", "rehearsal"}, {"storage"},
    {"models", "exceptions", "concurrency"},
]  # fmt: skip
BOTTOM = LAYERS[-1]
# these need only the lowest layer; `context` and higher layers may import them
ASIDE = {"analysis", "llm", "prompts", "sandbox"}
COMPOSED = {
    "tract",
    "hooked_context",
    "parts",
    "open_tracts",
    "session",
}  # they combine the parts for the user
PARTS = set().union(*LAYERS) | ASIDE | COMPOSED
NOTEBOOK_ONLY = {"IPython", "ipykernel", "ipywidgets", "anywidget"}


def level(part):
    return next(number for number, layer in enumerate(LAYERS) if part in layer)


def part_of(module):
    """`review` for `tract_jupyter.review.bus`; empty for the package's own names, such as `__version__`."""
    part = [*module.split("."), ""][1]
    return part if part in PARTS else ""


def may_import(importer, imported):
    """Return True if one part of the package may import another."""
    if imported in BOTTOM | {"", importer}:
        return True
    if importer in COMPOSED:
        return imported != "notebook"
    if importer in BOTTOM | ASIDE:
        return False
    if imported in ASIDE:
        return level(importer) <= level("context")
    if imported in COMPOSED:
        return importer == "notebook"
    return level(importer) <= level(imported)


@cache
def interface(package):
    """Return the modules of a package's public names, from its stub: {name: module}. Empty without a stub."""
    stub = ROOT.parent.joinpath(*package.split("."), "__init__.pyi")
    if not stub.exists():
        return {}
    imported = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    return {
        alias.name: f"{package}.{node.module or alias.name}"
        for node in imported
        if node.level
        for alias in node.names
    }


def is_type_checking(node):
    match node:
        case ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(ast.Name("typing"), "TYPE_CHECKING")):
            return True
    return False


def imports(tree):
    """Return (module, True if imported at runtime) for each import of a file."""

    def visit(node, runtime):
        if isinstance(node, ast.Import):
            yield from ((alias.name, runtime) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if (
                node.module == "tract_jupyter"
            ):  # `from tract_jupyter import Tract` imports the module of Tract
                homes = interface("tract_jupyter")
                names = (alias.name for alias in node.names)
                yield from ((homes.get(name, f"tract_jupyter.{name}"), runtime) for name in names)
            yield node.module, runtime
        elif is_type_checking(node):
            for child in node.body:
                yield from visit(child, runtime=False)
            for child in node.orelse:
                yield from visit(child, runtime)
        else:
            for child in children(node):
                yield from visit(child, runtime)

    return list(visit(tree, runtime=True))


@cache
def imports_of(path):
    return imports(parsed(path))


def name_of(path):
    return str(path.relative_to(ROOT))


def part_of_file(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def in_every_file(rule):
    """Make one test of a rule about files."""

    def test():
        assert len(FILES) > 100
        for path in FILES:
            rule(path)

    return test


def test_the_rules_themselves():
    assert may_import("notebook", "tract")
    assert may_import("toolkit", "review")
    assert may_import("operations", "review")
    assert may_import("review", "analysis")
    assert may_import("tract", "toolkit")
    assert may_import("storage", "models")
    for importer, imported in [("review", "toolkit"), ("review", "tract"), ("storage", "analysis"), ("analysis", "storage"),
                               ("tract", "notebook"), ("models", "storage"), ("storage", "context"),
                               ("llm", "prompts"), ("storage", "llm"), ("prompts", "review")]:  # fmt: skip
        assert not may_import(importer, imported), (importer, imported)


def test_imports_in_all_kinds_of_blocks_are_found():
    tree = ast.parse(
        "import a\nfrom b.c import d\nif TYPE_CHECKING:\n    import e\nelse:\n    import f\n"
        "def g():\n    import h\ntry:\n    from tract_jupyter import notebook, Tract\nexcept ImportError: pass"
    )
    assert imports(tree) == [("a", True), ("b.c", True), ("e", False), ("f", True), ("h", True),
                             ("tract_jupyter.notebook", True), ("tract_jupyter.tract", True), ("tract_jupyter", True)]  # fmt: skip


def test_every_part_has_its_place():
    assert {part_of_file(path) for path in FILES} == PARTS | {"__init__", "__main__"}


@in_every_file
def test_imports_go_down_the_layers_only(path):
    importer = part_of_file(path)
    wrong = [
        module
        for module, runtime in imports_of(path)
        if runtime
        and path not in OWN
        and module.startswith("tract_jupyter.")
        and not may_import(importer, part_of(module))
    ]
    assert not wrong


def test_of_two_parts_in_a_layer_only_one_imports_the_other():
    pairs = {
        (part_of_file(path), part_of(module))
        for path in FILES
        for module, runtime in imports_of(path)
        if runtime and module.startswith("tract_jupyter.") and part_of_file(path) not in BOTTOM
    }
    assert not {(one, other) for one, other in pairs if one < other and (other, one) in pairs}


def test_packages_form_no_circle_not_even_of_types():
    whole = dict.fromkeys(COMPOSED, "tract") | {"exceptions": "models"}  # one unit in several files
    graph = {}
    for path in set(FILES) - OWN:
        package = whole.get(part_of_file(path), part_of_file(path))
        modules = {module for module, _ in imports_of(path) if module.startswith("tract_jupyter.")}
        known = {whole.get(part_of(module), part_of(module)) for module in modules}
        graph.setdefault(package, set()).update(known - {"", package})
    TopologicalSorter(graph).prepare()  # raises CycleError


@in_every_file
def test_types_come_from_anywhere_but_the_notebook(path):
    # imports for the type checker make no cycle; but no lower part may import the notebook
    modules = {part_of(module) for module, _ in imports_of(path) if module.startswith("tract_jupyter.")}
    if part_of_file(path) not in {"notebook", "__init__", "__main__"}:
        assert "notebook" not in modules


@in_every_file
def test_types_that_are_imported_exist(path):
    from importlib import import_module
    from importlib.util import find_spec

    for node in statements(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tract_jupyter."):
            assert find_spec(node.module), f"{node.module} does not exist"
            home = import_module(node.module)
            for alias in node.names:
                assert hasattr(home, alias.name) or find_spec(f"{node.module}.{alias.name}"), alias.name


@in_every_file
def test_only_the_notebook_knows_jupyter(path):
    used = {module.partition(".")[0] for module, _ in imports_of(path)}
    if part_of_file(path) != "notebook":
        assert not used & NOTEBOOK_ONLY


@in_every_file
def test_files_are_one_subject_each(path):
    assert len(path.read_text().splitlines()) <= 800


PASSES = {  # (importer, module): the reason for importing a module of another package
    ("analysis/tables/test_reader.py", "tract_jupyter.analysis.tables.magics"): "the table is a module",
    (
        "notebook/test_formatters.py",
        "tract_jupyter.notebook.formatters",
    ): "as the extension registers it: alone",
    ("runs/profile/test_fields.py", "tract_jupyter.runs.model"): "checks all fields of all its classes",
    **{
        ("runs/profile/test_fields.py", f"tract_jupyter.runs.kinds.{kind}"): "as above"
        for kind in ("compute", "dynamic", "guard", "llm", "rag", "template", "tool", "transform")
    },
}


def is_module(name):
    return ROOT.parent.joinpath(*name.split(".")).with_suffix(".py").is_file()


def past_the_interfaces(path, package):
    """Return the modules of other packages that a file imports directly. A subpackage has its own interface.

    A test that replaces a name in a module must import that module, because the name is looked up there.
    """
    tree = parsed(path)
    named = []
    for node in statements(tree):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if not module.startswith("tract_jupyter.") or part_of(module) == package:
            continue
        if module.count(".") > 1 and is_module(module):
            yield module
        named += [
            (alias, name)
            for alias in node.names
            if is_module(name := f"{module}.{alias.name}") and alias.name not in interface(module)
        ]
    replaced = replaced_in(tree) if named else set()
    yield from (name for alias, name in named if (alias.asname or alias.name) not in replaced)


def replaced_in(tree):
    """Return the names in the first argument of `setattr`, `patch.object` and `setitem`."""
    return {
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith(("setattr", "patch.object", "setitem"))
        for name in ast.walk(node.args[0])
        if isinstance(name, ast.Name)
    }


@pytest.mark.slow
def test_other_packages_and_the_tests_import_from_public_interfaces():
    own = {
        (name_of(path), module) for path in FILES for module in past_the_interfaces(path, part_of_file(path))
    }
    tests = {
        (path.relative_to(TESTS).as_posix(), module)
        for path in TESTS.rglob("*.py")
        for module in past_the_interfaces(path, "")
    }
    assert own | tests == PASSES.keys()


def functions():
    return [
        (f"{name_of(path)}:{node.name}", node)
        for path in FILES
        for node in statements(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def length(node):
    """Return the number of lines of a function without its docstring."""
    documented = ast.get_docstring(node) is not None
    docstring = node.body[0].end_lineno - node.body[0].lineno + 1 if documented else 0
    return node.end_lineno - node.lineno + 1 - docstring


def test_functions_are_short():
    lengths = {name: length(node) for name, node in functions()}
    assert not {name: lines for name, lines in lengths.items() if lines > 60}


def undocumented(tree, prefix=""):
    for node in tree.body:
        if isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and not node.name.startswith("_"):
            if ast.get_docstring(node) is None and not {"override", "overload"} & set(
                map(ast.unparse, node.decorator_list)
            ):
                yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from undocumented(node, f"{node.name}.")


@in_every_file
def test_everything_public_is_documented(path):
    tree = parsed(path)
    if tree.body:  # an empty __init__.py only makes a folder a package
        assert ast.get_docstring(tree), "the module has no docstring"
    assert not list(undocumented(tree))


def test_public_names_resolve():
    for name in tract_jupyter.__all__:
        assert getattr(tract_jupyter, name) is not None
    assert set(tract_jupyter.__all__) <= set(dir(tract_jupyter))
    with pytest.raises(AttributeError, match="attribute Nothing"):
        tract_jupyter.Nothing  # noqa: B018


def loaded_by(code):
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sorted(sys.modules))"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_imports_nothing_heavy():
    heavy = {
        "sqlalchemy",
        "pydantic",
        "IPython",
        "ipywidgets",
        "ipykernel",
        "anywidget",
        "tiktoken",
        "traitlets",
    }
    assert not loaded_by("import tract_jupyter") & heavy


def test_loading_the_extension_imports_no_store_and_no_widgets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    loading = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.instance().run_line_magic('load_ext', 'tract_jupyter')"
    )
    loaded = loaded_by(loading)
    assert "tract_jupyter.notebook.magics" in loaded
    assert not loaded & {
        "sqlalchemy",
        "pydantic",
        "ipywidgets",
        "anywidget",
        "tiktoken",
        "httpx",
        "jsonschema",
        "apprise",
    }


FIRST_MESSAGE = "from tract_jupyter import Tract\nwith Tract.open() as t: t.user('x'); t.compile()"
FIRST_OPERATION = """
from tract_jupyter import ActionDef, OperationSpec, Tract
with Tract.open() as t:
    go = ActionDef("go", "Goes.", {}, "pending.approve()")
    t.register_operation(OperationSpec("first", "The first.", {"n": {"type": "int"}}, {"go": go}))
    t.fire("first", {"n": 1})
"""
PLAIN_CHAT = """
from tract_jupyter import Tract
class Model:
    def chat(self, messages, **options):
        return {"choices": [{"message": {"content": "Yes."}}]}
with Tract.open(model=Model()) as t:
    t.chat("Well?")
"""
SHOWN = {
    f"tract_jupyter.{module}"
    for module in (
        "operations.activation", "operations.advice", "operations.rehearsal", "operations.rebuilding",
        "operations.sandboxed", "sandbox", "review.view", "review.text", "review.prompt",
    )
}  # fmt: skip
"""Imported only for displayed requests and sandboxed code."""
LATER = {
    "mcp", "httpx", "jsonschema", "tiktoken", "liquid", "sqlalchemy.dialects.postgresql",
    "tract_jupyter.analysis.analyzer", "tract_jupyter.analysis.rules", "tract_jupyter.analysis.capabilities",
    "tract_jupyter.runs", "tract_jupyter.toolkit", "tract_jupyter.scripts", "tract_jupyter.llm",
}  # fmt: skip


@pytest.mark.slow
def test_the_first_message_and_the_first_operation_import_only_needed_modules(tmp_path, monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))  # without a vocabulary
    assert not loaded_by(FIRST_OPERATION) & (LATER | SHOWN)
    loaded = loaded_by(FIRST_MESSAGE)
    packages = {"analysis", "review", "operations", "sandbox", "prompts"}
    assert not loaded & (LATER | {"pydantic"} | {f"tract_jupyter.{package}" for package in packages})


@pytest.mark.slow
def test_a_chat_without_tools_imports_nothing_that_carries_calls_out():
    loaded = loaded_by(PLAIN_CHAT)
    assert "tract_jupyter.loop.turn" in loaded
    calls = {"toolkit", "scripts", "prompts", "loop.acting", "loop.calls", "loop.answers", "loop.journal"}
    assert not loaded & {f"tract_jupyter.{one}" for one in calls}


def test_a_tract_needs_no_jupyter():
    assert not loaded_by("from tract_jupyter import Tract; Tract.open().user('x')") & NOTEBOOK_ONLY


def test_opening_a_tract_does_not_load_a_tokenizer_that_has_no_vocabulary(tmp_path, monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert "tiktoken" not in loaded_by("from tract_jupyter import Tract; Tract.open().user('x')")


def test_jsonschema_is_loaded_with_the_first_tool_that_needs_it():
    calling = "from tract_jupyter import Tract; t = Tract.open(); t.tools.status(); t.tools.stub_source()"
    assert not loaded_by(calling) & {"jsonschema", "referencing"}


def test_only_one_function_escapes_displayed_text():
    """`escaped` also marks hidden characters."""
    users = [path for path in FILES if "html.escape" in path.read_text(encoding="utf-8")]
    assert [str(path.relative_to(ROOT)) for path in users] == ["notebook/views/html.py"]


def test_only_one_module_writes_tags():
    """All other modules use `element`, which escapes. An f-string would treat any text as markup."""
    writers = {
        str(path.relative_to(ROOT))
        for path in FILES
        if path.is_relative_to(ROOT / "notebook")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.JoinedStr) and _writes_tag(node)
    }
    assert writers == {"notebook/views/html.py"}


def _writes_tag(node):
    text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return re.search(r"</|(?<!P)<[a-z][a-z0-9]*( [a-z-]+=|>)|<\{\} ?[a-z-]+=", text)
