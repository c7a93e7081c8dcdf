"""Build the documentation as a site: `python docs/build.py OUT`.

Its pages are README.md, the other pages of the repository and the notebooks, as they are: one source for what
is read here and there. The API reference is docs/api.md, which `python -m tests.reference` writes from
the docstrings. Nothing is fetched, and each warning is an error: a link that leads nowhere, a page that no chapter
names.

`--notebooks FOLDER` has notebooks that were executed elsewhere, as `.ci/run` does. Those that are not there
are executed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).resolve().parent
ROOT: Final = DOCS.parent

CONTENTS: Final = {
    "Tutorials": (
        "notebooks/quickstart",
        "notebooks/scripts",
        "notebooks/branches_compression_undo",
        "notebooks/decisions",
        "notebooks/agents",
        "notebooks/orchestrator",
        "notebooks/runs",
    ),
    "How-to guides": (
        "docs/chat", "docs/rehearsal", "docs/review", "docs/undo", "docs/your_tools", "docs/cells", "docs/serve",
        "docs/notifications",
        "docs/scripts", "docs/models", "docs/headless", "docs/context", "docs/define", "docs/agents",
        "docs/outside_agents", "docs/orchestrator", "docs/policies", "docs/runs", "docs/cassettes",
        "docs/administrators", "docs/coming_from_jupyter_ai", "docs/coming_from_claude_code",
        "docs/coming_from_langgraph",
    ),
    "Explanation": ("docs/security", "docs/reviewed", "docs/loop", "docs/faq", "docs/comparison"),
    "Reference": (
        "docs/front_ends", "docs/api", "docs/rules", "docs/analysis", "docs/providers", "docs/runs_fields",
        "docs/templates", "docs/glossary", "CHANGELOG",
    ),
    "For contributors": (
        "CONTRIBUTING", "docs/architecture", "docs/questions", "docs/context_inside", "docs/operations",
        "docs/review_inside", "docs/tools", "docs/runs_inside", "docs/dependencies", "docs/releasing",
        "SECURITY", "GOVERNANCE", "CODE_OF_CONDUCT",
    ),
}  # fmt: skip
"""The chapters of the site and their pages. A page without a chapter is an error."""


def staged(folder: Path, executed: Path | None) -> None:
    """Lay the pages out as they lie in the repository, so that their links hold; README.md becomes the first page."""
    shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(DOCS / "conf.py", folder)
    chapters = "\n".join(
        "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])
        for title, pages in CONTENTS.items()
    )
    (folder / "index.md").write_text(f"{(ROOT / 'README.md').read_text()}\n{chapters}")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "GOVERNANCE.md", "CODE_OF_CONDUCT.md"):
        shutil.copy(ROOT / name, folder)
    for page in folder.rglob("*.md"):
        page.write_text(page.read_text().replace("](../README.md", "](../index.md"))
    shutil.copytree(
        ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*", "__pycache__")
    )
    for notebook in sorted((folder / "notebooks").glob("*.ipynb")):
        if executed is not None and (executed / notebook.name).exists():
            shutil.copy(executed / notebook.name, notebook)
        else:
            execute(notebook)


def execute(notebook: Path) -> None:
    """Execute a notebook in place, without anybody at it, and with a data directory of its own."""
    with tempfile.TemporaryDirectory() as data:
        environment = {**os.environ, "JUPYTER_DATA_DIR": data}
        command = [sys.executable, "-m", "jupyter", "execute", "--inplace", str(notebook)]
        subprocess.run(command, check=True, env=environment)  # noqa: S603 # our own notebooks


def main() -> int:
    """Build it; 0 if there was no warning."""
    options = argparse.ArgumentParser(description="Build the documentation as a site.")
    options.add_argument("out", type=Path, help="the folder to write to")
    options.add_argument("--notebooks", type=Path, help="a folder with executed notebooks")
    given = options.parse_args()
    from sphinx.cmd.build import main as sphinx

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "site"
        source.mkdir()
        staged(source, given.notebooks)
        return sphinx(["-W", "--keep-going", "-q", "-j", "2", str(source), str(given.out)])


if __name__ == "__main__":
    sys.exit(main())
