"""Upper folders of an overlay for tests: changed files as a copy leaves them, without a mount."""

from __future__ import annotations

import os
import stat

from tract_jupyter.rehearsal import Baseline, find_effects


def write_files(folder, files):
    """Write files by their paths. None is the mark of a deleted file, and a path with `/` at its end a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif content is None:
            os.mknod(path, stat.S_IFCHR, 0)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def tree_of(folder):
    """Return the content of all files below a folder, by path; None for a folder."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def findings_with(upper, workspace, **options):
    """Return the effects of an upper folder."""
    folder = os.open(upper, os.O_RDONLY | os.O_DIRECTORY)
    return find_effects([], Baseline.take("", {}), workspace, upper=folder, **options)
