"""Files that packages for documents, learning and tools open; `files` explains the kinds."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import symbols

DOCUMENTS = symbols("""
    read openpyxl: load_workbook
    read openpyxl.reader.excel: load_workbook
    write openpyxl.Workbook(): save
    write openpyxl.load_workbook(): save
    read xlrd: open_workbook
    write xlwt.Workbook(): save
    read pyxlsb: open_workbook
    read python_calamine: load_workbook
    write xlsxwriter: Workbook
    read xlwings: Book
    read pyexcel: get_sheet get_array get_records get_book
    read tablib: import_set
    read docx: Document
    write docx.Document(): save
    read docx2txt: process
    read docx2python: docx2python
    copy docx2pdf: convert
    read pptx: Presentation
    write pptx.Presentation(): save
    read odf.opendocument: load
    read ebooklib.epub: read_epub
    write ebooklib.epub: write_epub
    read pypdf: PdfReader
    read PyPDF2: PdfReader PdfFileReader
    read PyPDF3: PdfFileReader
    read PyPDF4: PdfFileReader
    write pypdf.PdfWriter(): write
    write PyPDF2.PdfWriter(): write
    write pypdf.PdfMerger(): write
    write PyPDF2.PdfMerger(): write
    read pypdf.PdfWriter(): append
    read PyPDF2.PdfMerger(): append merge
    read fitz: open Document
    read pymupdf: open Document
    read pymupdf4llm: to_markdown
    read pdfplumber: open
    read pdfminer.high_level: extract_text extract_pages
    read pikepdf: open
    read pikepdf.Pdf: open
    read pdf2image: convert_from_path pdfinfo_from_path
    read pdfquery: PDFQuery
    read camelot: read_pdf
    read tabula: read_pdf
    copy tabula: convert_into
    write reportlab.pdfgen.canvas: Canvas
    write reportlab.platypus: SimpleDocTemplate
    write fpdf.FPDF(): output
    named-read weasyprint: HTML CSS
    write weasyprint.HTML(): write_pdf
    copy pdfkit: from_file
    write-second pdfkit: from_string from_url
    read textract: process
    read markitdown.MarkItDown(): convert convert_local
    read docling.document_converter.DocumentConverter(): convert
    read tika.parser: from_file
    read unstructured.partition.auto: partition
    read unstructured.partition.pdf: partition_pdf
    read unstructured.partition.html: partition_html
    read unstructured.partition.docx: partition_docx
    read pypandoc: convert_file
    read extract_msg: Message openMsg
    read nbformat: read
    write-second nbformat: write
    read nbconvert.exporters.HTMLExporter(): from_filename
    read jupytext: read
    write-second jupytext: write
    copy papermill: execute_notebook
    read papermill: inspect_notebook
    read toml: load
    read omegaconf.OmegaConf: load
    write-second omegaconf.OmegaConf: save
    read mmcv.Config: fromfile
    read configobj: ConfigObj
    read anyconfig: load
    write-second anyconfig: dump
    open jsonlines: open
    read srsly: read_json read_jsonl read_yaml read_msgpack
    write srsly: write_json write_jsonl write_yaml write_msgpack
    read frontmatter: load
    write-second frontmatter: dump
    read rdflib.Graph(): parse
    write rdflib.Graph(): serialize
""")

LEARNING = symbols("""
    read torch: load
    write-second torch: save
    read torch.jit: load
    write-second torch.jit: save
    write-third torch.onnx: export
    read safetensors: safe_open
    read safetensors.torch: load_file load_model
    write-second safetensors.torch: save_file save_model
    read safetensors.numpy: load_file
    write-second safetensors.numpy: save_file
    read safetensors.tensorflow: load_file
    write-second safetensors.tensorflow: save_file
    read safetensors.flax: load_file
    write-second safetensors.flax: save_file
    read joblib: load
    write-second joblib: dump
    write joblib: Memory
    read sklearn.externals.joblib: load
    write-second sklearn.externals.joblib: dump
    read skops.io: load get_untrusted_types
    write-second skops.io: dump
    read sklearn.datasets: load_files load_svmlight_file load_svmlight_files
    write-third sklearn.datasets: dump_svmlight_file
    open tensorflow.io.gfile: GFile
    list tensorflow.io.gfile: exists isdir listdir glob walk stat
    write tensorflow.io.gfile: makedirs mkdir
    copy tensorflow.io.gfile: copy
    open tensorflow.gfile: GFile Open FastGFile
    open tensorflow.compat.v1.gfile: GFile Open
    read tensorflow.io: read_file
    list tensorflow.io: matching_files
    write tensorflow.io: write_file TFRecordWriter
    read tensorflow.train: load_checkpoint list_variables
    read tensorflow.data: TFRecordDataset TextLineDataset FixedLengthRecordDataset
    read tensorflow.data.Dataset: list_files load
    read tensorflow.data.experimental: make_csv_dataset
    read tensorflow.saved_model: load
    write-second tensorflow.saved_model: save
    write tensorflow.summary: create_file_writer
    read tensorflow.keras.models: load_model
    write-second tensorflow.keras.models: save_model
    read tensorflow.keras.utils: image_dataset_from_directory text_dataset_from_directory load_img
        audio_dataset_from_directory
    write tensorflow.keras.utils: save_img
    read tensorflow.keras.preprocessing: image_dataset_from_directory text_dataset_from_directory
    read tensorflow.keras.preprocessing.image: load_img
    write tensorflow.keras.preprocessing.image: save_img
    write tensorflow.keras.callbacks: ModelCheckpoint CSVLogger TensorBoard BackupAndRestore
    read keras.models: load_model
    write-second keras.models: save_model
    read keras.saving: load_model
    write-second keras.saving: save_model
    read keras.utils: image_dataset_from_directory text_dataset_from_directory load_img
    write keras.utils: save_img
    read keras.preprocessing.image: load_img
    write keras.callbacks: ModelCheckpoint CSVLogger TensorBoard
    named-write tensorflow.keras.utils: plot_model
    named-write keras.utils: plot_model
    write torch.utils.tensorboard: SummaryWriter
    write tensorboardX: SummaryWriter
    read onnx: load load_model
    write-second onnx: save save_model
    read onnxruntime: InferenceSession
    read openvino.runtime.Core(): read_model
    read xgboost: DMatrix
    named-read xgboost: Booster
    named-read lightgbm: Booster
    read lightgbm: Dataset
    read catboost: Pool
    read catboost.CatBoostClassifier(): load_model
    read h2o: import_file load_model upload_file
    read datasets: load_from_disk
    read datasets.Dataset: load_from_disk from_csv from_json from_parquet from_text
    read datasets.DatasetDict: load_from_disk
    read tokenizers.Tokenizer: from_file
    read sentencepiece.SentencePieceProcessor(): load Load
    read llama_cpp: Llama
    read gpt4all: GPT4All
    read gensim.models.KeyedVectors: load load_word2vec_format
    read gensim.models.Word2Vec: load
    read gensim.models.word2vec: LineSentence Text8Corpus PathLineSentences
    read gensim.models.Doc2Vec: load
    read gensim.models.LdaModel: load
    read gensim.models.FastText: load
    read gensim.models.fasttext: load_facebook_model load_facebook_vectors
    read gensim.corpora: MmCorpus
    read gensim.corpora.Dictionary: load
    read fasttext: load_model train_supervised train_unsupervised
    read nltk.data: load find
    read nltk.corpus: PlaintextCorpusReader CategorizedPlaintextCorpusReader
    read nltk.corpus.reader: PlaintextCorpusReader CategorizedPlaintextCorpusReader TaggedCorpusReader
    read spacy: load
    read spacy.tokens.DocBin: from_disk
    read annoy.AnnoyIndex(): load
    read hnswlib.Index(): load_index
    write hnswlib.Index(): save_index
    read whisper.load_model(): transcribe
    read faster_whisper.WhisperModel(): transcribe
    read ultralytics: YOLO
    read stable_baselines3.PPO: load
    read autogluon.tabular: TabularDataset
    read autogluon.tabular.TabularPredictor: load
    read pycaret.classification: load_model
    read fastai.vision.all: load_learner
    read fastai.learner: load_learner
    write pytorch_lightning.loggers: TensorBoardLogger CSVLogger
    read llama_index.core: SimpleDirectoryReader
    read llama_index: SimpleDirectoryReader
    named-read llama_index.core.StorageContext: from_defaults
    read langchain_community.vectorstores.FAISS: load_local
    read langchain.vectorstores.FAISS: load_local
    named-write langchain_chroma: Chroma
    named-write langchain_community.vectorstores: Chroma
    named-write langchain_community.vectorstores.Chroma: from_documents from_texts
    named-write langchain.vectorstores.Chroma: from_documents from_texts
    read langchain.prompts: load_prompt
    read langchain_core.prompts: load_prompt
    write langchain_community.agent_toolkits: FileManagementToolkit
    write langchain.agents.agent_toolkits: FileManagementToolkit
    named-read langchain_community.tools.file_management: ReadFileTool WriteFileTool ListDirectoryTool
""")

_LOADERS = """TextLoader PyPDFLoader PyPDFDirectoryLoader PDFPlumberLoader PyMuPDFLoader PDFMinerLoader
    UnstructuredPDFLoader CSVLoader UnstructuredCSVLoader JSONLoader DirectoryLoader BSHTMLLoader
    UnstructuredHTMLLoader UnstructuredMarkdownLoader UnstructuredFileLoader UnstructuredWordDocumentLoader
    UnstructuredExcelLoader UnstructuredPowerPointLoader UnstructuredEmailLoader Docx2txtLoader NotebookLoader
    ObsidianLoader PythonLoader SRTLoader OutlookMessageLoader EverNoteLoader TomlLoader UnstructuredXMLLoader"""

TOOLS = symbols(f"""
    read langchain_community.document_loaders: {_LOADERS}
    read langchain.document_loaders: {_LOADERS}
    open smart_open: open smart_open
    open fsspec: open open_files open_local
    open fsspec.filesystem(): open
    read fsspec.filesystem(): cat cat_file read_text read_bytes head tail
    write fsspec.filesystem(): makedirs mkdir mkdirs pipe pipe_file touch write_text write_bytes
    list fsspec.filesystem(): ls find glob walk exists info isdir isfile du stat
    copy fsspec.filesystem(): get put download upload copy cp get_file put_file cp_file
    open fsspec.implementations.local.LocalFileSystem(): open
    open s3fs.S3FileSystem(): open
    open gcsfs.GCSFileSystem(): open
    read fs: open_fs
    read fs.osfs: OSFS
    open cloudpathlib.AnyPath(): open
    write atomicwrites: atomic_write
    write filelock: FileLock
    write portalocker: Lock
    list scandir: scandir walk
    read-second watchdog.observers.Observer(): schedule
    list watchfiles: watch awatch
    read mlflow: log_artifact log_artifacts load_table
    write-second mlflow.sklearn: save_model
    write-second mlflow.pytorch: save_model
    read mlflow.sklearn: load_model
    read mlflow.pytorch: load_model
    read mlflow.pyfunc: load_model
    read wandb: save
    read wandb.Artifact(): add_file add_dir
    read magic: from_file
    read filetype: guess
    read charset_normalizer: from_path
    write loguru.logger: add
    write line_profiler.LineProfiler(): dump_stats
    read git: Repo
    read pygit2: Repository discover_repository
    read dulwich.repo: Repo
    named-write requests_cache: CachedSession
    copy pyAesCrypt: encryptFile decryptFile
""")
