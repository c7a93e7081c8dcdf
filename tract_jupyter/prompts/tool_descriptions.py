"""The descriptions of the built-in tools for agents.

`SELF` is for an agent that manages the context it works with itself, `SUPERVISOR` for one that manages the context of
another agent; a tool that a profile lacks has no text there. For everybody else, people included, a tool is described
by the docstring of its function.
"""

from __future__ import annotations

from typing import Final

SELF: Final = {
    "commit": (
        "Record something in your own context that you will need later: a decision, a finding, a plan. With "
        "operation 'edit', correct what an earlier message says, in its place."
    ),
    "compile": (
        "Read your whole context again as it stands now. It is as long as the context itself: status and log tell "
        "most things with less."
    ),
    "annotate": (
        "Say how much a message of your context matters to you. Pin what must never be lost, such as the task and its "
        "constraints; skip what is done with, and it leaves your context but not the history."
    ),
    "status": "See how full your context is: tokens in use, the budget, the branch you are on.",
    "log": "List what was added to your context last, with the hashes that the other tools take.",
    "compress": (
        "Make room in your context: replace messages that you are done with by a summary, best one that you write "
        "yourself. Keep facts, decisions and open questions; pinned messages stay word for word."
    ),
    "branch": "Try an idea on a branch of your context; if it leads nowhere, switch back and it never happened.",
    "switch": "Go on with another branch of your context.",
    "reset": (
        "Take your context back to an earlier commit, after a wrong turn. What you leave behind is no longer in your "
        "context; write down first what you learned. ORIG_HEAD names where you were."
    ),
    "tag": "Mark a message of your context with a word, to find it again.",
    "untag": "Take a mark off a message of your context. Tags that it was made with stay.",
    "query_by_tags": "Find the messages of your context that carry certain tags.",
    "register_tag": "Note what one of your tags means, so that you use it in one sense.",
    "get_tags": "See which tags a message of your context has.",
    "list_tags": "See all tags in use in your context, what they mean, and how often they occur.",
    "configure_model": "Have another model, or another temperature, for one kind of your own work from now on.",
    "notebook_execute": (
        "Do several steps in one: Python that calls tools as tools.NAME(...) and prints what you need to know. What "
        "the tools give back stays out of your context. The sandbox runs it at once; the kernel, which has files and "
        "packages, after a person approved the code."
    ),
    "notebook_create": "Make another script notebook, with variables of its own, for another task of yours.",
    "notebook_variables": "See which variables your scripts left in a script notebook, with their types.",
    "notebook_reset": "Forget the variables of your scripts in one script notebook.",
    "notebook_list": "List your script notebooks, and how many variables each has.",
}
"""For an agent that manages the context it works with itself."""

SUPERVISOR: Final = {
    "commit": (
        "Add a message or an instruction to the managed agent's context, which it will read next; with operation "
        "'edit', correct one in its place."
    ),
    "compile": "Read the managed agent's context, message by message as its model is sent it.",
    "annotate": (
        "Decide what the managed agent keeps in view: pin what it must not lose, skip what misleads it or is done with."
    ),
    "status": "See how full the managed agent's context is, and which branch it is on. A good first call.",
    "log": "List what was added to the managed agent's context last, with the hashes that the other tools take.",
    "diff": "See what changed in the managed agent's context between two commits.",
    "compress": (
        "Free tokens in the managed agent's context: replace messages that its task no longer needs by a summary. Pin "
        "or preserve its instructions and decisions first."
    ),
    "branch": "Keep the managed agent's state under a name, or have it go on elsewhere without losing this line.",
    "switch": "Have the managed agent go on with another branch.",
    "merge": "Bring what the agent found out on another branch into its current one.",
    "merge_into": (
        "Bring a branch that the managed agent has finished into another one, such as main; it goes on where it is. To "
        "bring one into its current branch, use merge."
    ),
    "rebase": (
        "Have the managed agent's branch go on from the tip of another one that has moved on. Its own messages are "
        "copied; not for a branch that others work on."
    ),
    "archive": "Put a branch away that the managed agent does not need now, under another name; nothing is lost.",
    "cherry_pick": (
        "Copy single messages from another branch of the managed agent into its current one, where a merge would bring "
        "too much."
    ),
    "child_status": "See how far the managed agent's own children are: their task, branch, commits and tokens.",
    "register_policy": (
        "Have the managed agent's context watched from now on: a policy proposes to compress, pin, merge, ... when it "
        "is time. For something that is due now, use the tool itself."
    ),
    "unregister_policy": (
        "Remove a policy from the managed agent's context for good. To have it rest, use toggle_policy."
    ),
    "toggle_policy": "Have a policy of the managed agent's context rest, or watch again, with its settings.",
    "reset": (
        "Take the managed agent back to an earlier commit, after it went astray. Later messages leave its context; "
        "ORIG_HEAD names where it was."
    ),
    "checkout": (
        "Look at the managed agent's context at an earlier commit. While it is there, nothing can be committed: switch "
        "back to a branch afterwards."
    ),
    "gc": (
        "Remove commits for good that none of the managed agent's branches lead to. Try it with dry_run first: nothing "
        "brings them back."
    ),
    "list_branches": "List the managed agent's branches, and which one it works on.",
    "get_commit": "Read one commit of the managed agent's context whole, where log gives only a line.",
    "tag": "Mark a commit of the managed agent's context, to find it again.",
    "untag": "Take a mark off a commit of the managed agent's context. Tags that it was made with stay.",
    "query_by_tags": "Find commits of the managed agent's context by their tags.",
    "register_tag": "Say what a tag means, for yourself and for the managed agent.",
    "get_tags": "See which tags a commit of the managed agent's context has.",
    "list_tags": "See all tags in the managed agent's context, what they mean, and how often they occur.",
    "configure_model": "Decide which model the managed agent uses for one kind of work, and how much it may vary.",
    "propose_operation": (
        "Define an operation that can be fired from then on, by the managed agent too: fields, and actions to decide. "
        "A person reviews it first, unless autonomy is 'autonomous' and all actions of a new one declare 'sandbox'."
    ),
    "notebook_execute": (
        "Look through the agent's context by code: Python that calls tools as tools.NAME(...), and prints what "
        "matters. The sandbox runs it at once; the kernel after a person approved the code."
    ),
    "notebook_create": "Make a script notebook, such as one for each agent that you look after.",
    "notebook_variables": "List the variables of a script notebook; they are those of scripts, not of the agent.",
    "notebook_reset": "Forget the variables of a script notebook; the agent's context stays as it is.",
    "notebook_list": "List the script notebooks; the agent's own are among them.",
}
"""For an agent that manages the context of another agent."""

UNREVIEWED: Final = "(A model wrote this; no person has reviewed it.)"
"""Follows the description of an operation that nobody reviewed."""
