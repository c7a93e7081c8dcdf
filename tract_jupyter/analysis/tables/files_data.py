"""Files that packages for data, science and media open; `files` explains the kinds."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import symbols

FRAMES = symbols("""
    read pandas: read_csv read_table read_fwf read_json read_excel read_parquet read_feather read_hdf read_xml
        read_html read_stata read_orc read_sas read_spss read_pickle ExcelFile HDFStore
    write pandas: ExcelWriter
    write-second pandas: to_pickle
    open pandas.io.common: get_handle
    read pandas.io.common: urlopen stringify_path file_exists get_filepath_or_buffer
    read pandas.io.parsers: read_csv read_table read_fwf TextFileReader
    read pandas.io.parsers.readers: read_csv read_table read_fwf
    read pandas.io.json: read_json
    read pandas.io.excel: read_excel ExcelFile
    write pandas.io.excel: ExcelWriter
    read pandas.io.html: read_html
    read pandas.io.xml: read_xml
    read pandas.io.pickle: read_pickle
    read pandas.io.parquet: read_parquet
    read pandas.io.feather_format: read_feather
    read pandas.io.pytables: read_hdf HDFStore
    read pandas.io.stata: read_stata StataReader
    read pandas.io.sas: read_sas
    read pandas.io.orc: read_orc
    read pandas.io.spss: read_spss
    read modin.pandas: read_csv read_table read_json read_excel read_parquet read_feather read_hdf read_pickle
    read cudf: read_csv read_json read_parquet read_orc read_feather read_text
    read pyspark.pandas: read_csv read_json read_excel read_parquet read_orc
    read polars: read_csv read_csv_batched read_parquet read_json read_ndjson read_excel read_ods read_ipc
        read_ipc_stream read_avro read_delta read_parquet_schema read_parquet_metadata read_ipc_schema
        scan_csv scan_parquet scan_ndjson scan_ipc scan_delta scan_iceberg scan_pyarrow_dataset
    read dask.dataframe: read_csv read_table read_fwf read_json read_parquet read_hdf read_orc
    database-second dask.dataframe: read_sql_table read_sql
    write-second dask.dataframe: to_csv to_parquet to_json to_orc to_hdf
    read dask.bag: read_text read_avro
    write-second dask.bag: to_textfiles
    read dask.array: from_zarr from_npy_stack from_tiledb
    write dask.array: to_npy_stack to_hdf5
    write-second dask.array: to_zarr
    read vaex: open open_many from_csv
    read datatable: fread
    read pyreadstat: read_sav read_dta read_sas7bdat read_xport read_por
    write-second pyreadstat: write_sav write_dta write_xport
    read pyreadr: read_r
    write pyreadr: write_rds write_rdata
    read fastparquet: ParquetFile
    write fastparquet: write
    read fastavro: is_avro
    read deltalake: DeltaTable
    write deltalake: write_deltalake
    read petl: fromcsv fromjson fromxlsx fromtext fromxml
    write-second petl: tocsv tojson toxlsx totext topickle
    read pyarrow: memory_map input_stream
    open pyarrow: OSFile
    write pyarrow: output_stream create_memory_map
    read pyarrow.csv: read_csv open_csv
    write-second pyarrow.csv: write_csv
    write pyarrow.csv: CSVWriter
    read pyarrow.json: read_json
    read pyarrow.parquet: read_table read_pandas read_schema read_metadata ParquetFile ParquetDataset
    write pyarrow.parquet: ParquetWriter
    write-second pyarrow.parquet: write_table write_to_dataset write_metadata
    read pyarrow.feather: read_feather read_table
    write-second pyarrow.feather: write_feather
    read pyarrow.orc: read_table ORCFile
    write-second pyarrow.orc: write_table
    read pyarrow.dataset: dataset parquet_dataset
    write-second pyarrow.dataset: write_dataset
    read pyarrow.ipc: open_file open_stream
    write pyarrow.ipc: new_file new_stream
    read pyarrow.fs.LocalFileSystem(): open_input_file open_input_stream get_file_info
    write pyarrow.fs.LocalFileSystem(): open_output_stream open_append_stream create_dir
    copy pyarrow.fs: copy_files
    copy pyarrow.fs.LocalFileSystem(): copy_file
    read pyspark.sql.SparkSession.builder.getOrCreate().read: csv json parquet orc text load
    read pyspark.sql.SparkSession.builder.appName().getOrCreate().read: csv json parquet orc text load
    read pyspark.SparkContext(): textFile wholeTextFiles binaryFiles
""")

ARRAYS = symbols("""
    read numpy: load fromfile loadtxt genfromtxt recfromcsv recfromtxt mafromtxt ndfromtxt DataSource fromregex
    open numpy: memmap
    write numpy: save savetxt savez savez_compressed
    own-write numpy.ndarray: dump
    write-second numpy.ndarray: tofile dump
    read numpy.DataSource(): open exists abspath
    read numpy.lib.npyio: DataSource load loadtxt genfromtxt fromregex NpzFile
    write numpy.lib.npyio: save savetxt savez savez_compressed
    read numpy.lib.npyio.DataSource(): open
    open numpy.lib.format: open_memmap
    read cupy: load fromfile loadtxt genfromtxt
    write cupy: save savetxt savez savez_compressed
    read jax.numpy: load
    write jax.numpy: save savez
    read scipy.io: loadmat mmread mminfo readsav whosmat
    write scipy.io: savemat mmwrite
    open scipy.io: netcdf_file
    read scipy.io.wavfile: read
    write scipy.io.wavfile: write
    read scipy.io.arff: loadarff
    read scipy.io.matlab: loadmat whosmat
    write scipy.io.matlab: savemat
    read scipy.sparse: load_npz
    write scipy.sparse: save_npz
    open h5py: File
    open h5netcdf: File
    open h5netcdf.legacyapi: Dataset
    open tables: open_file File
    open netCDF4: Dataset
    read netCDF4: MFDataset
    open zarr: open open_group open_array
    read zarr: load open_consolidated
    write zarr: save save_array save_group create_group create_array
    write zarr.storage: DirectoryStore NestedDirectoryStore LocalStore ZipStore
    write zarr: DirectoryStore ZipStore
    read xarray: open_dataset open_mfdataset open_dataarray open_zarr open_datatree open_groups load_dataset
        load_dataarray load_datatree
    write-second xarray: save_mfdataset
    read iris: load load_cube load_cubes
    write-second iris: save
""")

SCIENCE = symbols("""
    read networkx: read_adjlist read_edgelist read_weighted_edgelist read_gexf read_gml read_graphml
        read_graph6 read_sparse6 read_leda read_multiline_adjlist read_pajek read_gpickle read_shp read_yaml
    write-second networkx: write_adjlist write_edgelist write_weighted_edgelist write_gexf write_gml
        write_graphml write_graphml_lxml write_graphml_xml write_graph6 write_sparse6 write_multiline_adjlist
        write_pajek write_gpickle write_shp write_yaml write_network_text write_latex
    write-second networkx.drawing.nx_pydot: write_dot
    write-second networkx.drawing.nx_agraph: write_dot
    read networkx.drawing.nx_pydot: read_dot
    read networkx.drawing.nx_agraph: read_dot
    read igraph.Graph: Read Load Read_Edgelist Read_GraphML Read_GML
    read geopandas: read_file read_parquet read_feather list_layers
    read pyogrio: read_dataframe read_info list_layers
    write-second pyogrio: write_dataframe
    open rasterio: open
    open fiona: open
    list fiona: listlayers
    read rioxarray: open_rasterio
    read shapefile: Reader
    write shapefile: Writer
    read osgeo.gdal: Open OpenEx
    read osgeo.ogr: Open
    copy osgeo.gdal: Translate
    read laspy: open read
    read gpxpy: parse
    open pysam: AlignmentFile VariantFile FastaFile TabixFile
    read Bio.SeqIO: parse read index index_db to_dict
    copy Bio.SeqIO: convert
    write-second Bio.SeqIO: write
    read Bio.AlignIO: parse read
    write-second Bio.AlignIO: write
    read Bio.Phylo: parse read
    write-second Bio.Phylo: write
    read-second Bio.PDB.PDBParser(): get_structure
    read-second Bio.PDB.MMCIFParser(): get_structure
    read rdkit.Chem: MolFromMolFile MolFromPDBFile MolFromMol2File SDMolSupplier SmilesMolSupplier
        ForwardSDMolSupplier
    write rdkit.Chem: SDWriter SmilesWriter PDBWriter
    write-second rdkit.Chem: MolToMolFile MolToPDBFile
    write-second rdkit.Chem.Draw: MolToFile
    read ase.io: read iread
    write ase.io: write
    open ase.io: Trajectory
    read ase.db: connect
    read MDAnalysis: Universe
    read mdtraj: load load_pdb load_dcd load_xtc iterload
    read pymatgen.core.Structure: from_file
    read anndata: read read_h5ad read_csv read_zarr read_loom
    read scanpy: read read_h5ad read_csv read_10x_h5 read_10x_mtx read_loom read_visium
    write scanpy: write
    open astropy.io.fits: open
    read astropy.io.fits: getdata getheader getval info
    write astropy.io.fits: writeto append update setval
    read astropy.io.ascii: read
    write-second astropy.io.ascii: write
    read astropy.table.Table: read
    read astropy.table.QTable: read
    read nibabel: load
    write-second nibabel: save
    read pydicom: dcmread read_file
    write pydicom: dcmwrite
    read SimpleITK: ReadImage ReadTransform
    write-second SimpleITK: WriteImage WriteTransform
    read mne: read_epochs read_evokeds read_events
    read mne.io: read_raw_fif read_raw_edf read_raw_bdf read_raw_brainvision read_raw_eeglab read_raw
    read obspy: read read_events read_inventory
    read uproot: open
    write uproot: recreate update create
    read trimesh: load load_mesh
    read meshio: read
    write meshio: write
    read open3d.io: read_point_cloud read_triangle_mesh read_image
    write open3d.io: write_point_cloud write_triangle_mesh
    read statsmodels.iolib.smpickle: load_pickle
    read statsmodels.api: load
    read arviz: from_netcdf
    write-second arviz: to_netcdf
    read pyedflib: EdfReader
    write pyedflib: EdfWriter
    read cartopy.io.shapereader: Reader
""")

IMAGES = symbols("""
    read PIL.Image: open
    write PIL.Image.open(): save
    write PIL.Image.new(): save
    write PIL.Image.fromarray(): save
    read cv2: imread imreadmulti imcount VideoCapture haveImageReader
    write cv2: imwrite imwritemulti VideoWriter
    open cv2: FileStorage
    read cv2.dnn: readNet readNetFromONNX readNetFromCaffe readNetFromTensorflow readNetFromDarknet
    read imageio: imread mimread volread mvolread get_reader imopen
    write imageio: imwrite mimwrite mimsave imsave volwrite volsave mvolwrite get_writer
    read imageio.v2: imread mimread volread get_reader
    write imageio.v2: imwrite mimwrite mimsave imsave volwrite get_writer
    read imageio.v3: imread imiter improps immeta
    write imageio.v3: imwrite
    open imageio.v3: imopen
    read skimage.io: imread imread_collection ImageCollection MultiImage
    write skimage.io: imsave
    read tifffile: imread TiffFile TiffSequence
    write tifffile: imwrite imsave TiffWriter memmap
    read pyvips.Image: new_from_file
    named-read wand.image: Image
    read pytesseract: image_to_string image_to_data image_to_boxes image_to_osd image_to_pdf_or_hocr
    read easyocr.Reader(): readtext
    read imagehash: average_hash
    read exifread: process_file
    read piexif: load
    copy piexif: transplant
    read torchvision.io: read_image read_file read_video decode_image
    write torchvision.io: write_file write_video
    write-second torchvision.io: write_png write_jpeg
    write-second torchvision.utils: save_image
    read torchvision.datasets: ImageFolder DatasetFolder
    read matplotlib: rc_file rc_params_from_file
    read matplotlib.pyplot: imread
    write matplotlib.pyplot: imsave savefig
    read matplotlib.image: imread
    write matplotlib.image: imsave
    copy matplotlib.image: thumbnail
    write matplotlib.backends.backend_pdf: PdfPages
    write-second plotly.io: write_html write_image write_json
    read plotly.io: read_json
    named-write plotly.offline: plot
    write bokeh.plotting: output_file
    write bokeh.io: output_file
    write-second bokeh.plotting: save
    write-second bokeh.io: save
    named-write bokeh.io: export_png export_svg
    write-second holoviews: save
    write pyvis.network.Network(): show save_graph write_html
    write graphviz.Digraph(): render save
    write graphviz.Graph(): render save
    read graphviz.Source: from_file
    read pydot: graph_from_dot_file
    read IPython.display: Image Audio Video FileLink FileLinks
    read soundfile: read SoundFile info blocks
    write soundfile: write
    read librosa: load stream get_samplerate
    named-read librosa: get_duration
    write librosa.output: write_wav
    read torchaudio: load info
    write torchaudio: save
    read pydub.AudioSegment: from_file from_wav from_mp3 from_ogg from_flv
    read audioread: audio_open
    read mutagen: File
    read moviepy.editor: VideoFileClip AudioFileClip ImageClip ImageSequenceClip
    read moviepy: VideoFileClip AudioFileClip ImageClip ImageSequenceClip
    read ffmpeg: input probe
    open av: open
    read decord: VideoReader
    read whisper: load_audio
    read mido: MidiFile
    read pretty_midi: PrettyMIDI
""")
