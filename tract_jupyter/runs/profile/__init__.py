"""Profiles: which operations belong to a run. They are data; nothing here plans or runs anything (E19)."""

from tract_jupyter.runs.profile.build import run_operation
from tract_jupyter.runs.profile.bundle import CompiledProfile, compile_profile, export_bundle, import_bundle
from tract_jupyter.runs.profile.lint import ProfileWarning, lint
from tract_jupyter.runs.profile.model import Block, BlockRef, OperationProfile
from tract_jupyter.runs.profile.validate import read_block, read_profile

__all__ = [
    "Block",
    "BlockRef",
    "CompiledProfile",
    "OperationProfile",
    "ProfileWarning",
    "compile_profile",
    "export_bundle",
    "import_bundle",
    "lint",
    "read_block",
    "read_profile",
    "run_operation",
]
