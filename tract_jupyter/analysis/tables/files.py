"""Operations that open a path; those that delete, move or change what is there are in `deletion`.

The kinds: ``open`` has a mode as second argument, ``enter`` changes the working directory, ``copy`` reads the
first path and writes the second. ``own-`` is a method of a path, ``any-`` a method of an object of any kind
(only a path that is known counts), ``-second`` says that the path is the second argument.
"""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import modules, symbols

OPENS = symbols("""
    open builtins: open file
    open io: FileIO open_code
    open codecs: open
    open gzip: open GzipFile
    open bz2: open BZ2File
    open lzma: open LZMAFile
    open zipfile: ZipFile
    open tarfile: open
    open aiofiles: open
    open h5py: File
    open numpy: memmap
    read linecache: getline getlines updatecache
    read fileinput: input
    read tokenize: open
    read sqlite3: connect
    read configparser.ConfigParser(): read
    read numpy: fromfile loadtxt genfromtxt load
    read numpy.DataSource(): open
    read numpy.lib.npyio: DataSource
    read numpy.lib.npyio.DataSource(): open
    write numpy: save savetxt savez savez_compressed
    read pandas: read_csv read_table read_json read_excel read_parquet read_feather read_hdf read_fwf
        read_xml read_html read_stata read_orc read_sas read_spss
    any-write *: to_csv to_json to_excel to_parquet to_feather to_hdf to_html to_stata to_orc to_xml
        to_latex savefig tofile extractall extract
    read PIL.Image: open
    read cv2: imread
    read imageio: imread
    read skimage.io: imread
    read matplotlib.pyplot: imread
    read polars: read_csv read_parquet scan_csv scan_parquet
    read duckdb: read_csv
    write cv2: imwrite
    write imageio: imwrite
    write skimage.io: imsave
    write matplotlib.pyplot: imsave
    read os: open
    list os: listdir scandir walk fwalk stat lstat access readlink
    write os: makedirs mkdir mkfifo mknod utime
    enter os: chdir
    list os.path: exists isfile isdir getsize getmtime
    list glob: glob iglob
    copy shutil: copy copy2 copyfile copytree copymode
    copy os: link symlink
    write shutil: make_archive
    write-second shutil: unpack_archive
    own-read pathlib.Path(): read_text read_bytes
    own-open pathlib.Path(): open
    own-write pathlib.Path(): write_text write_bytes mkdir touch symlink_to hardlink_to link_to
    own-list pathlib.Path(): iterdir glob rglob walk exists is_file is_dir stat
""")

OPENS_MODULES = modules("""
    low: os shutil tempfile pathlib
    none: os.path
""")
