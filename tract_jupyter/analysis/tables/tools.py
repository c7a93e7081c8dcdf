"""The parts of this package that review, sign and decide; code under review has no business there."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

DECIDES = levels("""
    high .: tract_jupyter.review.* tract_jupyter.hooks.* tract_jupyter.storage.* tract_jupyter.notebook.*
        tract_jupyter.engine.* tract_jupyter.toolkit.* tract_jupyter.session.*
    high *: _permission_plugin set_permission_plugin _allow_all revoke_trust apply_decision
        unlock_tool register_operation save_handler
    medium *: unregister_operation delete_handler remove_tool add_mcp_server remove_mcp_server run_script
""")

DECIDES_MODULES = modules("""
    high: tract_jupyter.review tract_jupyter.hooks tract_jupyter.storage tract_jupyter.notebook
        tract_jupyter.engine tract_jupyter.toolkit tract_jupyter.session
""")
