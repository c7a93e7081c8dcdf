"""Environment variables and stores of secrets."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels

READS_ENVIRONMENT = levels("""
    medium os: environ environb getenv getenvb
    low os: getlogin get_exec_path
    low os.path: expandvars
    medium ?: environ environb getenv
    medium dotenv: load_dotenv dotenv_values get_key
    low dotenv: find_dotenv
    medium decouple: config AutoConfig Config RepositoryEnv RepositoryIni
    medium environ: Env
    medium environs: Env env
    medium envparse: env Env
    medium envyaml: EnvYAML
    medium dynaconf: Dynaconf settings LazySettings
    medium starlette.config: Config
    low pydantic: BaseSettings
    low pydantic_settings: BaseSettings
    medium psutil.Process(): environ
    medium sys.stdin: read
    low getpass: getuser
    low pwd: getpwnam getpwuid getpwall
    low grp: getgrnam getgrgid getgrall
    low uuid: getnode
    low psutil: users net_connections
""")

CHANGES_ENVIRONMENT = levels("""
    medium os: environ environb putenv unsetenv
    low os: reload_environ
    low time: tzset
    medium dotenv: set_key unset_key
    high winreg: CreateKey CreateKeyEx SetValue SetValueEx DeleteKey DeleteKeyEx DeleteValue SaveKey LoadKey
    medium winreg: OpenKey OpenKeyEx ConnectRegistry
""")

_STORES = levels("""
    high keyring: get_password get_credential get_keyring
    medium keyring: set_password delete_password set_keyring
    high netrc: netrc
    high .: secretstorage.* hvac.* onepassword.* onepasswordconnectsdk.* pykeepass.* bitwarden_sdk.*
        win32cred.* win32crypt.* azure.identity.* azure.keyvault.* google.cloud.secretmanager.*
        botocore.credentials.* aws_secretsmanager_caching.*
    high spwd: getspnam getspall
    high google.colab.userdata: get
    medium google.colab.auth: authenticate_user
    high kaggle_secrets: UserSecretsClient
    high notebookutils.credentials: getSecret getToken
    high mssparkutils.credentials: getSecret getToken
    high boto3.Session(): get_credentials
    high boto3.session.Session(): get_credentials
    high botocore.session.Session(): get_credentials
    high botocore.session.get_session(): get_credentials
    medium google.auth: default load_credentials_from_file
    medium google.oauth2.service_account.Credentials: from_service_account_file from_service_account_info
    medium google.oauth2.credentials.Credentials: from_authorized_user_file
    medium google_auth_oauthlib.flow: InstalledAppFlow Flow
    medium msal: PublicClientApplication ConfidentialClientApplication
    high huggingface_hub: get_token HfFolder
    high huggingface_hub.utils: get_token HfFolder
    medium huggingface_hub: login interpreter_login
    low huggingface_hub: notebook_login
    medium kagglehub: login
    medium kaggle.api: authenticate
    medium airflow.models: Variable.get Connection
    high airflow.hooks.base: BaseHook.get_connection
    high prefect.blocks.system: Secret.load
    high jupyter_server.serverapp: list_running_servers
    high notebook.notebookapp: list_running_servers
    high paramiko: Agent
    high paramiko.agent: Agent
    medium gnupg: GPG
    medium git.Repo(): config_reader
    medium git: GitConfigParser
    medium streamlit: secrets
    low getpass: getpass unix_getpass fallback_getpass win_getpass
    high .: browser_cookie3.* browsercookie.* rookiepy.* pycookiecheat.*
""")

_PERSON = levels("""
    medium pyperclip: paste waitForPaste waitForNewPaste
    low pyperclip: copy
    medium clipboard: paste
    medium pandas: read_clipboard
    medium pandas.io.clipboard: paste clipboard_get
    medium polars: read_clipboard
    medium tkinter.Tk(): clipboard_get selection_get
    medium win32clipboard: GetClipboardData OpenClipboard
    medium IPython.lib.clipboard: win32_clipboard_get osx_clipboard_get tkinter_clipboard_get
        wayland_clipboard_get
    high PIL.ImageGrab: grab grabclipboard
    high pyscreenshot: grab
    medium Xlib.display: Display
    high .: mss.* pyxhook.* evdev.*
    high keyboard: record hook on_press on_release read_key read_event read_hotkey start_recording get_typed_strings
    high mouse: record hook
    medium sounddevice: rec playrec InputStream RawInputStream Stream
    medium pyaudio: PyAudio
    medium ossaudiodev: open
    medium soundcard: default_microphone all_microphones get_microphone
    medium speech_recognition: Microphone
    low cv2: VideoCapture
    medium pygame.camera: Camera
    medium picamera: PiCamera
    medium picamera2: Picamera2
    low win32gui: GetWindowText EnumWindows GetForegroundWindow
    low pygetwindow: getAllWindows getActiveWindow getAllTitles
    medium readline: get_history_item
""")

READS_SECRET = {**_STORES, **_PERSON}
