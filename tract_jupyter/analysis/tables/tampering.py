"""What others rely on: imports, the shell, modules, the guard itself."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels

_NOTEBOOK = levels("""
    high IPython.shell: set_custom_exc set_hook hooks custom_exceptions CustomTB register_post_execute
        builtin_trap display_trap magics_manager register_magics register_magic_function define_magic
        define_macro prefilter_manager init_magics displayhook display_pub sys_excepthook
    medium IPython.shell: events
    high IPython.shell: ast_transformers input_transformers_cleanup input_transformers_post
        configurables excepthook set_trio_runner strdispatchers set_trait push drop_by_id del_var showtraceback
        history_manager
    high IPython.shell.events: register unregister trigger callbacks
    high IPython.shell.ast_transformers: append
    high IPython.shell.input_transformers_cleanup: append
    high IPython.shell.input_transformers_post: append
    high IPython.shell.extension_manager: unload_extension
    medium IPython.shell.display_formatter: formatters ipython_display_formatter
    medium IPython.core.magic: register_line_magic register_cell_magic register_line_cell_magic
        magics_class Magics record_magic
    medium IPython.core.hooks: CommandChainDispatcher
    high .: nbformat.sign.* notebook.nbextensions.* jupyter_contrib_nbextensions.* google.colab._message.*
        notebook.services.* jupyter_server.services.*
    high jupyter_client.kernelspec: install_kernel_spec KernelSpecManager
    high ipykernel.kernelspec: install write_kernel_spec
    low nbformat: write
    high traitlets.config: Application.instance
    high IPython: Application
    low contextlib: redirect_stdout redirect_stderr
    medium linecache: cache lazycache
    medium codecs: register register_error unregister
    medium cgitb: enable
    low logging: setLoggerClass setLogRecordFactory
""")

_PATCHES = levels("""
    medium unittest.mock: patch
    high unittest.mock.patch(): start
    high unittest.mock.patch.object(): start
    high unittest.mock.patch.dict(): start
    high unittest.mock.patch.multiple(): start
    medium pytest: MonkeyPatch
    medium wrapt: wrap_function_wrapper patch_function_wrapper wrap_object transient_function_wrapper
    medium .: gorilla.* gevent.monkey.* eventlet.patcher.*
    medium eventlet: monkey_patch
    high .: forbiddenfruit.* fishhook.*
""")

_GUARD = levels("""
    high .: tract_jupyter.review.* tract_jupyter.storage.* tract_jupyter.hooks.* tract_jupyter.engine.*
        tract_jupyter.facade.* tract_jupyter.history.* tract_jupyter.notebook.* tract_jupyter.toolkit.*
        tract_jupyter.llm.* tract_jupyter.interchange.* tract_jupyter.prompts.*
        tract_jupyter.analysis.rules.* tract_jupyter.analysis.tables.*
    high tract_jupyter.analysis: rules
    high tract_jupyter: unload_ipython_extension review storage hooks engine facade notebook toolkit
    medium tract_jupyter: load_ipython_extension
    low .: tract_jupyter.hooks.PendingStatus.*
    low tract_jupyter.hooks: ActionDef OperationSpec Pending PendingStatus ValidationResult HookEvent
        Consultation auto_retry
    high *: save_handler run_approved through_gate
    medium *: apply_decision revoke_trust
""")

REPLACES_MEMBER = {**_NOTEBOOK, **_PATCHES, **_GUARD}

CHANGES_IMPORTS = levels("""
    medium sys: path path_importer_cache pycache_prefix
    high sys: meta_path path_hooks
    high site: addsitedir addsitepackages addusersitepackages venv execsitecustomize execusercustomize
    high site: addpackage
    high builtins: __build_class__
    medium py_compile: compile
    low compileall: compile_dir compile_file compile_path
    high pyximport: install pyximport
    medium pkgutil: extend_path
    low pkg_resources: require declare_namespace
    medium pkg_resources.working_set: add_entry add
    high ideas.import_hook: create_hook
    medium typeguard: install_import_hook
    medium macropy: activate
""")
