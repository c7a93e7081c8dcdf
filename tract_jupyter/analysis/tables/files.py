"""Operations that open a path; those that delete, move or change what is there are in `deletion`.

The kinds: ``open`` has a mode as second argument, ``enter`` changes the working directory, ``copy`` reads the
first path and writes the second, ``unpack`` and ``archive`` do so for archives, ``compare`` reads both.
``-second`` and ``-third`` say which argument the path is. ``own-`` is a method of a path, ``any-`` a method of an
object of any kind, ``named-`` takes its path by keyword only: of these two only a path that is known counts.
``database`` takes a path or an address such as ``sqlite:///data.db``.
"""

from __future__ import annotations

from tract_jupyter.analysis.tables import files_applications, files_data
from tract_jupyter.analysis.tables.reader import modules, symbols, words

_PATHS = symbols("""
    own-open pathlib.Path(): open
    own-read pathlib.Path(): read_text read_bytes
    own-write pathlib.Path(): write_text write_bytes mkdir touch
    own-list pathlib.Path(): iterdir glob rglob walk exists is_file is_dir is_symlink is_mount is_junction
        is_socket is_fifo is_block_device is_char_device stat lstat owner group samefile readlink
    own-copy pathlib.Path(): copy copy_into
    own-link pathlib.Path(): symlink_to hardlink_to link_to
    open pathlib.Path: open
    read pathlib.Path: read_text read_bytes
    write pathlib.Path: write_text write_bytes mkdir touch symlink_to hardlink_to link_to
    list pathlib.Path: iterdir glob rglob walk exists is_file is_dir stat lstat
    copy pathlib.Path: copy copy_into
    own-open anyio.Path(): open
    own-read anyio.Path(): read_text read_bytes
    own-write anyio.Path(): write_text write_bytes mkdir touch symlink_to hardlink_to
    own-list anyio.Path(): iterdir glob rglob walk exists is_file is_dir stat
    own-open trio.Path(): open
    own-read trio.Path(): read_text read_bytes
    own-write trio.Path(): write_text write_bytes mkdir touch symlink_to hardlink_to
    own-list trio.Path(): iterdir glob rglob exists is_file is_dir stat
    own-open upath.UPath(): open
    own-read upath.UPath(): read_text read_bytes
    own-write upath.UPath(): write_text write_bytes mkdir touch
    own-list upath.UPath(): iterdir glob rglob walk exists is_file is_dir stat
""")

_SYSTEM = symbols("""
    open builtins: open file
    open io: open FileIO
    read io: open_code
    open _pyio: open FileIO
    read _pyio: open_code
    open os: open fdopen
    open codecs: open
    list os: listdir scandir walk fwalk stat lstat access readlink statvfs pathconf getxattr listxattr
        listmounts
    write os: makedirs mkdir mkfifo mknod utime setxattr
    copy os: link symlink
    enter os: chdir
    enter contextlib: chdir
    list os.path: exists lexists isfile isdir islink ismount isjunction isdevdrive getsize getmtime getatime
        getctime samefile
    list genericpath: exists lexists isfile isdir getsize getmtime getatime getctime samefile
    list glob: glob iglob glob0 glob1
    list dircache: listdir
    copy shutil: copy copy2 copyfile copytree copymode copystat
    archive shutil: make_archive
    unpack shutil: unpack_archive
    list shutil: disk_usage
    compare filecmp: cmp dircmp cmpfiles
    read fileinput: input FileInput hook_compressed
    read linecache: getline getlines updatecache checkcache
    read tokenize: open
    open aiofiles: open
    open aiofiles.threadpool: open
    list aiofiles.os: listdir scandir stat access readlink statvfs
    list aiofiles.os.path: exists isfile isdir islink getsize getmtime
    write aiofiles.os: mkdir makedirs
    copy aiofiles.os: link symlink
    open anyio: open_file
    open trio: open_file
    read readline: read_history_file read_init_file
    write readline: write_history_file
    write-second readline: append_history_file
    read msilib: OpenDatabase
    copy distutils.file_util: copy_file
    copy distutils.dir_util: copy_tree
    write distutils.file_util: write_file
    write distutils.dir_util: mkpath
    copy setuptools._distutils.file_util: copy_file
    copy setuptools._distutils.dir_util: copy_tree
""")

_ARCHIVES = symbols("""
    open gzip: open GzipFile
    open bz2: open BZ2File
    open lzma: open LZMAFile
    open compression.gzip: open GzipFile
    open compression.bz2: open BZ2File
    open compression.lzma: open LZMAFile
    open compression.zstd: open ZstdFile
    open zstandard: open
    open lz4.frame: open LZ4FrameFile
    open zipfile: ZipFile PyZipFile
    read zipfile: is_zipfile Path
    read zipfile.ZipFile(): write
    write zipfile.ZipFile(): extractall
    write-second zipfile.ZipFile(): extract
    open tarfile: open TarFile
    open tarfile.TarFile: open taropen gzopen bz2open xzopen zstopen
    read tarfile: is_tarfile
    read tarfile.open(): add gettarinfo
    write tarfile.open(): extractall
    write-second tarfile.open(): extract
    read tarfile.TarFile(): add gettarinfo
    write tarfile.TarFile(): extractall
    write-second tarfile.TarFile(): extract
    open py7zr: SevenZipFile
    write py7zr: pack_7zarchive
    unpack py7zr: unpack_7zarchive
    open rarfile: RarFile
    open pyzipper: AESZipFile ZipFile
    read pyunpack: Archive
    unpack patoolib: extract_archive
    write patoolib: create_archive
    write-third pyminizip: compress
    write libarchive: file_writer
    read libarchive: file_reader extract_file
""")

_STANDARD = symbols("""
    read sqlite3: connect Connection
    read sqlite3.dbapi2: connect Connection
    read dbm: whichdb
    write dbm: open
    write dbm.dumb: open
    write dbm.gnu: open
    write dbm.ndbm: open
    write dbm.sqlite3: open
    write shelve: open DbfilenameShelf
    read mailbox: Mailbox Maildir mbox MH Babyl MMDF
    read netrc: netrc
    read configparser.ConfigParser(): read
    read configparser.RawConfigParser(): read
    read configparser.SafeConfigParser(): read
    read xml.etree.ElementTree: parse iterparse
    read xml.etree.cElementTree: parse iterparse
    read xml.etree.ElementTree.ElementTree(): parse
    write xml.etree.ElementTree.ElementTree(): write
    write xml.etree.ElementTree.parse(): write
    read xml.etree.ElementInclude: default_loader
    read xml.dom.minidom: parse
    read xml.dom.pulldom: parse
    read xml.dom.expatbuilder: parse
    read xml.sax: parse
    read xml.sax.make_parser(): parse
    read lxml.etree: parse iterparse XSLT RelaxNG XMLSchema
    write lxml.etree.ElementTree(): write
    write lxml.etree.parse(): write
    read lxml.html: parse
    read lxml.objectify: parse
    read defusedxml.ElementTree: parse iterparse
    read defusedxml.minidom: parse
    open wave: open Wave_read Wave_write
    open aifc: open
    open sunau: open
    read sndhdr: what whathdr
    read imghdr: what
    read mimetypes: init read_mime_types MimeTypes
    read mimetypes.MimeTypes(): read
    write logging: FileHandler
    named-write logging: basicConfig
    write logging.handlers: RotatingFileHandler TimedRotatingFileHandler WatchedFileHandler BaseRotatingHandler
    read logging.config: fileConfig
    read pstats: Stats
    write pstats.Stats(): dump_stats
    read pstats.Stats(): add load_stats
    write cProfile.Profile(): dump_stats
    write profile.Profile(): dump_stats
    write-second trace.CoverageResults(): write_results_file
    write tracemalloc.take_snapshot(): dump
    read tracemalloc.Snapshot: load
    write tracemalloc.Snapshot(): dump
    copy py_compile: compile
    read compileall: compile_dir compile_file
    read doctest: testfile DocFileTest DocFileSuite
    read modulefinder.ModuleFinder(): run_script load_file
    list pkgutil: iter_modules walk_packages
    write pydoc: writedocs
    read zipfile.PyZipFile(): write writepy
    read tabnanny: check
    copy zipapp: create_archive
    write venv: create
    write venv.EnvBuilder(): create
    read plistlib: readPlist
    write-second plistlib: writePlist
    copy uu: encode decode
    copy binhex: binhex hexbin
    read ssl.SSLContext(): load_cert_chain load_verify_locations
    read ssl.create_default_context(): load_cert_chain load_verify_locations
    read http.cookiejar: FileCookieJar MozillaCookieJar LWPCookieJar
    read http.cookiejar.MozillaCookieJar(): load
    write http.cookiejar.MozillaCookieJar(): save
    read http.cookiejar.LWPCookieJar(): load
    write http.cookiejar.LWPCookieJar(): save
    write-second urllib.request: urlretrieve
    read ossaudiodev: open
    read unittest.TestLoader(): discover
""")

_DATABASES = symbols("""
    database sqlalchemy: create_engine create_async_engine engine_from_config
    database sqlalchemy.engine: create_engine
    database sqlalchemy.ext.asyncio: create_async_engine
    database sqlmodel: create_engine
    database dataset: connect
    database records: Database
    database databases: Database
    database connectorx: read_sql
    database-second pandas: read_sql read_sql_query read_sql_table
    database-second polars: read_database_uri
    database langchain_community.utilities.SQLDatabase: from_uri
    database langchain.SQLDatabase: from_uri
    read aiosqlite: connect
    read apsw: Connection
    read pysqlite3: connect
    read peewee: SqliteDatabase
    read playhouse.sqlite_ext: SqliteExtDatabase
    read sqlite_utils: Database
    read duckdb: connect read_csv read_csv_auto read_parquet read_json from_csv_auto from_parquet
        query_df
    read duckdb.connect(): read_csv read_csv_auto read_parquet read_json from_csv_auto from_parquet
    write duckdb.sql(): write_csv write_parquet to_csv to_parquet
    write tinydb: TinyDB
    write diskcache: Cache FanoutCache Index Deque
    write lmdb: open Environment
    write plyvel: DB
    write sqlitedict: SqliteDict
    write unqlite: UnQLite
    write chromadb: PersistentClient
    named-write chromadb: Client
    write lancedb: connect
    named-write qdrant_client: QdrantClient
    read faiss: read_index read_index_binary
    write-second faiss: write_index write_index_binary
""")

_ANYTHING = symbols("""
    any-read *: read_csv read_table read_fwf read_json read_excel read_parquet read_feather read_hdf read_xml
        read_html read_stata read_orc read_sas read_spss read_pickle read_ndjson read_ipc read_avro scan_csv
        scan_parquet scan_ndjson scan_ipc read_h5ad loadtxt genfromtxt fromfile imread loadmat load_workbook
        load_from_disk load_from_checkpoint load_weights load_model open_dataset load_svmlight_file
        log_artifact log_artifacts add_file add_dir
    any-write *: write_videofile write_audiofile write_gif to_csv to_json to_excel to_parquet to_feather
        to_hdf to_html to_stata to_orc to_xml to_latex to_pickle to_markdown to_netcdf to_zarr to_file
        savefig tofile extractall save save_weights save_model save_pretrained save_to_disk
        save_checkpoint save_local write_csv write_parquet write_json write_ndjson write_ipc write_avro
        write_excel write_delta write_html write_image write_h5ad write_png write_pdf write_svg sink_csv
        sink_parquet sink_ipc sink_ndjson dump_stats imwrite imsave savez savez_compressed savetxt savemat
    any-write-second *: extract
""")

OPENS = {
    **_PATHS,
    **_SYSTEM,
    **_ARCHIVES,
    **_STANDARD,
    **_DATABASES,
    **files_data.FRAMES,
    **files_data.ARRAYS,
    **files_data.SCIENCE,
    **files_data.IMAGES,
    **files_applications.DOCUMENTS,
    **files_applications.LEARNING,
    **files_applications.TOOLS,
    **_ANYTHING,
}

OPENS_MODULES = modules("""
    low: os shutil tempfile pathlib
    none: os.path
""")

PATH_KEYWORDS = words("""
    file filename path name fname filepath_or_buffer path_or_buf path_or_buffer io fp f fid database source where
    src uri filepath file_path path_or_file files filenames file_name file_or_path filename_or_obj urlpath store
    location pdf_path pdf_file pdf stream image url root input_dir input_files directory dir base_dir persist_dir
    path_or_fileobj path_or_stream path_or_bytes local_path local_dir folder_path save_directory output_dir
    output_path output_file dataset_path paths pathname filename_or_fp data_dir file_or_filename img_path
    excel_writer buf fileobj dataset_dict_path fullname model_path sources out cfile
""")

TARGET_KEYWORDS = words("""
    dst target extract_dir path file f filename fp where output_file output_path out_file base_dir file_name
    destination target_dir dest dstfn path2 rpath file_like uri savepath filepath f2 b right output cfile
    outputfile out_path export_dir
""")

NAMED_KEYWORDS = words("""
    filename file path fname model_file persist_directory persist_dir url logfile to_file output_file
    root_dir
""")
