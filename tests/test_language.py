"""Texts are plain English: some constructions stay rare in docstrings, error messages, other texts and pages."""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

from tests.sources import parsed

pytestmark = pytest.mark.xdist_group("sources")  # one process parses all files

ROOT = Path(__file__).parent.parent

# Each pattern is a construction that technical English rarely uses, with the way to write it instead.
PATTERNS = {
    # "what was decided" → "the decision"
    "a clause with 'what' instead of a noun": r"\bwhat (is|was|are|were|it|they|you|we|a|an|the|has|had|can|could|would|must|may|came|comes|"
    r"happens|happened|asks|asked|remains|follows|needs|runs|ran|made|makes|takes|took|fails|failed)\b",
    # "whoever asked" → "the caller"
    "whoever, whatever": r"\b(whoever|whichever|wherever|whatever)\b",
    # "nobody can be asked" → "no user is available"
    "nobody, somebody": r"\b(nobody|somebody)\b",
    # "where there is none" → "if there is none"
    "'where' for a condition": r"(?<![\w.])where (nobody|somebody|there|it|that|this|they|a|an|the|one|you|no|none|all|nothing|something)\b",
    # "goes on" → "continues"
    "goes on, comes of, stands": r"\b(c[oa]mes? of|go(es|ing)? on\b(?! to)|went on|stands?|stood)\b",
    # "anew" → "again"; ", too" → "also"
    "anew, beside, ', too'": r"(\banew\b|, too\b|\bbeside\b|\bbeneath\b|\bthereby\b|\bmeanwhile\b|\bbesides\b)",
    # "the model is told" → "the model receives"
    "is told, asked, given, kept": r"\b(is|are|was|were|be|been|being) (told|asked|said|lent|shown|given|taken|kept|left)\b",
    # "that of the parent" → "the parent's"
    "that of, those of": r"\b(that|those) of\b",
    # "a thread of its own" → "a separate thread"
    "of its own": r"\bof (its|their|your|one's|our|his) own\b",
    # "so that" → "so"
    "so that": r"\bso that\b",
}
UNUSUAL = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS.values()), re.IGNORECASE)
CODE = re.compile(r"```.*?```|`[^`\n]*`|^>>> .*$", re.DOTALL | re.MULTILINE)

# hits per 1,000 words; a limit may only fall
LIMITS = {"docstrings": 3.0, "messages": 1.0, "texts": 2.0, "pages": 3.0}
# generated from docstrings, which have their own limit
GENERATED = {"api.md", "rules.md"}


def texts_of_module(path):
    """Return {kind: [(line, text)]} for a module: docstrings, messages of raised errors, other texts of 5 words or more."""
    texts = {"docstrings": [], "messages": [], "texts": []}
    seen = set()
    nodes = list(ast.walk(parsed(path)))
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            docstring := ast.get_docstring(node)
        ):
            texts["docstrings"].append((node.body[0].lineno, docstring))
            seen.add(id(node.body[0].value))
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            constants = [part for argument in node.exc.args for part in ast.walk(argument) if is_text(part)]
            texts["messages"] += [(part.lineno, part.value) for part in constants]
            seen.update(map(id, constants))
        elif isinstance(node, ast.Expr) and is_text(node.value):
            seen.add(id(node.value))  # the docstring of an attribute
    others = [node for node in nodes if is_text(node) and id(node) not in seen]
    texts["texts"] = [(node.lineno, node.value) for node in others if len(node.value.split()) >= 5]
    return texts


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def texts_of_page(path):
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text())["cells"]
        return [(1, "".join(cell["source"])) for cell in cells if cell["cell_type"] == "markdown"]
    return [(1, path.read_text())]


@cache
def collect():
    """Return {kind: [(path, line, text)]} for the whole project."""
    texts = {kind: [] for kind in LIMITS}
    for path in sorted((ROOT / "tract_jupyter").rglob("*.py")):
        for kind, found in texts_of_module(path).items():
            texts[kind] += [(path, line, text) for line, text in found]
    pages = [
        *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "notebooks").glob("*.ipynb"),
    ]
    for path in sorted(pages):
        if path.name not in GENERATED:
            texts["pages"] += [(path, line, text) for line, text in texts_of_page(path)]
    return texts


def measure(texts):
    """Return the number of words, and the unusual sentences as `path:line: sentence`."""
    words, sentences = 0, []
    for path, line, text in texts:
        prose = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
        words += len(re.findall(r"[A-Za-z']+", prose))
        for offset, sentence in enumerate(prose.splitlines()):
            sentences += [f"{path.relative_to(ROOT)}:{line + offset}: {sentence.strip()}"] * len(
                UNUSUAL.findall(sentence)
            )
    return words, sentences


@pytest.mark.slow
@pytest.mark.parametrize("kind", LIMITS)
def test_unusual_constructions_are_rare(kind):
    words, sentences = measure(collect()[kind])
    rate = 1000 * len(sentences) / words
    assert rate <= LIMITS[kind], "\n".join(
        [f"{rate:.1f} per 1,000 words; write these again:", *sentences[-40:]]
    )


def test_the_measure_finds_each_pattern():
    examples = [
        "It returns what was decided.", "Whoever asked is answered.", "Nobody knows it.", "It stops where nobody is there.",
        "The turn goes on.", "It is made anew.", "The model is told.", "The name is that of the parent.",
        "It has a thread of its own.", "It waits so that all can end.",
    ]  # fmt: skip
    for pattern, example in zip(PATTERNS.values(), examples, strict=True):
        assert re.search(pattern, example, re.IGNORECASE), pattern
    words, sentences = measure([(ROOT / "x.md", 1, "Plain text.\nThe turn `goes on`.\nThe turn goes on.")])
    assert (words, sentences) == (8, ["x.md:3: The turn goes on."])


def test_no_page_is_too_long():
    pages = [
        ROOT / "CONTRIBUTING.md",
        *(path for path in (ROOT / "docs").glob("*.md") if path.name not in GENERATED),
    ]
    assert {path.name: lines for path in pages if (lines := len(path.read_text().splitlines())) > 300} == {}
