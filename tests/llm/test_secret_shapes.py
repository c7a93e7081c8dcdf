"""Certain secrets, doubtful ones, and harmless texts."""

from __future__ import annotations

import base64
import json
import random

import pytest

from tests.cpu import cpu_seconds
from tract_jupyter.llm import Grade, find_secrets, key_lines, mask_secrets

_RANDOM = random.Random(42)


def drawn(count, characters="abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"):
    text = "".join(_RANDOM.choice(characters) for _ in range(count))
    return text[:4] + "a7" + text[6:] if "a" in characters else text


def pem(kind, lines=8, joined="\n"):
    body = [base64.b64encode(_RANDOM.randbytes(48)).decode() for _ in range(lines)]
    return joined.join([f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----", ""])


HEX = "0123456789abcdef"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

R = drawn(24)
SK = f"sk-ant-api03-{drawn(40)}"

CERTAIN = {
    "OpenSSH": pem("OPENSSH PRIVATE KEY"), "PKCS 8": pem("PRIVATE KEY"), "PKCS 1": pem("RSA PRIVATE KEY"),
    "EC": pem("EC PRIVATE KEY", 3), "DSA": pem("DSA PRIVATE KEY"), "encrypted": pem("ENCRYPTED PRIVATE KEY"),
    "Ed25519": pem("PRIVATE KEY", 1), "old encryption": pem("RSA PRIVATE KEY").replace(
        "KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123ABCD\n\n", 1),
    "PGP": pem("PGP PRIVATE KEY BLOCK").replace("BLOCK-----\n", "BLOCK-----\nComment: me (work) <a@b.c>\n\n", 1),
    "PEM in JSON": json.dumps({"private_key": pem("PRIVATE KEY")}), "PEM in JSON in JSON": json.dumps(json.dumps(pem("PRIVATE KEY"))),
    "PEM in Windows": pem("PRIVATE KEY", joined="\r\n"), "PEM in YAML": "key: |\n  " + pem("PRIVATE KEY", joined="\n  "),
    "PEM that was cut": pem("RSA PRIVATE KEY")[:300], "SSH2": pem("x").replace("-----BEGIN x-----", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
        ).replace("-----END x-----", "---- END SSH2 ENCRYPTED PRIVATE KEY ----"),
    "PuTTY": "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n" + drawn(44) + "\nPrivate-MAC: x\n",
    "age": "AGE-SECRET-KEY-1" + drawn(58, UPPER), "JWK": json.dumps({"kty": "EC", "d": drawn(43), "crv": "P-256"}),
    "GCP": json.dumps({"type": "service_account", "private_key_id": drawn(40, HEX), "private_key": pem("PRIVATE KEY", 20)}, indent=2),
    "AWS id": "AKIAIOSFODNN7EXAMPLE", "AWS secret": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS secret in JSON": '{"SecretAccessKey": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzq1MPLEKEY"}',
    "AWS secret in the environment": "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzq1MPLEKEY",
    "AWS session": "aws_session_token=" + drawn(300), "presigned": "https://b.s3.amazonaws.com/x?X-Amz-Signature=" + drawn(64, HEX),
    "Azure storage": f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={drawn(86)}==;EndpointSuffix=core.windows.net",
    "Azure bus": f"Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={drawn(43)}=",
    "Azure SAS": f"https://a.blob.core.windows.net/c?sv=2024-01-01&se=2027&sig={drawn(43)}%3D", "Azure secret": "abc8Q~" + drawn(34),
    "Azure SQL": "Server=tcp:a.database.windows.net;User ID=me;Password=hunter2Hunter2x9;Encrypt=True",
    "PostgreSQL": "DATABASE_URL=postgres://user:hunter22secret@db.example/x", "MongoDB": "mongodb+srv://me:Pa55-word@cluster0.abc.mongodb.net/?x=1",
    "Redis": "redis://:c0rrect-h0rse@cache:6379/0", "AMQP": "amqp://me:c0rrect@mq:5672/%2f", "git": "https://me:c0rrecth0rse@github.com/a/b.git",
    "address with an @": "mysql://me:p@ss-w0rd@db/x", "address with a slash": "postgres://me:p/ss-w0rd@db/x", "address in JSON": '{"url": "postgres://me:hunter22@db/x"}',
    "environment": "OPENAI_API_KEY=abcdef1234567890abcdef", "export": "export GH_TOKEN=" + drawn(24), "quoted": f'STRIPE_KEY="{drawn(24)}"',
    "YAML": f"db:\n  password: {drawn(20)}\n", "JSON": json.dumps({"clientSecret": drawn(32)}), "JSON in JSON": json.dumps(json.dumps({"api_key": drawn(32)})),
    "Python": f"client = Client(api_key='{drawn(24)}')", "os.environ": f"os.environ['MY_TOKEN'] = '{drawn(24)}'", "dict": f"{{'auth_token': '{drawn(24)}'}}",
    "INI": f"[db]\npassword = {drawn(16)}1a\n", "TOML": f'secret_key = "{drawn(24)}"', "XML": f"<password>{drawn(16)}1a</password>", "PHP": f"'password' => '{drawn(20)}',",
    "Go": f'token := "{drawn(24)}"', "properties": f"spring.datasource.password={drawn(20)}", "query": f"https://a.b/c?access_token={drawn(24)}", "key of a query": f"https://a.b/c?x=1&key={drawn(24)}",
    "option": f"tool --password {drawn(20)} --x", "Kubernetes": f"- name: DB_PASSWORD\n  value: {drawn(20)}", "ECS": f'{{"name": "API_TOKEN", "value": "{drawn(20)}"}}',
    "Bearer": "Authorization: Bearer abcDEF1234567890", "bearer in Python": f'headers = {{"Authorization": "Bearer {drawn(30)}"}}', "curl": f"curl -H 'authorization: bearer {drawn(30)}'",
    "Basic": "Authorization: Basic " + base64.b64encode(b"me:pa55word").decode(), "Docker": json.dumps({"auths": {"x": {"auth": base64.b64encode(b"me:pa55word").decode()}}}),
    "X-Api-Key": f"X-Api-Key: {drawn(32)}",
    "PyPI": "password = pypi-AgEIcHlwaS5vcmcCJGFiY2RlZmdoaWprbG1ub3A", "npm": "//registry.npmjs.org/:_authToken=npm_" + drawn(36), "npm alone": "npm_" + drawn(36),
    "GitHub": "ghp_" + drawn(36), "GitHub fine": "github_pat_" + drawn(22) + "_" + drawn(59), "GitHub app": "ghs_" + drawn(36), "GitLab": "glpat-" + drawn(20),
    "Slack": "xoxb-123456789012-123456789012-" + drawn(24), "Slack hook": "https://hooks.slack.com/services/T0/B0/" + drawn(24), "Slack app": "xapp-1-A0-1-" + drawn(40, HEX),
    "SendGrid": "SG.abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG", "Stripe": "sk_live_" + drawn(24), "Stripe restricted": "rk_test_" + drawn(24),
    "Hugging Face": "hf_" + drawn(34), "OpenAI": "sk-proj-abcdEFGH1234567890abcdEFGH1234567890", "OpenAI old": "sk-" + drawn(20) + "T3BlbkFJ" + drawn(20),
    "OpenAI service": "sk-svcacct-" + drawn(30) + "-" + drawn(30), "Anthropic": "sk-ant-api03-" + drawn(40) + "-" + drawn(40) + "AA", "OpenRouter": "sk-or-v1-" + drawn(64, HEX),
    "Google": "AIza" + drawn(35), "Google OAuth": "ya29." + drawn(60), "Google client": "GOCSPX-" + drawn(28), "Groq": "gsk_" + drawn(52), "xAI": "xai-" + drawn(80),
    "Twilio": "SK" + drawn(32, HEX), "Twilio token": f"TWILIO_AUTH_TOKEN={drawn(32, HEX)}", "Mailgun": "key-" + drawn(32, HEX), "Telegram": "123456789:AA" + drawn(33),
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk", "netrc": "machine api.example.com\n  login me\n  password c0rrect\n", "netrc in a line": "machine a.b login me password hunter2",
    "netrc default": "default login me password hunter2", "pgpass": "db.example.com:5432:*:me:hunter2", "Vault": "hvs." + drawn(24), "Docker Hub": "dckr_pat_" + drawn(27),
    "an address's escape": f"x%3D{SK}", "two escapes": f"x%253D{SK}", "JSON's escape": f"x\\u003d{SK}", "a hex escape": f"x\\x3d{SK}", "HTML's escape": f"x&#61;{SK}",
    "escaped name and value": f"api_key%22%3A%22{R}", "escaped quotes": f"&quot;password&quot;: &quot;{R}&quot;", "escaped blank": f"Bearer%20{R}", "escaped sign": f"password\\u003d{R}",
    "behind _": f"_{SK}", "behind letters": f"mykey{SK}", "user of an address": f"https://{R}@host/x", "user with a colon": f"https://{R}:@host",
    "two blanks": f"Bearer  {R}", "tab": f"Bearer\t{R}", "two strings": f"'Bearer ' + '{R}'", "other scheme": f"Authorization: Splunk {R}", "no scheme": f"authorization: {R}",
    "cookie": f"Cookie: a=b; sessionid={R}", "curl -u": f"curl -s https://x -u user:{R}", "curl's long option": f"curl --user 'me:{R}' https://x", "curl on lines": f"curl \\\n  -u me:{R} \\\n x",
    "mysql": f"mysql -u root -p{R} db", "sshpass": f"sshpass -p {R} ssh x", "docker": f"docker login -u me -p {R}", "redis": f"redis-cli -a {R}", "auth": f"get(x, auth=('me', '{R}'))",
    "login": f"smtp.login('me@x', '{R}')", "set_password": f"user.set_password('{R}')", "keyring": f"keyring.set_password('a', 'b', '{R}')", "PowerShell": f"ConvertTo-SecureString '{R}' -AsPlainText",
    "pass": f"DB_PASS={R}", "camel case": f"smtpPass: '{R}'", "joined": f"DBPASS={R}", "base": f"SECRET_KEY_BASE={R}", "stage": f"API_KEY_PROD={R}", "service": f"TOKEN_GITHUB={R}", "number": f"password2={R}",
    "three quotes": f'API_KEY = """{R}"""', "three quotes on lines": f"API_KEY = '''\n{R}\n'''", "list": f"API_KEYS = ['x', '{R}', '{R}']", "list on lines": f"tokens = [\n  '{R}',\n]", "SecretStr": f"api_key=SecretStr('{R}')",
    "qualified SecretStr": f"password=pydantic.SecretStr('{R}')", "setdefault": f"os.environ.setdefault('API_TOKEN', '{R}')", "setenv": f"monkeypatch.setenv('API_KEY', '{R}')", "define": f"define('DB_PASSWORD', '{R}');",
    "environ on lines": f"environ['API_TOKEN'] = (\n    '{R}'\n)", "default": f"os.getenv('API_KEY', '{R}')", "or": f"os.getenv('API_KEY') or '{R}'", "a type": f"password: str = '{R}'", "Rust": f'let token: &str = "{R}";',
    "Dockerfile": f"ENV API_TOKEN {R}", "csh": f"setenv API_TOKEN {R}", "SQL": f"CREATE USER x IDENTIFIED BY '{R}'", "other SQL": f"ALTER ROLE x PASSWORD '{R}'", "redis.conf": f"requirepass {R}",
    **{f"value with {sign}": f"password={sign}{R}" for sign in "/!#@~?^+$"}, "quoted (": f"password='({R}'", "quoted <": f"password='<{R}'", "quoted &": f"password: '&{R}'", "comparison": f"if password == '{R}':",
    "YAML items": f"password:\n  - {R}", "YAML block": f"secret: |\n  {R}", "JSON on lines": f'"password":\n      "{R}"', "plist": f"<key>ApiKey</key>\n<string>{R}</string>", "attribute": f'<property name="password">{R}</property>',
    "Go's MySQL": f"me:{R}@tcp(127.0.0.1:3306)/db", "Oracle": f"jdbc:oracle:thin:me/{R}@host:1521", "WireGuard": f"PrivateKey = {drawn(43)}=", "Ethereum": f"PRIVATE_KEY=0x{drawn(64, HEX)}",
    "Annotated": f"api_key: Annotated[str, Field()] = '{R}'", "generic": f"api_key=Secret[str]('{R}')", **{f"plain {sign}": f"password={sign}{R}" for sign in ",;(&"}, "blank": f"apikey {R}",
    "hard blanks": f"password\xa0=\xa0{R}", "wide sign": f"password\uff1d{R}", "curly quotes": f"token=\u201c{R}\u201d", "table": f"| password | {R} |", "CSV": f"password,{R}", "XML on lines": f"<Password>\n  {R}\n</Password>",
    "R": f"password<-'{R}'", "Lisp": f'(setq token "{R}")', "Ruby": f"ENV['API_KEY'] ||= '{R}'", "aws configure": f"aws configure set aws_secret_access_key {drawn(40)}",
    "NVIDIA": "nvapi-" + drawn(64), "Tavily": "tvly-dev-" + drawn(32), "Cerebras": "csk-" + drawn(48), "Fireworks": "fw_" + drawn(24), "Pinecone": "pcsk_" + drawn(60), "Firecrawl": "fc-" + drawn(32, HEX),
    "LlamaCloud": "llx-" + drawn(48), "Together": "tgp_v1_" + drawn(43), "Gemini": "AQ.Ab8" + drawn(40), "Runpod": "rpa_" + drawn(40), "Jina": "jina_" + drawn(60), "Resend": f"re_{drawn(8)}_{drawn(24)}",
    "Brevo": "xkeysib-" + drawn(64, HEX), "Pulumi": "pul-" + drawn(40, HEX), "Vercel": "vck_" + drawn(56), "Discord hook": "https://discord.com/api/webhooks/123456789012345678/" + drawn(68), "Terraform": drawn(14) + ".atlasv1." + drawn(60),
    "behind a CJK word": "密钥" + "ghp_" + drawn(36), "within a comment": f"# token={drawn(24)} (old)",
}  # fmt: skip
DOUBTFUL = {
    "short password": "password = hunter2", "password in Python": 'connect(host, password="hunter22")', "letters in quotes": "db_password = 'correcthorse'",
    "environment": "DB_PASSWORD=hunter22", "YAML": "password: hunter22", "letters in YAML": "db:\n  password: correcthorse\n", "letters in the environment": "PGPASSWORD=correcthorse",
    "digits": 'password = "12345678"', "symbols": "password: Tr!cky-One", "passphrase": "passphrase = 'correct horse battery staple'", "secret": "client_secret: abc123xyz",
    "UUID": "API_KEY=550e8400-e29b-41d4", "default of PostgreSQL": "postgres://postgres:postgres@localhost/db", "weak address": "postgres://user:password@localhost/db",
    "pass": "DB_PASS=hunter22", "curl": "curl -u me:hunter22 x", "SecretStr": "password=SecretStr('hunter22')", "setdefault": "setdefault('DB_PASSWORD', 'hunter22')", "a slash": "password=/hunter22",
    "!": "password=!hunter22", "#": "password=#hunter2", "a dollar inside": "password='p$ssw0rd1'", "prose": "my password is hunter22", "Dockerfile": "ENV DB_PASSWORD hunter22",
    "escape": "password%3Dhunter22", "auth": "auth=('me', 'hunter22')", "comparison": "if password == 'hunter22'", "another quote": 'password = "pa\'ss1word"', "XML": "<password>hunter22</password>",
    "option": "--password hunter22", "bearer": "Authorization: Bearer abc-def1", "JSON": '{"password": "hunter2"}',
}  # fmt: skip
HARMLESS = {
    "prose": "The password must have 12 characters. Enter your password: it is never shown. A token of love; the secret is out.",
    "more prose": "Password: at least 8 characters. Secret: none. Tokens: 128000. max_tokens: 4096. token limit: 8192",
    "documentation": "Set OPENAI_API_KEY to your key, for example OPENAI_API_KEY=sk-... or OPENAI_API_KEY=your-key-here",
    "placeholders": "password=<password> token=${TOKEN} api_key: {{ key }} secret=$SECRET PASSWORD=%PASSWORD% key='***' token=xxxxxxxxxxxx1",
    "address of the documentation": "postgresql+psycopg://user@host/name postgres://USER:<PASSWORD>@host/db redis://:${PW}@host http://host:8080/a@b ssh://git@host:22/x",
    "port and @": "http://localhost:8888/lab?x=me@example.com see http://example.com:80 and mail a:b@c",
    "code": "password = getpass.getpass()\ntoken = os.environ['TOKEN']\napi_key = config.api_key\nsecret = secrets.token_hex(16)\ntoken = tokenizer.next2()\n"
    "def login(user: str, password: str = '') -> None: ...\nself.token: Token2Type | None = None\nif token == 'endoftext1': pass\npassword=password, token=self.token\n",
    "types": '{"password": "string", "token": {"type": "string"}}\npassword: str\ntoken: Optional[str]\napi_key: SecretStr',
    "tokens of a model": '{"eos_token": "<|endoftext|>", "pad_token": "[PAD]", "token": "covid19", "unk_token": "unknown1"}\nnext_token: abc123def456ghi789',
    "keys of tables": 'primary_key="a1b2c3d4e5f6a7b8", sort_key: user123abc456, cache_key=a1b2c3d4e5f6a7b8, CACHE_KEY=a1b2c3d4e5f6a7b8, PRIMARY_KEY=a1b2c3d4e5f6a7b8\n{"key": "a1b2c3d4e5f6a7b8"}',
    "hashes": f'sha256: {drawn(64, HEX)}\nmd5 {drawn(32, HEX)}\ncommit {drawn(40, HEX)}\netag: "{drawn(32, HEX)}"\npassword_hash: {drawn(64, HEX)}',
    "UUIDs": "id,user\n550e8400-e29b-41d4-a716-446655440000,1\nrequest_id=550e8400-e29b-41d4-a716-446655440000",
    "a table of hex ids": "\n".join(f"{drawn(24, HEX)},{drawn(12)},{index}" for index in range(200)),
    "base64": base64.b64encode(_RANDOM.randbytes(300)).decode(), "numbers": "\n".join(f"{_RANDOM.random()}" for _ in range(100)),
    "a table with such columns": "user,password_changed,token_count\nada,2024-01-01,12\nbob,2024-02-02,9",
    "public keys": pem("PUBLIC KEY") + pem("CERTIFICATE") + "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + drawn(40) + " me@host",
    "about private keys": "The file begins with -----BEGIN OPENSSH PRIVATE KEY----- and ends with -----END OPENSSH PRIVATE KEY-----.",
    "a shortened key": "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "classes of a page": "sk-container-id-1 div.sk-parallel-item sk-text-repr-fallback sk-circle-fade-dot-animation sk-toggleable__label-arrow sk-estimator-doc-link",
    "words with dashes": "task-abcdefghijklmnopqrstuvwxyz risk-management-for-beginners pypi-publish-workflow-for-packages hf_tokenizer_fast_config_path",
    "addresses of machines": "00:11:22:33:44:55 2001:0db8:85a3:0000:0000:8a2e:0370:7334 12:34:56:78 src/a.c:5432:5:error:undefined",
    "words": "Basic knowledge, a bearer of news, sk-ip, xoxo, eyJ.a.b, Basic authentication, Bearer authentication, bearer tokens",
    "paths": "secret: /run/secrets/db1 password_file=/etc/pw1 PWD=/home/user1 token: ./tokens/a1b2 KEY_FILE=~/.ssh/id_rsa1",
    "references": "secret: vault:secret/data/a1 password: !vault abc1 api_key: arn:aws:secretsmanager:eu:1:a token: op://x/y1",
    "Kubernetes": "secretName: my-db-secret\nsecret: my-db-secret\nsecretKeyRef:\n  name: db\n  key: password",
    "a form": '<input type="password" name="password" id="password1"> <label for="token">Token</label>',
    "translations": '{"password": "Enter your password", "token": "Your token", "secret": "Geheimnis"}',
    "a notebook": json.dumps({"cells": [{"id": drawn(8, HEX), "source": ["import pandas as pd\n", "df.head()"]}]}),
    "code with escapes": r"re.sub('\\d+%2d', '&quot;') \u003d token%3D1 C:\new\token\x1b", "SRI": f'"integrity": "sha512-{drawn(86)}=="', "names with such words": f"cache_key-{drawn(32, HEX)} high_{drawn(24)} perf_hf_{drawn(10)}",
    "values of other names": f"token_count: a1b2c3d4e5f6g7, secret_name=a1b2c3d4e5f6g7, password_url: a1b2c3d4e5f6g7, token_address: 0x{drawn(40, HEX)}, lockToken: {drawn(16)}, bypass={drawn(16)}",
    "pass as a word": "pass `-pix_fmt1` or pass 'tzinfos', pass: 12, PASS: test_a1, all_pass=True, surpass='covid19vaccine'", "constants": "encryption_key=TEST_ENCRYPTION_KEY1, password=self.x1", "regexes": "token = r'[a-z]+\\d1x', secret='(?:a1b2|c3)'",
    "commands": "docker run -u 1000:1000 -p 8080:80 x1; curl -u $USER:$PASS x; mkdir -p abc123def456; mysql -P 3306", "hosts": "https://user@host ssh://deploy1@host git+https://example.com/a@v1", "a schema": '{"Password": {\n  "maxLength": 8}, "required": ["password", "token1"]}',
    "an image": "data:image/png;base64," + base64.b64encode(_RANDOM.randbytes(3_000)).decode(),
}  # fmt: skip


@pytest.mark.parametrize("text", CERTAIN.values(), ids=CERTAIN)
@pytest.mark.parametrize("around", ["{}", "hello\n{}\nbye", "x = 1\r\n{}"])
def test_certain_secrets(text, around):
    whole = around.format(text) if "{" not in text else around.replace("{}", text)
    found = find_secrets(whole)
    assert Grade.CERTAIN in [one.grade for one in found]
    assert key_lines(whole)
    assert not [one for one in find_secrets(mask_secrets(whole, "[redacted]")) if one.grade is not Grade.PART]


@pytest.mark.parametrize("text", DOUBTFUL.values(), ids=DOUBTFUL)
def test_doubtful_secrets(text):
    assert [one.grade for one in find_secrets(text)] == [Grade.DOUBTFUL]
    assert (key_lines(text), key_lines(f"\n{text}", Grade.DOUBTFUL)) == ([], [2 + text.count("\n  p")])


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_harmless_text_is_not_a_secret(text):
    assert [
        (text[one.start : one.end], one) for one in find_secrets(text) if one.grade is not Grade.PART
    ] == []


def test_places_and_lines():
    key = "ghp_" + drawn(36)
    text = f"one\r\ntoken={key} and {key}\u2028\nlast {key}"
    assert [text[one.start : one.end] for one in find_secrets(text)] == [key, key, key]
    assert key_lines(text) == [2, 4]
    assert mask_secrets(text, "-") == "one\r\ntoken=- and -\u2028\nlast -"


@pytest.mark.slow
@pytest.mark.parametrize("piece", [
    "sk-", "sk-a1", "token=", "token=a1b2c3", "password: ", "password", "eyJ", "eyJaaaaaa.", "a", "a1", "bearer ", "Bearer a1b2c3 ", "api_key", "'", "\\", "://", "://a:", "://a:b@",
    "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n", "-", "machine a login b ", "password a ", "Private-Lines: 1\n", "A1b2", "\n", " ", "KEY=", "A_KEY=a",
    "token value: ", '"d":', "1:", "a.", "a-", 'secret": "', "basic aaaaaaaa", "[", "0a", "EAA", "=",
    "%3D", "%25", "\\n", "&amp;", "curl ", "curl -u a:", "mysql -p", "auth('a',", "set_password('a','", "cookie: a", "authorization: a ", "password: str", "password_a_", "password:\n", "token=['a1b2c3', ", "Secret(", "a.Secret",
    "://aaaaaaaaaaaa", "T3BlbkFJ", "sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a1B2c3D4e5F6g7", ":aaaa", '"""', "password='''\n", "<key>", "token:a=", "password=/", "http ", "docker login ", "password,",
])  # fmt: skip
def test_the_time_is_linear(piece):
    text = piece * (100_000 // len(piece))
    with cpu_seconds() as seconds:
        find_secrets(text)
    assert seconds[0] < 3
