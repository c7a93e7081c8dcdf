"""Programs that are started, processes that are steered, packages that are installed."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

STARTS_PROGRAM = levels("""
    critical os: system popen startfile posix_spawn posix_spawnp chroot execl execle execlp execlpe
        execv execve execvp execvpe
    high os: spawn spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe
    critical subprocess: run call check_call check_output Popen getoutput getstatusoutput
    critical .: subprocess.* pexpect.* popen2.* commands.* _posixsubprocess.* sh.* plumbum.* fabric.*
    critical pty: spawn
    critical asyncio: create_subprocess_shell create_subprocess_exec
    critical asyncio.subprocess: create_subprocess_shell create_subprocess_exec
    critical asyncio.get_event_loop(): subprocess_shell subprocess_exec
    critical asyncio.get_running_loop(): subprocess_shell subprocess_exec
    critical *: create_subprocess_shell create_subprocess_exec subprocess_shell subprocess_exec
    critical IPython.utils.process: system getoutput getoutputerror process_handler
    critical anyio: run_process open_process
    critical trio: run_process
    critical trio.lowlevel: open_process
    high ?: system popen startfile posix_spawn execl execle execlp execlpe execv execve execvp execvpe
        spawn spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe Popen check_output
        check_call getoutput fork_exec
""")

STARTS_PROGRAM_MODULES = modules("""
    high: subprocess pty popen2 commands _posixsubprocess pexpect
""")

STEERS_PROCESS = levels("""
    high os: fork forkpty kill killpg _exit abort
    medium os: dup2 setuid setgid setsid nice setpriority
    medium sys: exit setrecursionlimit settrace setprofile
    medium builtins: SystemExit exit quit
    medium threading: settrace setprofile
    medium signal: signal alarm setitimer pthread_kill raise_signal
    medium resource: setrlimit
    medium atexit: unregister
    medium faulthandler: disable
    medium multiprocessing: Process Pool
    medium concurrent.futures: ProcessPoolExecutor
    high psutil.Process(): kill terminate
    low logging: disable
    low builtins: input
""")

STEERS_PROCESS_MODULES = modules("""
    low: multiprocessing
    none: multiprocessing.pool
""")

INSTALLS_PACKAGE = levels("""
    high .: pip.* ensurepip.* micropip.* conda.* easy_install.*
    high setuptools: setup
    high site: main
""")

INSTALLS_PACKAGE_MODULES = modules("""
    medium: pip ensurepip micropip conda
""")
