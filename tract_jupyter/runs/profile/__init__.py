"""Profiles: which operations belong to a run. They are data; nothing here plans or runs anything (E19)."""

from tract_jupyter.runs.profile.build import operation
from tract_jupyter.runs.profile.bundle import export_bundle, import_bundle
from tract_jupyter.runs.profile.compile import CompiledProfile, compile_profile
from tract_jupyter.runs.profile.lint import Warning, lint  # noqa: A004 # it is what the findings are
from tract_jupyter.runs.profile.model import Block, BlockRef, Profile
from tract_jupyter.runs.profile.validate import read_block, read_profile

__all__ = [
    "Block",
    "BlockRef",
    "CompiledProfile",
    "Profile",
    "Warning",
    "compile_profile",
    "export_bundle",
    "import_bundle",
    "lint",
    "operation",
    "read_block",
    "read_profile",
]
