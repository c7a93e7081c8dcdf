"""Text that becomes code."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

_STANDARD = levels("""
    critical builtins: exec eval execfile
    high builtins: compile
    low builtins: breakpoint
    high .: codeop.* idlelib.* _pyrepl.*
    high types: FunctionType CodeType LambdaType
    medium types: CellType
    critical code: interact InteractiveInterpreter InteractiveConsole
    high code: compile_command
    critical pdb: run runeval runcall runctx
    critical pdb.Pdb(): run runeval runcall runctx
    medium pdb: Pdb
    low pdb: set_trace post_mortem pm
    critical cProfile: run runctx
    critical cProfile.Profile(): run runctx
    critical profile: run runctx
    critical profile.Profile(): run runctx
    high cProfile: main
    high profile: main
    critical trace.Trace(): run runctx
    high trace: main
    critical bdb.Bdb(): run runeval runctx
    high bdb: effective
    medium bdb: Bdb
    high timeit: timeit repeat Timer main
    high runpy: run_module run_path _run_code _run_module_code _run_module_as_main
    high doctest: testmod testfile run_docstring_examples debug debug_src debug_script DocTestRunner
        DocTestSuite DocFileSuite DocFileTest
    high typing: get_type_hints
    medium typing: ForwardRef _eval_type evaluate_forward_ref
    high typing.ForwardRef(): _evaluate evaluate
    high inspect: get_annotations
    medium annotationlib: get_annotations ForwardRef call_evaluate_function call_annotate_function
    high gettext: c2py
    high optparse.Values: read_file read_module
    high optparse.Values(): read_file read_module
    medium rlcompleter: Completer
    medium turtle: config_dict readconfig read_docstrings write_docstringdict
    high tkinter.Tk(): eval evalfile call tk readprofile createcommand
    high tkinter: Tcl
    high _tkinter: create
    low unittest: main
    high unittest.TestLoader(): discover loadTestsFromName loadTestsFromNames
    high unittest.defaultTestLoader: discover loadTestsFromName loadTestsFromNames
    high multiprocessing.managers: MakeProxyType
    medium pydoc: Helper ModuleScanner render_doc doc writedoc writedocs apropos cli
    critical sys: remote_exec
    critical .: _xxsubinterpreters.* _interpreters.* _xxinterpchannels.* interpreters_backports.*
    high .: concurrent.interpreters.* test.support.interpreters.*
    critical _testcapi: run_in_subinterp run_in_subinterp_with_config eval_eval_code_ex
    critical _testinternalcapi: run_in_subinterp_with_config
    high multiprocessing.spawn: _main spawn_main prepare import_main_path
    critical ?: exec eval
    high ?: execfile run_path run_module interact compile_command FunctionType CodeType
""")

_SHELL = levels("""
    critical IPython.shell: ex ev run_cell run_cell_async run_code run_ast_nodes runcode runlines safe_execfile
        safe_execfile_ipy safe_run_module system getoutput getoutput_s system_raw system_piped
    high IPython.shell: run_cell_magic user_expressions var_expand alias_manager input_transformer_manager
    high IPython.shell.extension_manager: load_extension reload_extension
    critical IPython: embed start_ipython start_kernel embed_kernel
    critical IPython.terminal.embed: embed InteractiveShellEmbed
    critical IPython.terminal.ipapp: launch_new_instance
    critical ipykernel.embed: embed_kernel
    critical IPython.utils.py3compat: execfile
    critical IPython.testing.tools: ipexec ipexec_validate
    high IPython.lib.backgroundjobs: BackgroundJobManager BackgroundJobExpr
    high IPython.lib.demo: Demo IPythonDemo LineDemo ClearDemo
    high IPython.core.debugger.Pdb(): run runeval runctx
    low IPython.core.debugger: set_trace Pdb
    high IPython.display: Javascript display_javascript
    medium IPython.display: publish_display_data
    low bokeh.models: CustomJS
    high google.colab.output: eval_js
    medium google.colab.output: register_callback
    high ipylab: JupyterFrontEnd
    high .: metakernel.*
""")

_PACKAGES = levels("""
    critical six: exec_
    critical future.utils: exec_
    critical numpy.testing: runstring rundocs measure
    high numpy.lib.utils: safe_eval
    critical hy: eval
    critical hy.compiler: hy_eval hy_compile
    critical coconut.api: coconut_eval coconut_exec
    critical coconut.convenience: coconut_eval coconut_exec
    critical bpython: embed
    critical bpython.cli: main
    critical ptpython.repl: embed
    critical ptpython.ipython: embed
    critical konch: start
    critical pyrasite: inject
    critical hypno: inject_py
    critical rpyc.classic: execute eval
    high .: remote_pdb.* rpdb.* web_pdb.* manhole.* bytecode.* rpyc.*
    medium pydevd: settrace
    medium pydevd_pycharm: settrace
    critical pyodide: eval_code eval_code_async runPython
    critical pyodide.code: eval_code eval_code_async run_js
    critical js: eval
    medium .: js.*
    high pytest: main
    high .: nose.* nose2.* importnb.*
    low ipytest: run
    high cookiecutter.main: cookiecutter
    high copier: run_copy run_update run_recopy
    medium fire: Fire
    high torch.hub: load
    medium torch.hub: list help
    medium torch.jit: CompilationUnit
    critical torch.distributed.rpc: rpc_sync rpc_async remote init_rpc
    high keras.config: enable_unsafe_deserialization
    high transformers: load_tool launch_gradio_demo
    high transformers.Tool: from_hub
    high transformers.dynamic_module_utils: get_class_from_dynamic_module get_cached_module_file
    low evaluate: load
    medium detectron2.config: instantiate
    high detectron2.config.LazyConfig: load
    high mmengine.Config: fromfile fromstring
    high mmengine.config.Config: fromfile fromstring
    high mmcv.Config: fromfile fromstring
    medium *: from_hparams
""")

_AGENTS = levels("""
    critical .: langchain_experimental.utilities.* langchain_experimental.tools.* langchain.python.*
        langchain_experimental.llm_bash.* langchain_community.tools.shell.* autogen.code_utils.*
    critical langchain_community.tools: ShellTool
    critical langchain.tools: ShellTool PythonREPLTool
    critical langchain.utilities: PythonREPL BashProcess
    critical langchain_community.utilities: PythonREPL
    high .: langchain_experimental.pal_chain.* langchain_experimental.agents.* langchain.agents.agent_toolkits.*
        autogen.coding.* autogen_ext.code_executors.* pandasai.* crewai_tools.* agno.tools.*
        phi.tools.* llama_index.packs.* llama_index.tools.code_interpreter.* claude_agent_sdk.* claude_code_sdk.*
        llama_index.experimental.* aider.* metagpt.* open_interpreter.* taskweaver.* camel.interpreters.*
        google.adk.code_executors.* codeinterpreterapi.*
    high langchain.agents: create_csv_agent create_pandas_dataframe_agent create_python_agent
    medium langchain.agents: load_tools
    medium langchain_community.agent_toolkits.load_tools: load_tools
    high langchain.chains: PALChain LLMBashChain
    medium langchain.chains: LLMMathChain
    high llama_index.core.query_engine: PandasQueryEngine
    high llama_index.query_engine: PandasQueryEngine
    high llama_index.core.llama_pack: download_llama_pack
    high llama_index.core: download_loader
    high llama_index: download_loader
    high smolagents: CodeAgent LocalPythonExecutor PythonInterpreterTool load_tool evaluate_python_code
    high smolagents.Tool: from_hub from_code from_space
    high transformers.agents: CodeAgent ReactCodeAgent PythonInterpreterTool evaluate_python_code
    high autogen: UserProxyAgent LocalCommandLineCodeExecutor
    high autogen_agentchat.agents: CodeExecutorAgent
    high interpreter: interpreter OpenInterpreter
    high camel.toolkits: CodeExecutionToolkit TerminalToolkit
    high agents: LocalShellTool ComputerTool CodeInterpreterTool
    high strands_tools: shell python_repl use_computer
    medium langchain_sandbox: PyodideSandbox
    medium llm_sandbox: SandboxSession
    high dspy: PythonInterpreter ProgramOfThought CodeAct
    medium e2b_code_interpreter: Sandbox
    high semantic_kernel.core_plugins: SessionsPythonTool
""")

RUNS_TEXT = {**_STANDARD, **_SHELL, **_PACKAGES, **_AGENTS}

RUNS_TEXT_MODULES = modules("""
    high: code codeop
    medium: _xxsubinterpreters _interpreters import_ipynb importnb langchain_experimental
    low: runpy
""")

EVALUATES_EXPRESSION = levels("""
    high sympy: sympify parse_expr
    low sympy: lambdify
    high sympy.parsing.sympy_parser: parse_expr eval_expr
    high sympy.parsing.maxima: parse_maxima
    high sympy.parsing.mathematica: parse_mathematica mathematica
    high jinja2: Template
    high jinja2.Environment(): from_string compile_expression
    high jinja2.nativetypes: NativeTemplate NativeEnvironment
    low jinja2.sandbox: SandboxedEnvironment ImmutableSandboxedEnvironment
    high flask: render_template_string
    high .: mako.template.* mako.lookup.* chameleon.* genshi.template.* wheezy.template.* web.template.*
        Cheetah.Template.* empy.* pyratemp.*
    high bottle: template SimpleTemplate
    high tornado.template: Template Loader DictLoader
    medium numexpr: evaluate re_evaluate NumExpr validate
    high sage.all: sage_eval load attach cython
    high sage.misc.sage_eval: sage_eval
    high PIL.ImageMath: eval unsafe_eval
    low pandas: eval
    low patsy: dmatrix dmatrices
    medium dask.dataframe: eval
    high .: asteval.* simpleeval.* evalidate.* pyeval.*
    high RestrictedPython: compile_restricted compile_restricted_exec compile_restricted_eval
        compile_restricted_function compile_restricted_single
    low duckdb: sql query execute
""")

CONFIGURES_BY_NAME = levels("""
    medium logging.config: dictConfig fileConfig listen DictConfigurator dictConfigClass
    medium hydra.utils: instantiate call get_method get_class get_object get_static_method
    medium gin: parse_config parse_config_file parse_config_files_and_bindings
    medium pydantic: ImportString PyObject
    medium jsonargparse: CLI
    medium omegaconf.OmegaConf: register_new_resolver register_resolver
    medium stevedore: DriverManager ExtensionManager NamedExtensionManager
""")

RUNS_MAGIC = levels("""
    high IPython.shell: run_line_magic magic find_magic find_line_magic find_cell_magic
""")
