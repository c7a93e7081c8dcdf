"""Packages whose import is not a finding. The other tables list their dangerous parts."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import words

_DATA = words("""
    numpy pandas scipy polars pyarrow xarray dask distributed modin cudf cupy cuml cugraph vaex datatable
    duckdb ibis narwhals fireducks pandera great_expectations pyjanitor janitor missingno ydata_profiling
    pandas_profiling sweetviz dtale pandasql swifter pandarallel siuba dfply numexpr bottleneck numba numbagg
    cython Cython pythran pandas_gbq pandas_datareader pandas_ta pandas_market_calendars pyspark koalas
    databricks delta deltalake pyiceberg fastparquet fastavro avro tables h5py h5netcdf netCDF4 zarr numcodecs
    kerchunk icechunk tiledb blosc blosc2 lz4 zstandard snappy cramjam brotli xlrd xlwt openpyxl xlsxwriter
    pyxlsb xlwings odf pyexcel tablib petl python_calamine calamine fastexcel connectorx turbodbc sqlalchemy
    sqlmodel sqlglot sqlparse peewee pony records dataset sqlite_utils aiosqlite apsw psycopg psycopg2 asyncpg
    pymysql MySQLdb mysql mariadb pyodbc pymssql cx_Oracle oracledb clickhouse_connect clickhouse_driver
    cassandra pymongo motor redis elasticsearch opensearchpy neo4j influxdb influxdb_client snowflake trino
    prestodb pyhive impala alembic mongoengine beanie tortoise lmdb plyvel diskcache cachetools tinydb
    tabulate prettytable texttable itables great_tables pygwalker perspective recordlinkage dedupe splink
    rapidfuzz thefuzz fuzzywuzzy Levenshtein jellyfish textdistance unidecode ftfy phonenumbers pycountry
    babel humanize inflect num2words dateutil dateparser pytz tzdata tzlocal arrow pendulum isodate ciso8601
    holidays workalendar convertdate hijri_converter exchange_calendars
""")

SCIENCE = words("""
    sympy mpmath gmpy2 networkx igraph graph_tool graphviz pygraphviz pydot pyvis rustworkx scikit_learn
    sklearn sklearn_extra imblearn statsmodels patsy formulaic linearmodels pingouin scikit_posthocs arch
    lifelines scikit_survival sksurv pymc pymc3 pytensor aesara theano arviz emcee corner dynesty pystan
    cmdstanpy numpyro pyro bambi nutpie blackjax cvxpy cvxopt pulp pyomo ortools gurobipy mip highspy docplex
    scs osqp ecos picos casadi gekko pyscipopt deap pygad pymoo nevergrad platypus cma filterpy control slycot
    simpy mesa salabim uncertainties pint quantities unyt astropy astroquery sunpy lightkurve photutils
    specutils healpy skyfield ephem poliastro yt galpy rebound einsteinpy gwpy pycbc obspy metpy siphon wrf
    iris cartopy cfgrib cftime xesmf xclim xskillscore climlab geopandas shapely fiona pyproj rasterio
    rioxarray rasterstats pyogrio shapefile osgeo osmnx momepy libpysal esda splot spreg mgwr pysal geopy
    geocoder geojson folium keplergl pydeck ipyleaflet leafmap geemap ee contextily h3 s2sphere pygeos rtree
    geoviews geoplot mapclassify earthpy laspy pdal pvlib windpowerlib Bio skbio pysam pybedtools HTSeq
    anndata scanpy scvi muon squidpy cellrank scvelo pydeseq2 gseapy goatools ete3 dendropy rdkit openbabel
    pybel ase pymatgen MDAnalysis mdtraj openmm parmed nglview py3Dmol pubchempy deepchem chemprop cirpy
    mendeleev periodictable pyscf psi4 qutip qiskit qiskit_aer cirq pennylane braket projectq dwave nibabel
    nilearn dipy mne mne_bids pyedflib wfdb neurokit2 heartpy biosppy antropy pydicom SimpleITK itk vtk
    pyvista trimesh meshio open3d pyntcloud gmsh fenics dolfin dolfinx firedrake fipy cantera CoolProp thermo
    chemicals pyroomacoustics nolds hurst pywt ssqueezepy librosa soundfile audioread pydub torchaudio madmom
    essentia music21 mido pretty_midi spectrum scikits pyfftw finufft noise opensimplex uproot awkward vector
    hist boost_histogram iminuit zfit pyhf particle coffea ROOT yfinance fredapi quandl nasdaqdatalink
    alpha_vantage talib ta finta backtrader backtesting bt zipline vectorbt pyfolio empyrical quantstats ffn
    quantlib QuantLib riskfolio pypfopt ccxt wbgapi wbdata eurostat pytrends dowhy econml causalml
    causalinference causalnex doubleml semopy factor_analyzer prince umap hdbscan openTSNE phate kneed
    yellowbrick scikitplot mlxtend category_encoders feature_engine featuretools tsfresh tsfel sktime darts
    prophet fbprophet neuralprophet pmdarima statsforecast mlforecast neuralforecast gluonts tslearn stumpy
    pyts kats orbit ruptures greykite pycatch22 hmmlearn pomegranate pgmpy bnlearn pyod alibi alibi_detect
""")

LEARNING = words("""
    torch torchvision torchtext torchaudio torchmetrics torchinfo torchsummary torchdata torch_geometric
    torch_scatter torch_sparse torch_cluster functorch pytorch_lightning lightning ignite fastai fastcore
    fastdownload catalyst tensorflow tensorflow_hub tensorflow_datasets tensorflow_probability tensorflow_text
    tensorflow_addons tf_keras tensorboard tensorboardX tflite_runtime keras keras_cv keras_nlp keras_hub
    keras_tuner kerastuner jax jaxlib flax haiku optax chex orbax equinox diffrax jaxopt objax trax mxnet
    paddle mindspore oneflow tinygrad mlx transformers datasets tokenizers accelerate peft trl evaluate
    diffusers optimum safetensors huggingface_hub bitsandbytes xformers flash_attn deepspeed fairscale apex
    einops timm open_clip clip sentence_transformers setfit sentencepiece tiktoken sacremoses sacrebleu rouge
    rouge_score bert_score jiwer seqeval nltk spacy spacy_transformers scispacy stanza flair gensim textblob
    pattern vaderSentiment textstat wordcloud wordfreq langdetect langid fasttext yake keybert bertopic
    pyLDAvis top2vec contractions emoji demoji spellchecker symspellpy jieba pypinyin konlpy sudachipy MeCab
    fugashi janome pythainlp underthesea camel_tools indicnlp allennlp fairseq lightgbm xgboost catboost
    ngboost interpret shap lime eli5 dalex captum optuna hyperopt skopt bayes_opt ax botorch gpytorch GPy
    GPyOpt GPflow gpflow smac ConfigSpace auto_sklearn autosklearn autogluon tpot pycaret h2o flaml ray mlflow
    wandb comet_ml neptune clearml dvc dvclive sacred hydra omegaconf aim onnx onnxruntime
    onnxconverter_common skl2onnx onnxmltools tf2onnx openvino tensorrt pycuda triton coremltools hummingbird
    treelite skops joblib cloudpickle dill gym gymnasium stable_baselines3 sb3_contrib rllib pettingzoo
    minigrid ale_py mujoco dm_control pybullet d3rlpy tianshou cleanrl surprise implicit lightfm recbole
    cornac openai anthropic google cohere mistralai litellm ollama groq together replicate instructor outlines
    guidance langchain langchain_core langchain_community langchain_openai langchain_anthropic
    langchain_google_genai langchain_huggingface langchain_ollama langchain_text_splitters langchain_chroma
    langchain_experimental langgraph langsmith langserve langfuse llama_index llama_cpp ctransformers gpt4all
    vllm sglang mlc_llm exllamav2 autogen autogen_agentchat autogen_core crewai smolagents pydantic_ai dspy
    semantic_kernel haystack agno phi promptflow ragas deepeval trulens guardrails nemoguardrails lmql marvin
    magentic mirascope swarm agents chromadb faiss pinecone weaviate qdrant_client pymilvus lancedb hnswlib
    annoy usearch pgvector voyager txtai mcp fastmcp tract tract_jupyter rank_bm25 flashrank ragatouille
    colbert unstructured docling markitdown whisper faster_whisper whisperx TTS gtts pyttsx3
    speech_recognition ultralytics detectron2 mmcv mmdet mmseg mmpose supervision roboflow segment_anything
    sam2 groundingdino face_recognition dlib mediapipe facenet_pytorch deepface insightface albumentations
    imgaug kornia torchio monai medmnist segmentation_models_pytorch segmentation_models imutils norfair
    easyocr pytesseract keras_ocr paddleocr doctr craft_text_detector adversarial_robustness_toolbox art
    foolbox cleverhans fairlearn aif360 responsibleai opacus syft snorkel cleanlab modAL small_text argilla
    label_studio_sdk fiftyone evidently deepchecks whylogs nannyml
""")

PICTURES = words("""
    matplotlib mpl_toolkits pylab seaborn plotly plotly_express altair vega vega_datasets vegafusion
    vl_convert bokeh holoviews hvplot panel param datashader colorcet cmocean cmcrameri palettable colour
    brewer2mpl plotnine pygal chartify bqplot pythreejs ipyvolume ipympl mplfinance mplcursors mpld3
    adjustText venn matplotlib_venn upsetplot joypy ptitprince statannotations squarify calmap calplot
    pywaffle highlight_text scienceplots proplot ternary mpltern windrose pyecharts echarts toyplot vispy fury
    pyqtgraph napari glumpy moderngl manim manimlib kaleido cufflinks chart_studio dash
    dash_bootstrap_components jupyter_dash streamlit gradio voila solara shiny nicegui mercury flet reacton
    taipy marimo termcolor plotext uniplot sparklines PIL cv2 skimage imageio imageio_ffmpeg tifffile pyvips
    wand imagehash exifread piexif rawpy colorthief webcolors mahotas imutils moviepy ffmpeg av decord vidgear
    cairo cairosvg svgwrite svgpathtools svglib drawsvg fpdf reportlab weasyprint qrcode barcode pyzbar ezdxf
""")

_NOTEBOOKS = words("""
    IPython ipython ipykernel ipywidgets ipyparallel ipyevents ipycanvas ipyfilechooser ipydatagrid ipyvuetify
    anywidget traitlets traittypes jupyter jupyter_client jupyter_core jupyter_server jupyterlab
    jupyterlab_server jupyter_contrib_nbextensions jupyter_cache jupyter_ai jupytext nbformat nbconvert
    nbclient nbdime nbdev nbval nbsphinx papermill scrapbook testbook notebook qtconsole jupyterlab_widgets
    widgetsnbextension comm matplotlib_inline jupyterthemes itikz watermark memory_profiler line_profiler
    pyinstrument scalene snakeviz tqdm alive_progress progressbar enlighten rich textual click typer fire
    docopt colorama blessed prompt_toolkit questionary inquirer pyfiglet loguru structlog icecream
    stackprinter snoop better_exceptions tabulate pprintpp google kaggle kagglehub opendatasets databricks_cli
    dbutils
""")

_BASICS = words("""
    pydantic pydantic_core pydantic_settings attr attrs cattrs cattr marshmallow dataclasses_json msgspec
    voluptuous cerberus schema jsonschema referencing jsonpath_ng jmespath jsonpatch jsonpointer jsonlines
    orjson ujson rapidjson simplejson ijson json5 demjson hjson yaml ruamel strictyaml toml tomli tomlkit
    tomli_w configobj dotenv environs decouple dynaconf python_box box addict munch benedict glom deepdiff
    dictdiffer toolz cytoolz funcy more_itertools boltons sortedcontainers bidict frozendict immutables
    pyrsistent intervaltree blist bitarray bitstring multipledispatch plum_dispatch singledispatchmethod wrapt
    decorator deprecated deprecation tenacity backoff retrying retry ratelimit cachetools methodtools
    memoization attrdict typing_extensions typing_inspect typing_inspection typeguard beartype mypy
    mypy_extensions pyright annotated_types jaxtyping nptyping six future past importlib_metadata
    importlib_resources packaging setuptools pkg_resources wheel pip platformdirs appdirs xdg filelock
    portalocker fasteners watchdog watchfiles pathspec path pathlib2 pathvalidate send2trash fsspec s3fs gcsfs
    adlfs smart_open universal_pathlib upath cloudpathlib aiofiles anyio trio curio sniffio outcome uvloop
    nest_asyncio asyncstdlib aiostream aiocache janus gevent greenlet eventlet tornado twisted regex parse
    pyparsing lark ply parso antlr4 textx tatsu parsimonious lxml bs4 soupsieve html5lib html2text markdownify
    markdown mistune markdown_it commonmark docutils sphinx myst_parser mkdocs bleach markupsafe MarkupSafe
    jinja2 mako chevron pystache cssselect cssutils tinycss2 xmltodict defusedxml untangle feedparser
    newspaper trafilatura readability justext docx pptx pypdf PyPDF2 pdfplumber pdfminer fitz pymupdf
    pymupdf4llm pikepdf pdf2image camelot tabula docx2txt mammoth ebooklib nameparser usaddress
    email_validator validators tldextract furl yarl idna certifi charset_normalizer chardet cchardet urllib3
    requests httpx aiohttp requests_cache requests_html requests_toolbelt httpcore h11 h2 multidict frozenlist
    aiosignal websocket websockets cryptography Crypto Cryptodome nacl bcrypt passlib argon2 jwt jose authlib
    oauthlib itsdangerous hashids shortuuid ulid nanoid uuid6 faker mimesis names polyfactory factory pytest
    hypothesis nose nose2 mock pytest_mock coverage tox nox freezegun time_machine responses respx vcr moto
    testcontainers ipytest black isort ruff flake8 pylint autopep8 yapf pycodestyle pyflakes bandit radon
    vulture libcst asttokens astor astroid astunparse executing pure_eval stack_data varname rope jedi
    pygments pre_commit invoke nbqa psutil GPUtil pynvml cpuinfo distro humanfriendly schedule apscheduler
    croniter celery rq dramatiq huey airflow prefect dagster luigi kedro metaflow dbt flyte zenml snakemake
    flask fastapi starlette uvicorn django rest_framework bottle falcon sanic quart pyramid aiohttp_cors
    werkzeug gunicorn hypercorn graphene strawberry graphql gql zmq msgpack google_crc32c grpc protobuf thrift
    capnp flatbuffers boto3 botocore azure googleapiclient kubernetes docker git github gitlab jira slack_sdk
    paramiko fabric selenium playwright scrapy tweepy praw wikipedia arxiv scholarly cffi pybind11 nanobind
    llvmlite pyximport mypyc pyopencl pythonnet jpype rpy2 oct2py matlab julia juliacall pyjulia pyodide
    pyscript js micropip usb serial pyvisa nidaqmx RPi gpiozero adafruit bleak pygame arcade pyglet PyQt5
    PyQt6 PySide2 PySide6 wx kivy pyperclip pywin32 win32com pint_pandas pandas_flavor openapi_spec_validator
    transitions automat statemachine pycparser blinker zope injector dependency_injector returns result option
    pykka ordered_set unittest2
""")

KNOWN_HARMLESS = _DATA | SCIENCE | LEARNING | PICTURES | _NOTEBOOKS | _BASICS

REMOVED_STDLIB = words("""
    aifc anydbm asynchat asyncore audioop binhex BaseHTTPServer Bastion bsddb CGIHTTPServer cgi cgitb chunk
    commands compiler ConfigParser Cookie cookielib copy_reg cPickle crypt cStringIO dbhash dircache distutils
    DocXMLRPCServer dumbdbm dummy_thread dummy_threading exceptions formatter fpformat future_builtins gdbm
    hotshot HTMLParser htmlentitydefs htmllib httplib ihooks imghdr imp imputil lib2to3 macpath macurl2path
    mailcap md5 mhlib mimetools MimeWriter mimify msilib multifile mutex new nis nntplib ossaudiodev parser
    pipes popen2 posixfile Queue repr rexec rfc822 robotparser sets sha SimpleHTTPServer SimpleXMLRPCServer
    smtpd sndhdr SocketServer spwd statvfs stringold StringIO sunau sunaudio symbol telnetlib thread Tkinter
    toaiff tkMessageBox tkFileDialog ttk urllib2 urlparse user UserDict UserList UserString uu whichdb xdrlib
    xmllib xmlrpclib _winreg __builtin__
""")
"""Former modules of the standard library. They are known, although Python no longer lists them."""
