"""The scenarios of `tests/vectors/loop`: a scripted model on HTTP that checks each request, a scripted person, kills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "vectors"
DIALECTS = {
    "openai": ["--dialect", "openai"],
    "anthropic": ["--dialect", "anthropic"],
    "responses": ["--wire", "responses"],
}
PAIRWISE = {
    ("openai", "whole", "sync"), ("openai", "stream", "async"), ("anthropic", "whole", "async"),
    ("anthropic", "stream", "sync"), ("responses", "whole", "sync"), ("responses", "stream", "async"),
}  # fmt: skip
"""Variants among which each two of a dialect, a way to be sent and a way to be asked come together."""
OWN = ",".join(one["id"] for one in json.loads((FOLDER / "loop_scenarios.json").read_text(encoding="utf-8")))


@pytest.fixture
def failing(forker, tmp_path):
    """A function of options: the ids of the scenarios with a variant that fails, each with the first thing that is wrong."""

    def run(*options):
        found = tmp_path / "found.json"
        found.unlink(missing_ok=True)
        ended = forker.run("tests.vectors.loop_driver:run", "--json", found, *options, timeout=900)
        assert found.exists(), ended.stdout + ended.stderr
        rows = json.loads(found.read_text())
        assert rows
        return {row["id"]: (row["label"], row["fails"]) for row in rows if row["fails"]}

    return run


@pytest.fixture
def differing(forker):
    """A function of options: the ids of the scenarios that a replay gives otherwise than they were recorded."""

    def run(*options):
        ended = forker.run("tests.loop.replayed_scenarios:main", *options, timeout=900)
        assert ended.returncode == 0, ended.stderr
        rows = json.loads(ended.stdout.splitlines()[-1])
        assert rows
        return {key: why for key, why in rows.items() if why}

    return run


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("dialect", "how", "actor"), sorted(one for one in PAIRWISE if one[0] != "responses")
)
def test_a_replay_gives_the_same_commits(dialect, how, actor, differing):
    areas = {one["area"] for one in json.loads((FOLDER / "loop" / "scenarios.json").read_text())}
    assert differing(dialect, how, actor, ",".join(areas)) == {}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("actor", ["sync", "async"])
@pytest.mark.parametrize("how", ["whole", "stream"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_variants(dialect, how, actor, failing):
    """The given scenarios in each variant, our own pairwise."""
    left_out = [] if (dialect, how, actor) in PAIRWISE else ["--skip", OWN]
    assert failing(*DIALECTS[dialect], "--how", how, "--actor", actor, *left_out) == {}


SAME = "HAP-04,HAP-06,PAR-51,PAR-54,COR-51,LIM-57,FLT-51,FLT-69,HOS-04,BUD-10,DIA-51,STR-53"
TWINS = {"COD-03": "HAP-04", "COD-51": "PAR-51"}
"""What a script does, and the direct calls that have the same effects."""
HOW = ("whole", "stream")


def kept(failing, tmp_path, dialect, actor):
    """What the scenarios committed and did, by scenario and variant."""
    found = tmp_path / f"{dialect}_{actor}.json"
    ids = ",".join([SAME, *TWINS])
    assert failing(*DIALECTS[dialect], "--actor", actor, "--only", ids, "--commits", found) == {}
    return json.loads(found.read_text())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_scenario_gives_the_same_commits_however_it_is_asked(failing, tmp_path):
    """Contents, order and content hashes; of scripts, which tell how long they took, the effects of their tools."""
    all_kept = [
        kept(failing, tmp_path, dialect, actor) for dialect in DIALECTS for actor in ("sync", "async")
    ]
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
