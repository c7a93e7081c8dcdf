"""What deletes, moves or changes files."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels

_STANDARD = levels("""
    high shutil: rmtree
    medium shutil: move chown
    high os: removedirs
    medium os: remove unlink rmdir rename renames replace truncate ftruncate chmod chown lchmod lchown fchmod
        fchown chflags lchflags removexattr
    medium pathlib.Path(): unlink rmdir rename replace chmod lchmod move move_into
    medium pathlib.Path: unlink rmdir rename replace chmod lchmod move move_into
    high distutils.dir_util: remove_tree
    high setuptools._distutils.dir_util: remove_tree
    medium distutils.file_util: move_file
    medium setuptools._distutils.file_util: move_file
    high test.support.os_helper: rmtree
    medium test.support.os_helper: unlink rmdir
    high test.support: rmtree
    medium _winapi: MoveFileEx
    high ?: rmtree unlink remove removedirs rmdir
""")

_PACKAGES = levels("""
    medium .: send2trash.*
    high send2trash: send2trash
    high aioshutil: rmtree
    medium aioshutil: move chown
    high aiofiles.os: removedirs
    medium aiofiles.os: remove unlink rmdir rename renames replace
    medium anyio.Path(): unlink rmdir rename replace chmod lchmod
    medium trio.Path(): unlink rmdir rename replace chmod lchmod
    medium upath.UPath(): unlink rmdir rename replace
    high path.Path(): rmtree rmtree_p removedirs
    medium path.Path(): remove unlink rmdir rename move chmod
    medium py.path.local(): remove rename move chmod
    high tensorflow.io.gfile: rmtree
    medium tensorflow.io.gfile: remove rename
    high tensorflow.gfile: DeleteRecursively
    medium tensorflow.gfile: Remove Rename
    medium pyarrow.fs.LocalFileSystem(): delete_dir delete_dir_contents delete_file move
    medium fsspec.filesystem(): rm rm_file rmdir delete mv move rename
    medium fsspec.implementations.local.LocalFileSystem(): rm rm_file rmdir delete mv move
    medium fs.open_fs(): remove removedir removetree move movedir
    medium fs.osfs.OSFS(): remove removedir removetree move movedir
    medium dbutils.fs: rm mv
    medium win32file: DeleteFile MoveFile MoveFileEx
    high win32com.shell.shell: SHFileOperation
    medium huggingface_hub: delete_repo delete_file delete_folder delete_branch
    medium huggingface_hub.HfApi(): delete_repo delete_file delete_folder delete_branch
    medium boto3.client(): delete_object delete_objects delete_bucket delete_table delete_item
    medium boto3.resource().Object(): delete
    medium boto3.resource().Bucket(): delete delete_objects
    medium s3fs.S3FileSystem(): rm rm_file rmdir delete mv
    medium gcsfs.GCSFileSystem(): rm rm_file rmdir delete mv
    medium google.cloud.storage.Client().bucket().blob(): delete
    medium google.cloud.storage.Client().get_bucket(): delete delete_blob delete_blobs
    medium google.cloud.bigquery.Client(): delete_table delete_dataset
    medium paramiko.SSHClient().open_sftp(): remove unlink rmdir rename posix_rename truncate chmod chown
    medium ftplib.FTP(): delete rmd rename
    medium redis.Redis(): flushall flushdb
    medium redis.StrictRedis(): flushall flushdb
    medium pymongo.MongoClient(): drop_database
    medium elasticsearch.Elasticsearch().indices: delete
""")

_ANYTHING = levels("""
    medium *: unlink lchmod rmdir removedirs rmtree rmtree_p removetree flushall flushdb drop_database
        drop_collection delete_collection delete_object delete_objects delete_bucket delete_blob delete_blobs
        delete_repo delete_dataset delete_index delete_indices delete_database delete_dir_contents remove_tree
""")

DESTROYS = {**_STANDARD, **_PACKAGES, **_ANYTHING}
