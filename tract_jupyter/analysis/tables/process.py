"""Programs that are started, processes that are steered, packages that are installed."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

_STANDARD = levels("""
    critical os: system popen startfile posix_spawn posix_spawnp chroot execl execle execlp execlpe
        execv execve execvp execvpe
    high os: spawn spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe
    critical subprocess: run call check_call check_output Popen getoutput getstatusoutput
    critical .: subprocess.* _posixsubprocess.* popen2.* _bootsubprocess.*
    low subprocess: TimeoutExpired CompletedProcess list2cmdline
    critical commands: getoutput getstatusoutput getstatus
    critical pty: spawn
    critical asyncio: create_subprocess_shell create_subprocess_exec
    critical asyncio.subprocess: create_subprocess_shell create_subprocess_exec
    critical asyncio.get_event_loop(): subprocess_shell subprocess_exec
    critical *: create_subprocess_shell create_subprocess_exec subprocess_shell subprocess_exec
    critical pipes: Template
    critical mailcap: findmatch test
    critical _winapi: CreateProcess
    critical pydoc: pipepager tempfilepager pipe_pager tempfile_pager
    critical _pyrepl.pager: pipe_pager tempfile_pager
    critical distutils.spawn: spawn
    critical distutils.ccompiler.CCompiler(): spawn
    critical multiprocessing.util: spawnv_passfds
    high multiprocessing: set_executable
    high multiprocessing.spawn: set_executable
    high multiprocessing.forkserver: main ensure_running
    high .: multiprocessing.popen_fork.* multiprocessing.popen_forkserver.* multiprocessing.popen_spawn_posix.*
        multiprocessing.popen_spawn_win32.*
    high webbrowser: register GenericBrowser BackgroundBrowser UnixBrowser Konqueror MacOSX MacOSXOSAScript
        WindowsDefault Mozilla Chrome Chromium Edge Opera Elinks
    medium webbrowser: get
    high imaplib: IMAP4_stream
    high http.server: CGIHTTPRequestHandler
    medium _osx_support: customize_compiler customize_config_vars compiler_fixup
    high .: test.support.script_helper.*
    high distutils.util: byte_compile
    medium venv: create main EnvBuilder
    high ?: system popen startfile posix_spawn posix_spawnp execl execle execlp execlpe execv execve execvp
        execvpe spawn spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe Popen check_output
        check_call getoutput getstatusoutput fork_exec
""")

_RUNNERS = levels("""
    critical .: sh.* plumbum.* fabric.* pexpect.* ptyprocess.* winpty.* sarge.* delegator.* envoy.* pbs.*
        easyprocess.* command_runner.* xonsh.*
    low sh: ErrorReturnCode
    low plumbum: cli colors CommandNotFound
    low .: plumbum.cli.* plumbum.colors.*
    low pexpect: EOF TIMEOUT
    critical invoke: run Context Program Local
    critical invoke.Context(): run sudo
    critical psutil: Popen
    critical executor: execute ExternalCommand
    critical anyio: run_process open_process
    medium anyio.to_process: run_sync
    critical trio: run_process open_process
    critical trio.lowlevel: open_process
    critical twisted.internet.reactor: spawnProcess
    critical twisted.internet.utils: getProcessOutput getProcessValue getProcessOutputAndValue
    critical tornado.process: Subprocess
    critical IPython.utils.process: system getoutput getoutputerror process_handler
    critical IPython.utils._process_common: system getoutput getoutputerror process_handler
    critical .: IPython.utils._process_posix.* IPython.utils._process_win32.*
    critical google.colab._system_commands: _run_command
    critical numpy.distutils.exec_command: exec_command filepath_from_subprocess_output
    critical paver.easy: sh
    critical snakemake: shell shell.shell
    critical grass.script: run_command read_command start_command pipe_command
    critical nipype.interfaces.base: CommandLine
    critical .: airflow.operators.bash.* airflow.operators.bash_operator.* airflow.providers.ssh.operators.*
        airflow.providers.standard.operators.bash.*
    critical .: prefect_shell.* dagster_shell.*
    critical luigi.contrib.external_program: ExternalProgramTask ExternalPythonProgramTask
    critical ansible_runner: run run_async run_command run_command_async interface
    critical win32api: ShellExecute WinExec
    critical .: win32process.CreateProcess win32com.shell.shell.ShellExecuteEx
    critical System.Diagnostics: Process
    critical Foundation: NSTask NSAppleScript
    critical .: applescript.* osascript.*
    critical .: ROOT.gSystem.Exec ROOT.gSystem.OpenPipe rpyc.classic.connect_subproc
    critical daemon: DaemonContext
    critical .: PyQt5.QtCore.QProcess PyQt6.QtCore.QProcess PySide2.QtCore.QProcess PySide6.QtCore.QProcess
    critical gi.repository: GLib.spawn_async GLib.spawn_sync GLib.spawn_command_line_async
        GLib.spawn_command_line_sync Gio.Subprocess
    critical wx: Execute Shell
    high execnet: makegateway Group
    high ansible.executor.playbook_executor: PlaybookExecutor
    high mlflow: run projects.run
    high mcp: stdio_client StdioServerParameters
    high mcp.client.stdio: stdio_client StdioServerParameters
    high langchain_mcp_adapters.client: MultiServerMCPClient
    high smolagents: ToolCollection MCPClient
    high pydantic_ai.mcp: MCPServerStdio
    high mcp_use: MCPClient
    high semantic_kernel.connectors.mcp: MCPStdioPlugin
    high git: Git
    high git.cmd: Git
    high git.Repo(): git
    high git.Repo: clone_from
    medium git.Repo(): remote remotes create_remote index submodules config_writer
    medium git: Repo
    medium .: ffmpeg.*
    low ffmpeg: input output filter
    high crontab: CronTab CronItem
    medium AppKit: NSWorkspace
""")

_BROWSERS_AND_CONTAINERS = levels("""
    high .: selenium.* playwright.* patchright.* pyppeteer.* splinter.* helium.* undetected_chromedriver.*
        webdriver_manager.* nodriver.* seleniumbase.* browser_use.* DrissionPage.* seleniumwire.*
    low .: selenium.common.* selenium.webdriver.common.* selenium.webdriver.support.*
    high .: docker.* python_on_whales.* podman.* testcontainers.* libvirt.* vagrant.*
    high docker.from_env(): containers images volumes networks swarm
    high docker.DockerClient(): containers images volumes networks swarm
""")

_KERNELS = levels("""
    high nbconvert.preprocessors: ExecutePreprocessor
    high nbconvert.preprocessors.execute: ExecutePreprocessor executenb
    high nbconvert.preprocessors.ExecutePreprocessor(): preprocess
    high nbconvert.nbconvertapp: main NbConvertApp
    high .: nbclient.* papermill.* testbook.* ipyparallel.* jupyter_kernel_gateway.* voila.*
    high jupyter_client: KernelManager AsyncKernelManager BlockingKernelClient KernelClient AsyncKernelClient
        MultiKernelManager AsyncMultiKernelManager run_kernel
    high .: jupyter_client.manager.* jupyter_client.launcher.* jupyter_client.multikernelmanager.*
        jupyter_client.blocking.* jupyter_client.asynchronous.* jupyter_client.provisioning.*
    high ipykernel.kernelapp: launch_new_instance IPKernelApp
    high jupyter_core.command: main
    high .: notebook.app.* jupyterlab.labapp.* pyngrok.* nmap.* pwn.* pwnlib.* appium.*
    high streamlit.web: bootstrap.run cli.main
""")

_LANGUAGES = levels("""
    high rpy2.robjects: r R
    high rpy2.rinterface: evalr initr
    high rpy2.rinterface_lib.embedded: _initr
    medium rpy2.robjects.packages: importr SignatureTranslatedAnonymousPackage STAP
    high oct2py: Oct2Py octave
    high .: matlab.engine.* jpype.* jnius.* juliacall.* julia.* js2py.* execjs.* rubicon.*
    high py4j.java_gateway: JavaGateway launch_gateway
    medium *: _jvm
    high lupa: LuaRuntime
    high .: pythonmonkey.*
    medium pyswip: Prolog
    medium .: dukpy.* quickjs.* py_mini_racer.* v8eval.* STPyV8.*
    high win32com.client: Dispatch DispatchEx GetObject gencache.EnsureDispatch
    high comtypes.client: CreateObject
    high wmi: WMI
    high .: pywinauto.* appscript.* ahk.*
    medium xlwings: App Book
""")

STARTS_PROGRAM = {**_STANDARD, **_RUNNERS, **_BROWSERS_AND_CONTAINERS, **_KERNELS, **_LANGUAGES}

STARTS_PROGRAM_MODULES = modules("""
    high: subprocess pty popen2 pipes _posixsubprocess pexpect ptyprocess winpty sarge delegator envoy
        plumbum fabric sh
    medium: commands invoke selenium playwright pyppeteer docker jpype jnius js2py execjs papermill nbclient
        ipyparallel pywinauto win32com.client ansible_runner
""")

STEERS_PROCESS = levels("""
    medium .: apscheduler.schedulers.* crontab.*
    high os: fork forkpty kill killpg _exit abort unshare setns
    high os: dup2
    medium os: setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups
        initgroups setsid setpgid setpgrp tcsetpgrp nice setpriority sched_setscheduler sched_setparam
        sched_setaffinity closerange register_at_fork memfd_create openpty login_tty plock pidfd_open
    low os: umask
    medium sys: exit settrace setprofile set_asyncgen_hooks set_coroutine_origin_tracking_depth
        _settraceallthreads _setprofileallthreads
    medium .: sys.monitoring.*
    low sys: setrecursionlimit setswitchinterval set_int_max_str_digits _clear_type_cache _clear_internal_caches
    medium builtins: SystemExit exit quit
    medium threading: settrace setprofile settrace_all_threads setprofile_all_threads interrupt_main
        _shutdown _register_atexit
    high signal: pthread_kill raise_signal pidfd_send_signal
    medium signal: signal alarm setitimer pthread_sigmask siginterrupt
        set_wakeup_fd pidfd_send_signal
    medium resource: setrlimit prlimit
    medium atexit: register unregister _clear _run_exitfuncs
    medium faulthandler: disable cancel_dump_traceback_later dump_traceback_later register unregister
    high faulthandler: _sigsegv _sigabrt _sigfpe _read_null _fatal_error _fatal_error_c_thread
        _stack_overflow _raise_exception
    low gc: disable freeze set_threshold set_debug
    medium pty: fork
    medium fcntl: ioctl
    medium termios: tcsetattr tcsendbreak
    medium tty: setraw setcbreak
    low multiprocessing: Manager set_start_method set_forkserver_preload active_children
    medium multiprocessing: Process
    low multiprocessing: Pool
    low concurrent.futures: ProcessPoolExecutor InterpreterPoolExecutor
    medium concurrent.futures.ProcessPoolExecutor(): kill_workers terminate_workers
    low asyncio: set_event_loop_policy set_child_watcher
    low logging: disable shutdown
    low builtins: input
    medium ?: fork forkpty kill killpg _exit abort
    high IPython.shell: ask_exit exit_now exiter
    medium IPython.shell: reset atexit_operations
    medium google.colab.runtime: unassign
    high psutil.Process(): kill terminate suspend resume send_signal
    medium psutil.Process(): nice ionice cpu_affinity rlimit
    low psutil: process_iter pids wait_procs
    high win32api: TerminateProcess OpenProcess GenerateConsoleCtrlEvent
    high win32process: TerminateProcess CreateRemoteThread
    high .: win32service.* win32serviceutil.* dbus.* systemd.*
    medium .: prctl.* setproctitle.* pathos.* ppft.*
    medium tornado: process.fork_processes autoreload.start autoreload.watch
    medium torch.multiprocessing: spawn start_processes
    medium .: torch.distributed.run.* torch.distributed.launch.* torch.distributed.launcher.*
    medium ray: init kill shutdown
    high dask.distributed: SSHCluster
    low dask.distributed: Client LocalCluster
    medium celery: Celery
    high .: pyautogui.* pynput.* pydirectinput.*
    high keyboard: write press send press_and_release add_hotkey
    high mouse: click move press
""")

STEERS_PROCESS_MODULES = modules("""
    low: multiprocessing
    high: pyautogui pynput
    none: multiprocessing.pool multiprocessing.dummy multiprocessing.shared_memory
""")

INSTALLS_PACKAGE = levels("""
    high .: pip.* ensurepip.* micropip.* piplite.* conda.* mamba.* libmambapy.* easy_install.* pipenv.*
        poetry.* setuptools.command.* setuptools.build_meta.* distutils.command.* condacolab.*
    low pip: get_installed_distributions
    high setuptools: setup
    high setuptools: sandbox.run_setup
    high distutils.core: setup run_setup
    high numpy: distutils.core.setup
    high pkg_resources: run_script run_main
    high .: pyodide_js.loadPackage js.pyodide.loadPackage
    high build: ProjectBuilder
    high pyproject_hooks: BuildBackendHookCaller
    medium uv: find_uv_bin
    medium virtualenv: cli_run session_via_cli
    medium spacy.cli: download download.download
    medium cmdstanpy: install_cmdstan
    medium pypandoc: download_pandoc
    medium rpy2.robjects.packages.importr(): install_packages
    high site: main
""")

INSTALLS_PACKAGE_MODULES = modules("""
    medium: pip ensurepip micropip piplite conda condacolab setuptools.sandbox easy_install
""")
