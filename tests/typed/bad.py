# ruff: noqa: B018, F401, I001
# fmt: off
"""A user's script, wrong in every line that says so: type checkers find each of them, and nothing else."""

from tract_jupyter import Nothing  # wrong: no such name
from tract_jupyter import OperationProfile, OperationSpec, Tract, run_operation

OperationSpec(nome=3)  # wrong: no such field
OperationProfile.of(3)  # wrong: a name is a text
run_operation("style", ordre=1)  # wrong: `order` is missing
Tract.open(timeout=3)  # wrong: it is called `lock_timeout`
with Tract.open() as t:
    t.usr("Hello.")  # wrong: no such verb
    t.user(3)  # wrong: a message is a text
    t.compile().tokens  # wrong: it is called `token_count`
    t.user("x") + 1  # wrong: a commit is no number
    t.fire("o", [1])  # wrong: fields have names
    t.merge(message="x")  # wrong: which branch is missing
    t.user("x", mesage="y")  # wrong: it is called `message`
    t.assistant("x", tags=3)  # wrong: tags are several
    t.tool_result("1", "look", "x", is_eror=True)  # wrong: it is called `is_error`
    t.propose_merge("topic", strategie="auto")  # wrong: it is called `strategy`
    t.fire("o", reviw=True)  # wrong: it is called `review`
    t.mcp.add("files", comand=["x"])  # wrong: it is called `command`
    t.tags.ad("main", "x")  # wrong: it is called `add`
