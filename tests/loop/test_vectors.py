"""The scenarios of `tests/vectors/loop`: a scripted model on HTTP that checks each request, a scripted person, kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "vectors"
DIALECTS = {
    "openai": ["--dialect", "openai"],
    "anthropic": ["--dialect", "anthropic"],
    "responses": ["--wire", "responses"],
}
NOT_YET: dict[str, str] = {}
"""What cannot pass yet, with what it waits for; a scenario that passes must go from here."""
QUICK = "happy,parallel,corrections,refusals,limits,repeats,hostile,large_results,code_mode"


def failing(tmp_path, *options):
    """The ids of the scenarios with a variant that fails, each with the first thing that is wrong."""
    found = tmp_path / "found.json"
    environment = {**os.environ, "LOOP_PRODUCT": str(FOLDER / "loop_product.py")}
    ended = subprocess.run(
        [sys.executable, FOLDER / "loop_driver.py", "--json", found, *options],
        env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert found.exists(), ended.stdout + ended.stderr
    rows = json.loads(found.read_text())
    assert rows
    return {row["id"]: (row["label"], row["fails"]) for row in rows if row["fails"]}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_quick_ones(dialect, tmp_path):
    assert failing(tmp_path, *DIALECTS[dialect], "--how", "whole", "--only", QUICK) == {}


def differing(*options):
    """The ids of the scenarios that a replay gives otherwise than they were recorded."""
    program = [sys.executable, Path(__file__).parent / "replayed_scenarios.py", *options]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(ended.stdout.splitlines()[-1])
    assert rows
    return {key: why for key, why in rows.items() if why}


@pytest.mark.timeout(900)
def test_a_replay_gives_the_same_commits():
    assert (
        differing("anthropic", "stream", "sync", "happy,parallel,refusals,hostile,code_mode,streaming") == {}
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("actor", ["sync", "async"])
@pytest.mark.parametrize("how", ["whole", "stream"])
@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_a_replay_of_all_gives_the_same_commits(dialect, how, actor):
    areas = {one["area"] for one in json.loads((FOLDER / "loop" / "scenarios.json").read_text())}
    assert differing(dialect, how, actor, ",".join(areas)) == {}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("actor", ["sync", "async"])
@pytest.mark.parametrize("how", ["whole", "stream"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_variants(dialect, how, actor, tmp_path):
    found = failing(tmp_path, *DIALECTS[dialect], "--how", how, "--actor", actor)
    assert {key: why for key, why in found.items() if key not in NOT_YET} == {}
    assert set(found) >= set(NOT_YET), "shorten NOT_YET"


SAME = "HAP-04,HAP-06,PAR-51,PAR-54,COR-51,LIM-57,FLT-51,FLT-69,HOS-04,BUD-10,DIA-51,STR-53"
TWINS = {"COD-03": "HAP-04", "COD-51": "PAR-51"}
"""What a script does, and the direct calls that have the same effects."""
EACH_ONCE = {"openai": "sync", "anthropic": "async", "responses": "sync"}
HOW = ("whole", "stream")


def kept(tmp_path, dialect, actor):
    """What the scenarios committed and did, by scenario and variant."""
    found = tmp_path / f"{dialect}_{actor}.json"
    ids = ",".join([SAME, *TWINS])
    assert failing(tmp_path, *DIALECTS[dialect], "--actor", actor, "--only", ids, "--commits", found) == {}
    return json.loads(found.read_text())


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "variants",
    [
        list(EACH_ONCE.items()),
        pytest.param(
            [(one, actor) for one in DIALECTS for actor in ("sync", "async")], marks=pytest.mark.slow
        ),
    ],
    ids=["each_dialect", "all"],
)
def test_a_scenario_gives_the_same_commits_however_it_is_asked(variants, tmp_path):
    """Contents, order and content hashes; of scripts, which tell how long they took, the effects of their tools."""
    all_kept = [kept(tmp_path, dialect, actor) for dialect, actor in variants]
    for name in SAME.split(","):
        commits = [one["commits"][f"{name} {how}"] for one in all_kept for how in HOW]
        assert len(commits[0]) > 1
        assert commits == [commits[0]] * len(commits), name
    for script, direct in TWINS.items():
        effects = [
            one["effects"][f"{name} {how}"] for one in all_kept for name in (script, direct) for how in HOW
        ]
        effects = [sorted(one, key=json.dumps) for one in effects]  # reads run side by side
        assert effects == [effects[0]] * len(effects), script
