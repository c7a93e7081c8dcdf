"""The recipes of CONTRIBUTING.md: each adds one of its kind from outside, in a temporary package."""

from __future__ import annotations

import json
import os
import subprocess
import sys

RULE = '''
from tract_jupyter.analysis import Category, RiskLevel
from tract_jupyter.analysis.rules import Rule, register


@register
class OpensZip(Rule):
    """Opens a zip archive.

    ## Why it matters

    Archives of this house are tar files.
    """

    code = "CODE"
    name = "opens-zip"
    category = Category.FILESYSTEM_READ
    level = RiskLevel.MEDIUM
    effect = "is not used here"
    remedy = "Use tarfile."
    symbols = {"zipfile.ZipFile": RiskLevel.MEDIUM}
'''
ANALYZE = """
import json
from tract_jupyter.analysis import CodeAnalyzer, pages
found = CodeAnalyzer().analyze("import zipfile as z\\nz.ZipFile('a.zip').namelist()").findings
print(json.dumps([[[f.code, f.level, f.span.line, f.reason, f.remedy] for f in found], pages.page("opens-zip")]))
"""


def analyzed(folder, before=""):
    """Analyse a cell that opens a zip archive, in a process that finds packages in `folder`."""
    ran = subprocess.run(
        [sys.executable, "-c", before + ANALYZE],
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(ran.stdout)


def test_a_new_analyzer_rule(tmp_path):
    """A built-in one is one file in the folder of rules."""
    (tmp_path / "zips.py").write_text(RULE.replace("CODE", "TJ299"))
    in_the_folder = f"from tract_jupyter.analysis import rules; rules.__path__.append({str(tmp_path)!r}); "
    found, page = analyzed(tmp_path, in_the_folder + "rules.import_rules()")
    assert ["TJ299", "medium", 2, "zipfile.ZipFile is not used here.", "Use tarfile."] in found
    assert page.startswith("# TJ299 opens-zip\n")
    assert "Archives of this house are tar files." in page


def test_a_new_analyzer_rule_of_another_package(tmp_path):
    """One of another package is one file, and a line that names it as an entry point."""
    (tmp_path / "house.py").write_text(RULE.replace("CODE", "HOUSE001").replace("@register\n", ""))
    info = tmp_path / "house-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tract_jupyter.rules]\nzips = house:OpensZip\n")
    found, page = analyzed(tmp_path)
    assert ["HOUSE001", "medium", 2, "zipfile.ZipFile is not used here.", "Use tarfile."] in found
    assert page.startswith("# HOUSE001 opens-zip\n")
