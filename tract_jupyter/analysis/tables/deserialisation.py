"""Formats that run code when read."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels, modules

_STANDARD = levels("""
    critical pickle: load loads Unpickler _load _loads _Unpickler
    high marshal: load loads
    high shelve: open Shelf BsdDbShelf DbfilenameShelf
    high xmlrpc.client: loads
    high multiprocessing.reduction: ForkingPickler recv_handle
    high multiprocessing.connection.Client(): recv
    high multiprocessing.connection.Listener(): accept
    high tracemalloc.Snapshot: load
    high trace: CoverageResults
    low pstats: Stats
    medium copyreg: pickle dispatch_table constructor add_extension _reconstructor __newobj__ __newobj_ex__
    medium *: __reduce__ __reduce_ex__
    high ?: Unpickler unsafe_load
""")

_PICKLES = levels("""
    high dill: load loads load_session load_module load_module_asdict Unpickler
    high cloudpickle: load loads Unpickler
    high joblib: load
    high sklearn.externals.joblib: load
    high jsonpickle: decode loads
    high jsonpickle.unpickler: decode Unpickler
    high .: pickleshare.* hickle.*
    high compress_pickle: load loads
    high srsly: pickle_loads
    high deepdish.io: load
    high blosc: unpack_array
    high blosc2: unpack_array unpack
    high numcodecs: Pickle
    high klepto.archives: file_archive dir_archive sql_archive hdf_archive
    medium sqlitedict: SqliteDict
    low diskcache: Cache FanoutCache Deque Index
    medium ZODB: DB
    medium ZODB.FileStorage: FileStorage
    high sqlalchemy.ext.serializer: loads Deserializer
    high kombu.serialization: loads unpickle enable_insecure_serializers
    high django.contrib.sessions.serializers: PickleSerializer
    high twisted.persisted.sob: load loadValueFromFile
    high twisted.persisted.aot: unjellyFromSource unjellyFromAOT
    high twisted.spread.jelly: unjelly
    high pyarrow: deserialize deserialize_from read_serialized deserialize_pandas
    medium pyspark.serializers: PickleSerializer CPickleSerializer CloudPickleSerializer
    medium *: pickleFile
    medium langchain.load: load loads
    medium langchain_core.load: load loads
    high langchain.vectorstores.FAISS: load_local deserialize_from_bytes
    high langchain_community.vectorstores.FAISS: load_local deserialize_from_bytes
    high langchain_community.vectorstores.faiss.FAISS: load_local deserialize_from_bytes
    high pandas: read_pickle
    high pandas.compat.pickle_compat: load Unpickler
    high numpy: load
    medium numpy.lib.format: read_array
    high astropy.io.misc: fnunpickle
    high networkx: read_gpickle
    high networkx.readwrite.gpickle: read_gpickle
    medium nltk.data: load
    medium nltk: load
""")

_YAML = levels("""
    critical yaml: unsafe_load unsafe_load_all UnsafeLoader CUnsafeLoader
    high yaml: load load_all full_load full_load_all Loader FullLoader CLoader CFullLoader
    medium yaml.constructor: Constructor UnsafeConstructor FullConstructor
    low yaml: add_constructor add_multi_constructor YAMLObject
    high ruamel.yaml: load load_all unsafe_load unsafe_load_all Loader UnsafeLoader CLoader
    high hyperpyyaml: load_hyperpyyaml
""")

_MODELS = levels("""
    high torch: load
    high torch.serialization: _load _legacy_load
    medium torch.serialization: add_safe_globals
    high torch.jit: load
    high torch.package: PackageImporter
    medium torch.hub: load_state_dict_from_url
    medium torch.utils.model_zoo: load_url
    medium *: load_from_checkpoint
    high keras.models: load_model model_from_yaml
    high keras.saving: load_model deserialize_keras_object
    high keras.src.saving.saving_api: load_model
    high tensorflow.keras.models: load_model model_from_yaml
    high tensorflow.keras.saving: load_model deserialize_keras_object
    medium keras.models: model_from_config
    medium tensorflow.keras.models: model_from_config
    medium tensorflow.saved_model: load
    medium tensorflow.saved_model.loader: load
    low tensorflow_hub: load KerasLayer
    high fastai.learner: load_learner load_model
    high fastai.basics: load_learner
    high fastai.vision.all: load_learner
    high fastai.tabular.all: load_learner
    high fastai.text.all: load_learner
    high fastai.collab: load_learner
    high fastai.basic_train: load_learner
    high paddle: load
    high theano.misc.pkl_utils: load
    high skops.io: load loads
    medium mmcv: load
    medium mmengine: load
    medium mlflow.pyfunc: load_model
    medium mlflow.sklearn: load_model
    medium mlflow.pytorch: load_model load_state_dict
    medium mlflow.tensorflow: load_model
    medium mlflow.keras: load_model
    medium mlflow.statsmodels: load_model
    medium mlflow.spacy: load_model
    medium bentoml: import_model
    medium bentoml.sklearn: load_model
    medium bentoml.picklable_model: load_model
    medium statsmodels.api: load
    medium statsmodels.iolib.api: load_pickle
    medium statsmodels.iolib.smpickle: load_pickle
    medium statsmodels.regression.linear_model.OLSResults: load
    medium statsmodels.tsa.arima.model.ARIMAResults: load
    medium statsmodels.tsa.arima_model.ARIMAResults: load
    medium gensim.models: LsiModel.load LdaModel.load Word2Vec.load Doc2Vec.load FastText.load
        KeyedVectors.load TfidfModel.load LdaMulticore.load HdpModel.load Phrases.load CoherenceModel.load
    medium gensim.models.word2vec.Word2Vec: load
    medium gensim.models.doc2vec.Doc2Vec: load
    medium gensim.models.fasttext.FastText: load
    medium gensim.models.keyedvectors.KeyedVectors: load
    medium gensim.models.phrases: Phrases.load Phraser.load
    medium gensim.corpora: Dictionary.load
    medium gensim.corpora.dictionary.Dictionary: load
    medium gensim.utils: unpickle
    low gensim.downloader: load
    medium surprise.dump: load
    medium stable_baselines3: PPO.load A2C.load DQN.load SAC.load TD3.load DDPG.load
    medium autogluon.tabular: TabularPredictor.load
    medium pycaret.classification: load_model load_experiment
    medium pycaret.regression: load_model load_experiment
    medium pycaret.clustering: load_model load_experiment
    medium pycaret.time_series: load_model load_experiment
    medium pycaret.anomaly: load_model load_experiment
    medium allennlp.predictors: Predictor.from_path
    medium allennlp.predictors.predictor: Predictor.from_path
    medium allennlp.models.archival: load_archive
    medium sktime.base: load
    medium flair.models: SequenceTagger.load TextClassifier.load
    medium jax.export: deserialize
""")

LOADS_OBJECTS = {**_STANDARD, **_PICKLES, **_YAML, **_MODELS}

LOADS_OBJECTS_MODULES = modules("""
    low: pickle marshal shelve dill cloudpickle joblib jsonpickle hickle
""")
