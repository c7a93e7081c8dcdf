"""Rules from other packages. The tests install real distributions and start a real process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

RULE = '''
from tract_jupyter.analysis.findings import Category, RiskLevel
from tract_jupyter.analysis.rules import Rule

class House(Rule):
    """Uses what this team does not use."""
    code = "HOUSE001"
    name = "house-rule"
    category = Category.NETWORK
    level = RiskLevel.HIGH
    effect = "is not used here"
    remedy = "Ask the team."
    symbols = {"zipfile.ZipFile": RiskLevel.HIGH}

class Failing(House):
    code = "HOUSE002"
    name = "failing-rule"
    symbols = {}
    def check(self, view):
        raise KeyError("x")

class Taken(House):
    code = "TJ101"
'''
ASK = """
import json, sys
from tract_jupyter import CodeAnalyzer
found = CodeAnalyzer(**json.loads(sys.argv[2])).analyze(sys.argv[1]).findings
print(json.dumps([[f.code, str(f.level), f.reason] for f in found]))
"""


@pytest.fixture
def ask(tmp_path):
    def _ask(code, *entries, **settings):
        info = tmp_path / "house-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join(["[tract_jupyter.rules]", *entries]))
        (tmp_path / "house.py").write_text(RULE)
        command = [sys.executable, "-c", ASK, code, json.dumps(settings)]
        ran = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        return [tuple(finding) for finding in json.loads(ran.stdout)]

    return _ask


def test_a_rule_of_another_package_is_asked(ask):
    found = ask("import zipfile\nzipfile.ZipFile('x.zip')", "house = house:House")
    assert ("HOUSE001", "high", "zipfile.ZipFile is not used here.") in found


def test_a_plugin_rule_can_be_switched_off(ask):
    found = ask("import zipfile\nzipfile.ZipFile", "house = house:House", off=["HOUSE001"])
    assert "HOUSE001" not in {code for code, *_ in found}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("house:Failing", "The rule HOUSE002 failed: KeyError: 'x'"),
        ("house:Missing", "cannot be loaded: AttributeError"),
        ("house:Taken", "the code 'TJ101' is not capitals and three digits, or begins with TJ"),
        ("json:loads", "json:loads is not a subclass"),
        ("nowhere:Rule", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_failing_plugin_is_reported_and_other_rules_still_run(ask, entry, reason):
    found = ask("eval('1')", f"house = {entry}")
    assert [(code, level) for code, level, _ in found if code != "TJ904"] == [("TJ102", "critical")]
    (told,) = [(level, text) for code, level, text in found if code == "TJ904"]
    assert told[0] == "medium"
    assert reason in told[1]
