"""Profiles sent from one place to another."""

from __future__ import annotations

import json

import pytest

from tract_jupyter.exceptions import ProfileError
from tract_jupyter.runs.profile import (
    Block,
    BlockRef,
    OperationProfile,
    export_bundle,
    import_bundle,
    run_operation,
)


def profile():
    block = Block.of(
        "b", [run_operation("a", order=1, text="x", into="system")], version=4, description="shared"
    )
    refs = [BlockRef(block=block, order=7, enabled=False)]
    return OperationProfile.of(
        "diary", [run_operation("own", order=2, text="y")], refs, execution_mode="sequential", version=2
    )


def refused(given):
    with pytest.raises(ProfileError) as caught:
        import_bundle(given)
    return caught.value.problems[0]


def test_a_bundle_is_json_that_gives_the_same_profile():
    """E19, X11: type and version, the profile with references, and the blocks."""
    bundle = export_bundle(profile())
    assert (bundle["type"], bundle["version"]) == ("operation_profile_bundle", 2)
    assert bundle["profile"]["blockRefs"] == [{"blockId": "b", "order": 7, "enabled": False}]
    assert [block["blockId"] for block in bundle["blocks"]] == ["b"]
    assert import_bundle(json.loads(json.dumps(bundle))) == profile()


def test_a_single_profile_from_before_becomes_one_of_one_block():
    """X11, E19: its operations, with the names that the documents give the fields."""
    old = {
        "profileId": "old", "name": "Old", "enabled": True, "executionMode": "sequential",
        "operationProfileSessionId": "s1", "version": 3,
        "operations": [{"operationId": "a", "kind": "template", "config": {"order": 1, "params": {"template": "x"}}}],
    }  # fmt: skip
    found = import_bundle(old)
    assert (found.profile_id, found.session_id, found.version, found.operations) == ("old", "s1", 3, ())
    assert [one.id for one in found.compile().operations] == ["main:a"]
    assert import_bundle({"version": 1, "profile": old}) == found
    del old["profileId"]
    assert import_bundle(old).profile_id == "Old"


def test_an_import_overwrites_nothing_unless_it_is_told_to():
    """E11, X11: what is taken gets another id, and a session of its own."""
    bundle = export_bundle(profile())
    found = import_bundle(bundle, taken={"diary", "diary-2"})
    assert (found.profile_id, found.name) == ("diary-3", "diary-3")
    assert found.session_id != profile().session_id
    assert import_bundle(bundle, taken={"diary"}, replace=True) == profile()
    assert import_bundle(bundle, taken={"other"}) == profile()


def test_what_is_imported_is_checked_like_what_a_person_writes():
    """R54, X11: nothing that a bundle says is trusted."""
    bundle = export_bundle(profile())
    bundle["blocks"][0]["operations"][0]["config"]["order"] = "first"
    assert refused(bundle)[:2] == ("order_invalid", "block 'b', operation 'a', config.order")


@pytest.mark.parametrize("version", [None, 1, 3, "2", True])
def test_unknown_versions_are_refused_with_what_to_do(version):
    """X11: rather than read wrongly."""
    rule, _, message = refused({**export_bundle(profile()), "version": version})
    assert rule == "bundle_version"
    assert "export it again" in message


@pytest.mark.parametrize(("change", "rule"), [
    ({"blocks": []}, "unknown_block"), ({"blocks": {}}, "bundle_content"), ({"profile": None}, "bundle_content"),
    ({"blocks": [{"blockId": "b"}, {"blockId": "b"}]}, "duplicate_block"), ({"type": "zip"}, "bundle_type"),
    ({"profile": {"profileId": "p", "name": "p", "blockRefs": 5}}, "bundle_content"),
    ({"profile": {"profileId": "p", "name": "p", "blockRefs": [{"blockId": []}]}}, "unknown_block"),
    ({"blocks": [{"blockId": ["b"]}]}, "duplicate_block"),
])  # fmt: skip
def test_what_is_no_bundle_is_refused(change, rule):
    """R54, X11: with a rule of its own."""
    assert refused({**export_bundle(profile()), **change})[0] == rule


@pytest.mark.parametrize("given", [None, 5, [], "x", {}, {"operations": 3}])
def test_what_is_no_profile_at_all_is_refused(given):
    """R54, X11: nothing but a ProfileError is raised."""
    assert refused(given)[0] == "bundle_type"
