"""Native code and raw memory."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

_STANDARD = levels("""
    low ctypes: sizeof alignment c_bool c_byte c_char c_double c_float c_int c_int8 c_int16 c_int32 c_int64
        c_long c_longlong c_short c_size_t c_ubyte c_uint c_uint8 c_uint16 c_uint32 c_uint64 c_ulong
        c_ulonglong c_ushort Structure Union LittleEndianStructure BigEndianStructure Array
    high .: ctypes.* _ctypes.* _ctypes_test.* _testcapi.* _testinternalcapi.* _testbuffer.* _testmultiphase.*
        _testlimitedcapi.* _winapi.* msilib.*
    high sys: setdlopenflags
    high dl: open
    medium mmap: mmap
    medium multiprocessing.sharedctypes: RawValue RawArray copy synchronized
    low multiprocessing.shared_memory: SharedMemory ShareableList
    low _posixshmem: shm_open shm_unlink
    low os: add_dll_directory
    high _imp: create_dynamic exec_dynamic
    high sqlite3.connect(): enable_load_extension load_extension
    high sqlite3.Connection(): enable_load_extension load_extension
    high *: enable_load_extension enableloadextension
    low *: __array_interface__ __array_struct__ data_as
    high ?: CDLL PyDLL WinDLL OleDLL dlopen LoadLibrary load_library FFI
""")

_COMPILERS = levels("""
    high .: cffi.* _cffi_backend.* cppyy.* llvmlite.binding.* torch.utils.cpp_extension.*
    high cython: inline
    high Cython: inline
    high Cython.Shadow: inline
    high Cython.Build: cythonize cython_inline
    high Cython.Build.Inline: cython_inline cython_compile
    high weave: inline blitz
    high scipy.weave: inline blitz
    high scipy: LowLevelCallable
    medium scipy.LowLevelCallable: from_cython
    high numpy.f2py: compile run_main main
    high numpy.ctypeslib: load_library
    medium numpy.ctypeslib: as_array as_ctypes ndpointer as_ctypes_type
    low numpy.lib.stride_tricks: as_strided
    high distutils.ccompiler: new_compiler
    high .: distutils.msvccompiler.* distutils.msvc9compiler.* distutils._msvccompiler.* distutils.unixccompiler.*
        distutils.cygwinccompiler.* numpy.distutils.*
    low numba: cfunc
    medium numba: carray farray
    medium numba.core.ccallback: CFunc
    medium numba.pycc: CC
    medium numba.extending: intrinsic get_cython_function_address
    medium sympy.utilities.autowrap: autowrap ufuncify binary_function
    medium cupy: RawKernel RawModule
    medium cupy.cuda: Module alloc MemoryPointer UnownedMemory
    medium pycuda.compiler: SourceModule compile
    medium pycuda.driver: module_from_file module_from_buffer
    medium pyopencl: Program
    medium jax.ffi: register_ffi_target pycapsule
    low stan: build
    low pystan: StanModel stanc stan
    low cmdstanpy: CmdStanModel
    high ROOT.gInterpreter: ProcessLine Declare LoadMacro Calc
    high ROOT.gROOT: ProcessLine LoadMacro Macro
    high ROOT.gSystem: Load CompileMacro
""")

_LIBRARIES = levels("""
    high tensorflow: load_op_library load_library
    high torch.ops: load_library
    high torch.classes: load_library
    high mxnet.library: load
    high onnxruntime.SessionOptions(): register_custom_ops_library
    high duckdb: install_extension load_extension
    high duckdb.connect(): install_extension load_extension
    high apsw.Connection(): enable_load_extension load_extension loadextension
    high clr: AddReference
    high pythonnet: load
    high .: objc.* gdb.* lldb.* frida.* pymem.* ptrace.* win32file.* win32pipe.* win32api.* win32process.*
        einspect.*
    medium win32api: GetSystemMetrics GetVersionEx GetComputerName GetUserName
    medium .: posix_ipc.* sysv_ipc.*
""")

CALLS_NATIVE = {**_STANDARD, **_COMPILERS, **_LIBRARIES}

CALLS_NATIVE_MODULES = modules("""
    low: ctypes
    high: _ctypes cffi _cffi_backend _testcapi _testinternalcapi frida pymem ptrace cppyy
    medium: pyximport objc gdb lldb clr llvmlite.binding
""")
