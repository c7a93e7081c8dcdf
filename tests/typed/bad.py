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
