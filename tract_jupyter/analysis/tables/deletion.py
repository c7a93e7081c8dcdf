"""What deletes, moves or changes files."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels

DESTROYS = levels("""
    high shutil: rmtree
    high os: removedirs
    high send2trash: send2trash
    medium os: remove unlink rmdir rename renames replace truncate chmod chown lchown fchmod fchown
    medium shutil: move chown
    medium pathlib.Path(): unlink rmdir rename replace chmod lchmod
    high ?: rmtree unlink remove
""")
