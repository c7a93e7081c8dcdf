"""Every built-in tool, called according to its schema."""

from __future__ import annotations

import inspect
import json

import jsonschema
import pytest

from tract_jupyter.models.schema import strict_schema


@pytest.fixture
def talk(tract, tmp_path, monkeypatch):
    """A conversation on `main`, a branch `topic` with its own commits, tags, and an agent."""
    monkeypatch.chdir(tmp_path)
    tract.workspace.roots = [tmp_path]
    tract.models.add("small", lambda messages, **options: "It is.")
    tract.agents.create("checker", "Check.", "Checks.", model="small")
    tract.system("Be brief.")
    tract.user("a question", tags=["asked"])
    tract.assistant("an answer", generation_config={"model": "m"})
    tract.branch("topic")
    tract.user("another question")
    tract.switch("main")
    tract.tags.add("HEAD", "checked")
    tract.policies.add("pin")
    tract.autonomy.ceiling = "autonomous"  # new sandboxed operations need no approval
    return tract


DIALOGUE = {"content_type": "dialogue", "role": "user", "text": "hello"}

# as many compatible arguments as possible, and the required part of the result
CALLS = {
    "commit": (
        {"content": DIALOGUE, "operation": "append", "message": "m", "metadata": {"k": 1}, "tags": ["t"]},
        {"operation": "append", "message": "m", "tags": ["t"]},
    ),
    "compile": ({}, None),
    "annotate": (
        {"target_hash": "HEAD", "priority": "pinned", "reason": "r"},
        {"operation": "append", "priority": "pinned"},
    ),
    "status": ({}, {"branch": "main", "commit_count": 3, "message_count": 3, "max_tokens": None}),
    "log": ({"limit": 2, "op_filter": "append"}, None),
    "diff": ({"commit_a": "main", "commit_b": "topic"}, {"unchanged": 3}),
    "compress": ({"content": "They talked.", "to_commit": "main", "preserve": []}, {"branch": "main"}),
    "branch": ({"name": "new", "source": "main", "switch": False}, {"branch": "new", "current": "main"}),
    "switch": ({"target": "topic"}, {"branch": "topic"}),
    "merge": (
        {"source_branch": "topic", "message": "m", "resolver": "theirs"},
        {"merge_type": "fast_forward"},
    ),
    "merge_into": (
        {"target_branch": "main", "source_branch": "topic", "message": "m"},
        {"branch": "main", "current": "main"},
    ),
    "rebase": ({"target_branch": "topic"}, {"branch": "main", "target_branch": "topic"}),
    "archive": ({"branch": "topic", "name": "old/topic"}, {"name": "old/topic"}),
    "cherry_pick": ({"names": ["topic"]}, {"branch": "main"}),
    "child_status": ({}, None),
    "register_policy": (
        {"type": "compress", "name": "tidy", "config": {"threshold": 0.5}},
        {"name": "tidy", "type": "compress", "on": True},
    ),
    "unregister_policy": ({"name": "auto-pin"}, {"removed": True}),
    "toggle_policy": ({"name": "auto-pin", "on": False}, {"name": "auto-pin", "on": False}),
    "reset": ({"target": "topic"}, {"branch": "main"}),
    "checkout": ({"target": "topic"}, {"branch": "topic"}),
    "gc": ({"orphan_retention_days": 1, "dry_run": True}, {"dry_run": True, "commits": []}),
    "list_branches": ({}, None),
    "get_commit": ({"commit_hash": "topic"}, {"content_type": "dialogue"}),
    "tag": ({"commit_hash": "HEAD", "tag": "new"}, {"tags": ["checked", "new"]}),
    "untag": ({"commit_hash": "HEAD", "tag": "checked"}, {"tags": [], "removed": True}),
    "query_by_tags": ({"tags": ["asked", "checked"], "match": "any", "limit": 5}, None),
    "query_by_text": ({"text": "hello", "limit": 5}, None),
    "register_tag": ({"name": "asked", "description": "by a person"}, {"name": "asked"}),
    "get_tags": ({"commit_hash": "HEAD"}, None),
    "list_tags": ({}, None),
    "configure_model": (
        {"model": "m", "operation": "compress", "temperature": 0.5},
        {"operation": "compress", "model": "m", "temperature": 0.5},
    ),
    "propose_operation": (
        {
            "name": "new",
            "description": "d",
            "fields": {"n": {"type": "int"}},
            "unhandled": "ask",
            "actions": {"go": {"code": "pending.approve()", "isolation": "sandbox"}},
        },
        {"operation": "new", "tool": "fire_new", "reviewed": False},
    ),
    "notebook_execute": (
        {"code": "tools.status()['branch']", "notebook_id": "main", "backend": "sandbox"},
        {"status": "completed", "result": "'main'", "tool_calls": 1},
    ),
    "notebook_create": ({"notebook_id": "work", "backend": "kernel"}, {"notebook_id": "work"}),
    "notebook_variables": ({"notebook_id": "main", "backend": "sandbox"}, {}),
    "notebook_reset": ({"notebook_id": "main", "backend": "kernel"}, {"forgotten": 0}),
    "notebook_list": ({}, None),
    "read_result": ({"tool_call_id": "c1", "start": 10, "length": 5}, None),
    "agent_create": (
        {
            "name": "helper",
            "instructions": "Help.",
            "description": "Helps.",
            "model": "small",
            "tools": ["status"],
            "toolsets": ["self"],
            "budget": {"steps": 5},
        },
        {"agent": "helper", "tool": "agents.helper"},
    ),
    "agent_call": ({"agent": "checker", "input": "Is 2 even?", "attachments": []}, {"answer": "It is."}),
    "agent_update": (
        {
            "agent": "checker",
            "instructions": "Check well.",
            "description": "Checks.",
            "model": "small",
            "tools": [],
            "toolsets": ["self"],
            "budget": {"steps": 5},
        },
        {"agent": "checker", "number": 2},
    ),
    "agent_list": ({}, None),
    "agent_retire": ({"agent": "checker"}, {"agent": "checker", "state": "retired"}),
    "agent_promote": ({"agent": "checker", "path": "kept.agent"}, {"agent": "checker"}),
    "tools_search": ({"query": "make a branch"}, None),
    "tools_describe": ({"names": ["status", "log"]}, None),
}
NEEDED_FOR_SENSE = {
    "compress": {"content"},  # without it, a model would write the summary
    "agent_update": {"instructions"},  # a call without any change is an error
}
NO_STRICT_FORM = {  # arguments that can hold any object
    "commit", "merge", "propose_operation", "register_policy", "agent_create", "agent_update",
}  # fmt: skip
READS = {
    "compile", "status", "log", "diff", "list_branches", "get_commit", "query_by_tags", "get_tags", "list_tags",
    "query_by_text", "notebook_variables", "notebook_list", "read_result", "child_status", "tools_search",
    "tools_describe", "agent_list",
}  # fmt: skip
ASKS_ITSELF = {"notebook_execute", "notebook_create", "notebook_reset", "propose_operation", "agent_call"}


def plain(value):
    """Return the value after a JSON round trip."""
    return json.loads(json.dumps(value))


def minimal(name, schema):
    needed = {*schema["required"], *NEEDED_FOR_SENSE.get(name, ())}
    return {key: value for key, value in CALLS[name][0].items() if key in needed}


def schema_of(tract, name):
    return tract.executor.tools()[name].parameters.json_schema


def test_the_table_has_every_tool(tract):
    assert set(CALLS) == set(tract.executor.tools()) == set(tract.toolset("full").tools())


@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_many_arguments(talk, name):
    arguments, expected = CALLS[name]
    jsonschema.validate(arguments, schema_of(talk, name))
    result = talk.executor.execute(name, plain(arguments))
    assert result.success, result.error
    assert result.output == plain(result.output)
    if expected is not None:
        assert expected.items() <= result.output.items()


@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_only_the_required_arguments_succeeds(talk, name):
    schema = schema_of(talk, name)
    jsonschema.Draft202012Validator.check_schema(schema)
    arguments = minimal(name, schema)
    jsonschema.validate(arguments, schema)
    result = talk.executor.execute(name, arguments)
    assert result.success, result.error


@pytest.mark.parametrize("name", CALLS)
def test_a_call_as_a_model_in_strict_mode_writes_it(talk, name):
    schema = schema_of(talk, name)
    strict = strict_schema(schema)
    assert (strict is None) == (name in NO_STRICT_FORM)
    arguments = dict.fromkeys(schema["properties"]) | minimal(name, schema)
    if strict is not None:
        jsonschema.validate(arguments, strict)
    result = talk.executor.execute(name, arguments)
    assert result.success, result.error


@pytest.mark.parametrize("name", CALLS)
def test_arguments_forbidden_by_the_schema_are_refused(talk, name):
    schema = schema_of(talk, name)
    arguments = minimal(name, schema)
    wrong = [
        {**arguments, "surplus": 1},
        *({k: v for k, v in arguments.items() if k != key} for key in schema["required"]),
    ]
    before = talk.status(), talk.log(None)
    for given in wrong:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(given, schema)
        assert not talk.executor.execute(name, given).success
    assert (talk.status(), talk.log(None)) == before


@pytest.mark.parametrize("name", CALLS)
def test_tools_that_only_read_change_nothing(talk, name):
    before = talk.log(None), talk.list_branches(), talk.tags.list(), talk.reflog()
    status = talk.status()
    result = talk.executor.execute(name, CALLS[name][0], actor="agent:1")
    assert result.success == (name in READS | ASKS_ITSELF)
    assert (talk.log(None), talk.list_branches(), talk.tags.list(), talk.reflog()) == before
    assert talk.status() == status or name not in READS  # a request in the inbox is a part of the status


def test_traits(tract):
    traits = {name: tool.traits for name, tool in tract.executor.tools().items()}
    assert {name for name, has in traits.items() if has.read_only} == READS
    assert {name for name, has in traits.items() if has.destructive} == {"gc", "reset"}
    assert {name for name, has in traits.items() if has.open_world} == {"compress", "agent_call"}


def test_every_parameter_is_described(tract):
    for name in CALLS:
        for key, about in schema_of(tract, name)["properties"].items():
            assert about.get("description", "").endswith("."), f"{name}: {key}"


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"notebook_execute"}))
def test_a_tool_calls_its_parameters_as_the_method_does(tract, name):
    of_parts = {
        "tag": tract.tags.add,
        "untag": tract.tags.remove,
        "get_tags": tract.tags.of,
        "list_tags": tract.tags.list,
        "register_tag": tract.tags.register,
        "configure_model": tract.models.configure,
    }
    method = of_parts.get(name) or getattr(type(tract), name, None)
    if method is not None and name != "propose_operation":  # a model passes the parts of a spec
        assert set(schema_of(tract, name)["properties"]) <= set(inspect.signature(method).parameters)
