"""HEAD and the branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.facade.parts import Parts

if TYPE_CHECKING:
    from tract_jupyter.context.undo import UndoStep
    from tract_jupyter.models.commit import BranchInfo
    from tract_jupyter.storage.refs import Move


class Branches(Parts):
    """The part of `Tract` that moves HEAD and branches."""

    @property
    def head(self) -> str | None:
        """The hash of the newest commit of the current branch, or the commit that HEAD is detached at."""
        return self._refs.position.commit_hash

    @property
    def current_branch(self) -> str | None:
        """The name of the current branch; None if HEAD is detached."""
        return self._refs.position.branch

    @property
    def is_detached(self) -> bool:
        """Whether HEAD names a commit instead of a branch."""
        return self._refs.position.branch is None

    def branch(self, name: str, *, source: str | None = None, switch: bool = True) -> str | None:
        """Make a branch at `source` (HEAD by default), switch to it, and return its commit.

        Raises:
            InvalidBranchNameError: git would refuse the name.
            BranchExistsError: there is such a branch.
            CommitNotFoundError: `source` names nothing.
        """
        return self._refs.branch(name, source=source, switch=switch)

    def switch(self, target: str) -> str | None:
        """Make a branch the current one and return its commit; `-` is the one before.

        Raises:
            BranchNotFoundError: there is no such branch.
        """
        return self._refs.switch(target)

    def checkout(self, target: str) -> str | None:
        """Switch to a branch, or detach HEAD at a commit; `-` goes back to where HEAD was. Returns the commit.

        Raises:
            CommitNotFoundError: `target` is neither a branch nor a commit.
        """
        return self._refs.checkout(target)

    def reset(self, target: str) -> str:
        """Move the current branch to another commit; `undo` moves it back, `ORIG_HEAD` names where it was.

        Raises:
            CommitNotFoundError: `target` names nothing.
            DetachedHeadError: there is no current branch.
        """
        return self._refs.reset(target)

    def list_branches(self) -> list[BranchInfo]:
        """All branches, by name."""
        return self._refs.list_branches()

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Delete a branch; `force` even if no other branch holds its commits.

        Raises:
            BranchNotFoundError: there is no such branch.
            BranchError: it is the current one.
            UnmergedBranchError: it has commits of its own, and `force` is not given.
        """
        self._refs.delete(name, force=force)

    def undo(self) -> UndoStep:
        """Take back the last operation on the current branch: a commit, merge, compression, reset, ...

        Raises:
            HistoryError: there is nothing to undo, or `gc` removed what it would go back to.
            DetachedHeadError: there is no current branch.
        """
        return self._undo.run()

    def redo(self) -> UndoStep:
        """Do again what was undone last.

        Raises:
            HistoryError: nothing was undone since the last commit.
            DetachedHeadError: there is no current branch.
        """
        return self._undo.run(redo=True)

    def preview_undo(self, *, redo: bool = False) -> UndoStep:
        """What `undo`, or `redo`, would move. Changes nothing."""
        return self._undo.preview(redo=redo)

    def reflog(self, limit: int = 100) -> list[Move]:
        """The moves of the current branch, newest first; plain commits are not among them."""
        return self._refs.reflog(limit)
