"""Environment variables and stores of secrets."""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import levels

READS_ENVIRONMENT = levels("""
    medium os: environ environb getenv getenvb
    medium dotenv: load_dotenv dotenv_values
    medium decouple: config
    medium environ: Env
    medium sys.stdin: read
""")

CHANGES_ENVIRONMENT = levels("""
    medium os: environ environb putenv unsetenv
""")

READS_SECRET = levels("""
    high keyring: get_password get_credential
    high netrc: netrc
    high .: secretstorage.*
    high google.colab.userdata: get
    high kaggle_secrets: UserSecretsClient
    low getpass: getpass
""")
