"""Clients of databases, clouds, messengers, models and data services; `network` explains the levels."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels

DATABASES = levels("""
    high .: psycopg.* psycopg2.* psycopg_pool.* asyncpg.* aiopg.* pg8000.* pymysql.* MySQLdb.*
        mysql.connector.* aiomysql.* mariadb.* cx_Oracle.* oracledb.* pyodbc.* aioodbc.* pymssql.* turbodbc.*
        ibm_db.* ibm_db_dbi.* jaydebeapi.* clickhouse_driver.* clickhouse_connect.* cassandra.cluster.*
        redis.* aioredis.* rediscluster.* pymongo.* motor.* mongoengine.* elasticsearch.*
        elasticsearch_dsl.connections.* opensearchpy.* neo4j.* py2neo.* gremlin_python.* arango.* couchdb.*
        couchbase.* influxdb.* influxdb_client.* snowflake.connector.* snowflake.snowpark.* databricks.*
        trino.* prestodb.* pyhive.* impala.* vertica_python.* teradatasql.* teradataml.* hdbcli.*
        redshift_connector.* pyathena.* pymemcache.* pylibmc.* memcache.* rethinkdb.* pydruid.* questdb.*
        weaviate.* pinecone.* pymilvus.* qdrant_client.* supabase.* firebase_admin.* pyrebase.* airtable.*
        pyairtable.* gspread.* surrealdb.* libsql.* hdfs.*
    low .: databricks.koalas.* snowflake.snowpark.functions.* snowflake.snowpark.types.*
    low psycopg2: extras sql extensions Binary Date Timestamp
    low psycopg2.extras: RealDictCursor DictCursor Json execute_values execute_batch register_uuid
    low psycopg: sql rows
    low psycopg.rows: dict_row namedtuple_row
    low pymysql: cursors converters install_as_MySQLdb
    low pymysql.cursors: DictCursor
    low pymongo: ASCENDING DESCENDING InsertOne UpdateOne ReplaceOne DeleteOne errors
    low qdrant_client: models
    low qdrant_client.models: Distance VectorParams PointStruct Filter
    low qdrant_client.http.models: Distance VectorParams PointStruct Filter
    high chromadb: HttpClient AsyncHttpClient CloudClient
    medium adbc_driver_postgresql.dbapi: connect
    medium adbc_driver_flightsql.dbapi: connect
    medium pyarrow.flight: connect FlightClient
    medium ibis: connect
    medium ibis.postgres: connect
    medium ibis.bigquery: connect
    medium pandas: read_gbq
    medium *: to_gbq
    medium .: pandas_gbq.* bigframes.*
""")

CLOUDS = levels("""
    high .: boto3.* botocore.* aiobotocore.* aioboto3.* sagemaker.* awswrangler.* s3fs.* s3transfer.* boto.*
        google.cloud.* google.auth.* googleapiclient.* gcsfs.* vertexai.* google_auth_oauthlib.* pydrive.*
        pydrive2.* azure.* azureml.* adlfs.* msal.* minio.* oci.* ibm_boto3.* ibm_watson.* b2sdk.* dropbox.*
        boxsdk.* onedrivesdk.* tencentcloud.* oss2.* aliyunsdkcore.* qiniu.* digitalocean.* linode_api4.*
        hcloud.* libcloud.* openstack.* swiftclient.* runpod.* O365.* office365.* earthaccess.* exchangelib.*
    low botocore.config: Config
    low botocore.client: Config
    low .: boto3.dynamodb.*
    low botocore: UNSIGNED
    low google.cloud.bigquery: SchemaField QueryJobConfig ScalarQueryParameter LoadJobConfig
    high boto3.client(): upload_file upload_fileobj put_object copy_object download_file download_fileobj
        get_object list_objects list_objects_v2 list_buckets create_bucket invoke send_message publish
        send_email generate_presigned_url put_item get_item query scan assume_role get_secret_value
        invoke_model run_instances
    high boto3.resource(): Bucket Object Table
    high boto3.Session(): client resource
    high google.cloud.storage.Client(): bucket get_bucket list_blobs list_buckets
    high google.cloud.bigquery.Client(): query load_table_from_dataframe insert_rows_json
    high pyarrow.fs: S3FileSystem GcsFileSystem AzureFileSystem HadoopFileSystem
    high *: upload_file upload_fileobj upload_from_filename upload_from_string upload_folder upload_blob
        upload_large_folder push_to_hub generate_presigned_url
    high google.colab.auth: authenticate_user
    medium google.colab.drive: mount
    medium ee: Initialize Authenticate
    medium earthengine: Initialize
    medium cdsapi: Client
    medium kaggle: api
    medium .: kagglehub.* kaggle.api.* opendatasets.*
""")

MESSAGES = levels("""
    high .: slack_sdk.* slack.* slackclient.* slack_bolt.* discord.* discord_webhook.* telegram.* telebot.*
        aiogram.* telethon.* pyrogram.* tweepy.* twitter.* praw.* asyncpraw.* facebook.* instagrapi.*
        mastodon.* atproto.* twilio.* vonage.* nexmo.* plivo.* sendgrid.* mailgun.* mailjet_rest.*
        postmarker.* postmark.* resend.* yagmail.* redmail.* envelopes.* aiosmtplib.* imap_tools.*
        imapclient.* mailchimp_transactional.* mailchimp_marketing.* pushbullet.* pushover.* apprise.*
        pymsteams.* knockknock.* whatsapp.* pywhatkit.* matrix_client.* nio.* slixmpp.* sleekxmpp.* irc.*
        stripe.* paypalrestsdk.* braintree.* plaid.* binance.* ccxt.* alpaca.* alpaca_trade_api.* web3.*
        robin_stocks.* ib_insync.* kiteconnect.* github.* gitlab.* atlassian.* jira.* notion_client.* trello.*
        asana.* hubspot.* simple_salesforce.* zenpy.* todoist_api_python.* pypaste.* pastebin.* jenkins.*
        pyzabbix.* pygerrit2.* shopify.* zoomus.* spotipy.*
    low discord: Embed Intents Color File
    low web3: Web3
    medium ccxt: exchanges
    high git.Repo: clone_from
    high git.Repo(): clone git.push git.pull git.fetch
    high git.Repo().remotes.origin: push pull fetch
    high git.Repo().remote(): push pull fetch
    high git: Remote Git
    high pygit2: clone_repository
    high dulwich.porcelain: clone push pull fetch ls_remote
    high *: chat_postMessage files_upload files_upload_v2 sendmail clone_from
""")

MODELS = levels("""
    medium .: openai.* anthropic.* google.generativeai.* google.genai.* cohere.* mistralai.* litellm.*
        ollama.* groq.* together.* replicate.* fireworks.* cerebras.* deepseek.* zhipuai.* dashscope.* ai21.*
        aleph_alpha_client.* voyageai.* xai_sdk.* perplexity.* elevenlabs.* assemblyai.* deepgram.*
        stability_sdk.* huggingface_hub.* langchain_openai.* langchain_anthropic.* langchain_google_genai.*
        langchain_groq.* langchain_mistralai.* langchain_cohere.* langchain_ollama.* langchain_aws.*
        langchain_google_vertexai.* instructor.* gradio_client.* openrouter.* deepl.* googletrans.*
        deep_translator.* gtts.* edge_tts.* portkey_ai.*
    low .: openai.types.* anthropic.types.*
    low openai: types
    low anthropic: types
    low huggingface_hub: hf_hub_download snapshot_download notebook_login list_models model_info HfFolder
        get_token hf_hub_url try_to_load_from_cache scan_cache_dir
    medium huggingface_hub: list_datasets
    high huggingface_hub: upload_file upload_folder upload_large_folder create_repo create_commit
        push_to_hub_keras push_to_hub_fastai
    high huggingface_hub.HfApi(): upload_file upload_folder upload_large_folder create_repo create_commit
    medium openai.OpenAI().chat.completions: create parse
    medium openai.AsyncOpenAI().chat.completions: create
    medium openai.OpenAI().responses: create
    medium openai.OpenAI().embeddings: create
    medium openai.OpenAI().images: generate
    high openai.OpenAI().files: create
    medium anthropic.Anthropic().messages: create stream
    medium anthropic.AsyncAnthropic().messages: create stream
    medium langchain_community.chat_models: ChatOpenAI ChatAnthropic
    medium langchain.chat_models: ChatOpenAI ChatAnthropic init_chat_model
    medium langchain.llms: OpenAI
    medium langchain_community.document_loaders: WebBaseLoader UnstructuredURLLoader SeleniumURLLoader
        PlaywrightURLLoader RecursiveUrlLoader SitemapLoader AsyncHtmlLoader YoutubeLoader WikipediaLoader
        ArxivLoader S3FileLoader S3DirectoryLoader GCSFileLoader GitLoader GithubFileLoader
    medium langchain.document_loaders: WebBaseLoader UnstructuredURLLoader RecursiveUrlLoader SitemapLoader
        AsyncHtmlLoader YoutubeLoader WikipediaLoader ArxivLoader S3FileLoader GitLoader
    high langchain_community.utilities: RequestsWrapper TextRequestsWrapper
    high langchain_community.agent_toolkits: PlayWrightBrowserToolkit GmailToolkit SlackToolkit
        RequestsToolkit
    high langchain_community.tools: RequestsGetTool RequestsPostTool
    medium langchain_community.tools: DuckDuckGoSearchRun WikipediaQueryRun ArxivQueryRun
    medium smolagents: DuckDuckGoSearchTool VisitWebpageTool InferenceClientModel HfApiModel LiteLLMModel
        OpenAIServerModel
    low transformers: pipeline
    low *: from_pretrained
    low datasets: load_dataset load_dataset_builder get_dataset_config_names list_datasets
    medium torch.hub: load download_url_to_file load_state_dict_from_url
    low torch.hub: list help get_dir set_dir
    low torchvision.datasets.utils: download_url download_and_extract_archive
    low torchvision.datasets: MNIST FashionMNIST CIFAR10 CIFAR100 ImageNet CocoDetection SVHN CelebA
        VOCDetection
    low torchtext.datasets: IMDB AG_NEWS
    low torch_geometric.datasets: Planetoid TUDataset
    low tensorflow_datasets: load builder
    low tensorflow_hub: load KerasLayer
    low tensorflow.keras.utils: get_file
    low keras.utils: get_file
    low tensorflow.keras.datasets.mnist: load_data
    low tensorflow.keras.datasets.fashion_mnist: load_data
    low tensorflow.keras.datasets.cifar10: load_data
    low tensorflow.keras.datasets.imdb: load_data get_word_index
    low keras.datasets.mnist: load_data
    low keras.datasets.cifar10: load_data
    low sklearn.datasets: fetch_20newsgroups fetch_20newsgroups_vectorized fetch_california_housing
        fetch_covtype fetch_kddcup99 fetch_lfw_pairs fetch_lfw_people fetch_olivetti_faces fetch_openml
        fetch_rcv1 fetch_species_distributions fetch_file
    low statsmodels.api.datasets: get_rdataset
    low statsmodels.datasets: get_rdataset
    low seaborn: load_dataset get_dataset_names
    low skimage.data: retina cells3d brain download_all
    low scipy.datasets: face ascent electrocardiogram download_all
    low nltk: download download_shell download_gui
    low spacy.cli: download
    low stanza: download
    low gensim.downloader: load info
    low timm: create_model
    low openml.datasets: get_dataset
    low ucimlrepo: fetch_ucirepo
    low vega_datasets: data
    low xarray.tutorial: open_dataset load_dataset
    low librosa: example
    low geodatasets: get_path
    low whisper: load_model
    low faster_whisper: WhisperModel
    low sentence_transformers: SentenceTransformer CrossEncoder
    low easyocr: Reader
""")

DATA = levels("""
    medium .: yfinance.* pandas_datareader.* fredapi.* quandl.* nasdaqdatalink.* alpha_vantage.* finnhub.*
        polygon.* tiingo.* akshare.* tushare.* baostock.* world_bank_data.* wbgapi.* wbdata.* pytrends.*
        coingecko.* pycoingecko.* newsapi.* meteostat.* openmeteo_requests.* pyowm.* ecmwfapi.* sentinelsat.*
        pystac_client.* planetary_computer.* osmnx.* overpy.* googlemaps.* geopy.geocoders.* geocoder.*
        ipinfo.* censusdata.* sodapy.* eurostat.* ecbdata.* sec_edgar_downloader.* nba_api.* fastf1.*
        Bio.Entrez.* astroquery.* mp_api.* pubchempy.* chembl_webresource_client.* openml.* roboflow.*
        labelbox.* datadotworld.*
    low osmnx: plot_graph basic_stats settings
    low geopy.distance: geodesic great_circle distance
    low astroquery: log
    medium sentry_sdk: init capture_message capture_exception
    medium wandb: init login
    low wandb: log finish Artifact Table Image config watch
    medium comet_ml: Experiment init start login
    medium neptune: init init_run
    medium neptune.new: init
    medium clearml.Task: init
    medium .: datadog.* newrelic.* rollbar.* bugsnag.* posthog.* mixpanel.* amplitude.* honeycomb.* logdna.*
        logtail.* logfire.* langfuse.* langsmith.* arize.* whylogs.api.* prometheus_client.push_to_gateway
    low mlflow: set_tracking_uri start_run log_metric log_param
    medium opentelemetry.exporter.otlp.proto.grpc.trace_exporter: OTLPSpanExporter
    medium opentelemetry.exporter.otlp.proto.http.trace_exporter: OTLPSpanExporter
    medium chart_studio.plotly: plot iplot
    medium datapane: upload_report
""")
