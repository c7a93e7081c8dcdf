"""The shapes of secrets: keys, tokens, passwords. The one list, for everything that is sent, recorded or shown.

A certain secret is not sent. The user decides about a doubtful one. A mere part of a secret, such as a key with
stars, matters where text is written. Prose, tables, identifiers, hashes and placeholders are no secrets.

The search runs twice: on the text, and on the text without the escapes of addresses, JSON and HTML. So patterns are
written for plain text. They begin with a fixed text and repeat bounded or exclusive classes, so the time is linear.
"""

from __future__ import annotations

import html
import re
import string
from base64 import b64decode
from bisect import bisect
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.models import admin_limits, possessive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Grade(IntEnum):
    """The certainty that a text is a secret."""

    PART = 1
    DOUBTFUL = 2
    CERTAIN = 3


class FoundSecret(NamedTuple):
    """A secret at a place in a text."""

    start: int
    end: int
    grade: Grade


# --- keys with a known prefix

_BRANDED: Final = {  # also within a word
    "OpenAI, Anthropic, OpenRouter": r"sk-(?:ant|proj|svcacct|admin|or-v1|lf|helicone)-[\w-]{15,}"
    r"|sk-[A-Za-z0-9_-]{20,60}T3BlbkFJ[\w-]{16,}",
    "models": r"gsk_[A-Za-z0-9]{16,}|xai-\w{20,}|pplx-[A-Za-z0-9]{30,}|nvapi-[\w-]{20,}|tvly-[\w-]{16,}"
    r"|csk-[A-Za-z0-9]{20,}"
    r"|pcsk_\w{20,}|llx-[\w-]{20,}|tgp_v1_[\w-]{20,}|jina_[A-Za-z0-9]{30,}|wandb_v1_\w{20,}|lsv2_\w{30,}"
    r"|esecret_\w{20,}"
    r"|e2b_[0-9a-f]{32,}|KGAT_[A-Za-z0-9]{20,}|phx_[A-Za-z0-9]{30,}",
    "Hugging Face": r"hf_[A-Za-z0-9]{18,}|api_org_[A-Za-z0-9]{30,}",
    "Google": r"AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|AQ\.Ab8[\w-]{20,}",
    "GitHub": r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}",
    "GitLab": r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|ffct|imt|soat|oas|agent|wt)-[\w-]{16,}|GR1348941[\w-]{16,}",
    "AWS": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])|ABSK[A-Za-z0-9+/]{40,}={0,2}",
    "messages": r"xox[a-z]-[\w-]{10,}|xapp-\d-[\w-]{10,}|hooks\.slack\.com/services/[\w/]{20,}"
    r"|discord(?:app)?\.com/api/webhooks/\d{10,20}/[\w-]{20,}|webhook\.office\.com/webhookb2/[\w@/-]{40,}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|xkeysib-[0-9a-f]{40,}",
    "payment": r"[rs]k_(?:live|test)_\w{10,}|whsec_[A-Za-z0-9+/]{20,}|rzp_live_\w{14,}|FLWSECK[_-][\w-]{20,}"
    r"|sq0[a-z]{3}-[\w-]{20,}"
    r"|access_token\$(?:production|sandbox)\$\w{10,}\$[0-9a-f]{20,}|access-(?:production|development"
    r"|sandbox)-[0-9a-f-]{36}",
    "packages": r"npm_[A-Za-z0-9]{30,}|pypi-AgE[\w-]{16,}|rubygems_[0-9a-f]{40,}|dckr_[op]at_[\w-]{20,}"
    r"|CLOJARS_[0-9a-z]{40,}",
    "clouds": r"do[opr]_v1_[0-9a-f]{40,}|HRKU-[\w-]{30,}|hv[sbr]\.[\w-]{20,}|sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,}"
    r"|fm2_[\w+/=]{30,}"
    r"|LTAI[A-Za-z0-9]{16,}(?![A-Za-z0-9])|nfp_[A-Za-z0-9]{30,}|vc[pkairo]_[A-Za-z0-9]{20,}|pscale_(?:tkn|pw"
    r"|oauth)_[\w.-]{30,}"
    r"|napi_[a-z0-9]{40,}|dt0c01\.[A-Z0-9]{20,}\.[A-Z0-9]{50,}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{50,}|pul-[0-9a-f]{40}",
    "services": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|lin_(?:api|oauth)_\w{30,}|secret_[A-Za-z0-9]{40,}"
    r"|ntn_[A-Za-z0-9]{40,}"
    r"|fig[dour]_[\w-]{30,}|PMAK-[\w-]{40,}|gl(?:sa|c)_[\w+/=]{20,}|sntry[su]_[\w+/=-]{20,}|NRAK-[A-Z0-9]{20,}"
    r"|AT(?:ATT|CTT|BB)[A-Za-z0-9][\w=-]{24,}|apify_api_\w{20,}|CFPAT-[\w-]{30,}|CCI(?:PAT|PRJ)_\w{20,}"
    r"|sq[pua]_[0-9a-f]{40}"
    r"|pat-[a-z]{2}\d-[0-9a-f-]{36}|ops_eyJ[\w-]{40,}|duffel_live_[\w-]{30,}|EZAK[A-Za-z0-9]{50,}|rdme_[a-z0-9]{50,}",
    "age": r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
}
_TOKENS: Final = {  # only at the start of a word
    "OpenAI and others": r"sk-(?:[a-z]{2,8}-){0,2}(?:[a-z]{1,4}\d{1,3}-)?[A-Za-z0-9]{15}[\w-]*"
    r"|sess-[A-Za-z0-9]{30,}"
    r"|sk-(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[A-Z])(?=[\w-]{0,40}[a-z])[\w-]{16,}",
    "models": r"(?:r8|fw|rpa|flp)_(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{20,}|fc-[0-9a-f]{32}(?!\w)"
    r"|pa-(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[A-Z])[\w-]{40,}"
    r"|sk_[0-9a-f]{40,}|BSA(?=\w{0,30}\d)[\w-]{24,}|a[ks]-[A-Za-z0-9]{22}(?!\w)",
    "Google": r"1//0[\w-]{30,}",
    "Azure": r"[A-Za-z0-9_~.]{3}\dQ~[\w~.-]{31,34}",
    "Twilio, Mailgun, Mailchimp": r"(?<!_)(?:SK[0-9a-f]{32}(?!\w)|key-[0-9a-f]{32}(?!\w))"
    r"|[0-9a-f]{32}-us\d{1,2}(?!\w)",
    "services": r"(?<!_)(?:cio[A-Za-z0-9]{32}(?!\w)|dapi[0-9a-f]{32}|pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}"
    r"|EAA[A-Za-z0-9]{60,})"
    r"|dp\.(?:pt|st|ct|sa)\.[\w.-]{20,}|re_(?=\w{0,30}\d)[A-Za-z0-9]{6,12}_[A-Za-z0-9]{16,}"
    r"|rnd_(?=\w{0,30}\d)[A-Za-z0-9]{28,}|sl\.[uB][\w.-]{60,}|oy2[a-z0-9]{43}(?!\w)",
    "Telegram, Discord": r"\d{8,10}:AA[\w-]{32,}|[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}",
    "DeepL": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:fx(?!\w)",
    "JSON Web Token": r"eyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]{6,}",
}
_BEFORE: Final = "(?<![A-Za-z0-9-])"
_IN_DATA: Final = re.compile(r"[\w+/-]{60}", re.ASCII)

# --- values that need a closer check

_NO_VALUE: Final = re.compile(
    r"(?:str|string|int|integer|float|number|bool|boolean|bytes|none|null|nil|any|optional|text|object|required"
    r"|hidden|default"
    r"|true|false|unknown|undefined|empty|missing|invalid)\??",
    re.IGNORECASE,
)
_WEAK_VALUE: Final = re.compile(
    r"(?:my)?pass(?:word|wd|phrase)?|pwd|secret|token|key|apikey|credentials?|user(?:name)?|root|admin|postgres"
    r"|mysql|guest|sample|todo|test(?:ing)?",
    re.IGNORECASE,
)
_TEMPLATE: Final = re.compile(
    r"\$[({]|\A\$(?:env:)?[A-Za-z_]+\d?(?:\Z|-)|\A\$\w{1,10}\$|\{[^{}]*\}|<[^<>]*>|\[[\w ]*\]|\([\w ]*\)|\*\*|\A\*"
    r"|…|\.\.\."
    r"|%(?![\da-f]{2})[\w(]+[%)]|%[sdr]|\\[dwsb]|\[[^]]-[^]]|\[\^|\(\?|x{4,}|(?<![a-z])(?:your|example|placeholder"
    r"|change.?me|insert|replace|dummy|redacted|masked)(?![a-z])",
    re.ASCII | re.IGNORECASE,
)
_REFERENCE: Final = re.compile(
    r"(?:vault|arn|op|env|file|refs?|secrets?|ssm|sops|[ag]ws|gcp|azure|keyring|keychain|https?|data|sha\d+|urn"
    r"|cmd|exec)[:/]|\w+://|[!&][A-Za-z_/.:]+\Z"
)
_PATH: Final = re.compile(r"[~.]{0,2}[/\\]|[A-Za-z]:[\\/]")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)
_CLASS_NAME: Final = re.compile(
    r"[A-Z]*\d*(?:[A-Z][a-z]+\d*){2,}|[A-Z]+\d*(?:_[A-Z]+\d*)+|0x[\da-fA-F]{1,40}"
)
_CLASSES: Final = (str.islower, str.isupper, str.isdigit)
_PARTS: Final = frozenset({"secret", "quoted", "plain"})  # groups of patterns that match the secret itself
_LONG, _SHORTEST, _LONGEST_NAME = 20, 6, 60


def _is_placeholder(value: str) -> bool:
    return bool(_NO_VALUE.fullmatch(value) or _TEMPLATE.search(value))


def _is_mixed(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _is_random(value: str, least: int = 12) -> bool:
    """Return True if a value looks randomly generated."""
    if any(map(_is_mixed, re.findall(rf"[A-Za-z0-9]{{{least},}}", value))):
        return True
    is_base64 = len(value) >= _LONG and re.fullmatch(r"[A-Za-z0-9+/=]+", value) is not None
    return is_base64 and all(any(map(one, value)) for one in _CLASSES)


def _is_key(value: str, least: int = 12) -> bool:
    """Return True if a value is random. A long one has all kinds of characters, unlike a hash."""
    has_all = least < _LONG or all(any(map(one, value)) for one in _CLASSES)
    return has_all and _is_random(value, least) and re.fullmatch(r"[\w.~+/=%-]+", value, re.ASCII) is not None


def _grade_of_brand(match: re.Match[str]) -> Grade | None:
    """Grade a key by its beginning, unless it is a part of a word or of data in base64."""
    text, start = match.string, match.start()
    if start == 0 or not re.match(r"[A-Za-z0-9]", text[start - 1]):
        return Grade.CERTAIN
    if start >= 60 and _IN_DATA.match(text, start - 60):  # noqa: PLR2004 # as in the pattern
        return None
    return Grade.CERTAIN if _is_random(match[0], 16) else None


def _grade_of_block(match: re.Match[str]) -> Grade | None:
    if re.search(r"[A-Za-z0-9+/]{32}", match[0]):
        return Grade.CERTAIN
    return Grade.DOUBTFUL if re.search(r"[A-Za-z0-9+/]{16}", match[0]) else None


def _grade_in_address(match: re.Match[str]) -> Grade | None:
    user, _, password = match[0].partition(":")
    if _is_placeholder(password) or _is_placeholder(user):
        return None
    is_weak = password.lower() == user.lower() or _WEAK_VALUE.fullmatch(password)
    return Grade.DOUBTFUL if is_weak else Grade.CERTAIN


def _grade_of_user(match: re.Match[str]) -> Grade | None:
    """Grade the user of an address without a password. Addresses of Sentry contain a key that is not quite a secret."""
    if _is_placeholder(match[0]) or not _is_random(match[0]):
        return None
    is_sure = _is_random(match[0], _LONG) and "sentry" not in match.string[match.end() : match.end() + 60]
    return Grade.CERTAIN if is_sure else Grade.DOUBTFUL


def _grade_in_header(match: re.Match[str]) -> Grade | None:
    value = match["secret"]
    if not _is_mixed(value):
        return None
    if "*" in value or "…" in value:
        return Grade.PART
    if _DOTTED.fullmatch(value) and "bearer" not in match[0].lower():  # an expression
        return None
    return _grade_of_word(match)


def _grade_of_word(match: re.Match[str]) -> Grade | None:
    """Grade a word that is probably a password: letters alone are not."""
    return _grade_of_place(match) if _is_mixed(match["secret"]) else None


def _grade_of_place(match: re.Match[str]) -> Grade | None:
    """Grade a text in a password's position."""
    if _is_placeholder(match["secret"]):
        return None
    return Grade.CERTAIN if _is_random(match["secret"]) else Grade.DOUBTFUL


def _grade_of_pair(match: re.Match[str]) -> Grade | None:
    """Grade a text that may be `user:password` in base64."""
    try:
        return Grade.CERTAIN if ":" in b64decode(match["secret"], validate=True).decode() else None
    except ValueError:
        return None


def _grade_of_parameter(match: re.Match[str]) -> Grade | None:
    if _is_placeholder(match[0]):
        return None
    return Grade.CERTAIN if _is_key(match[0]) else Grade.PART


def _grade_of_entry(match: re.Match[str]) -> Grade | None:
    password = re.split(r"[\s:]", match[0])[-1]
    return None if _is_placeholder(password) else Grade.CERTAIN


def _grade_of_value(match: re.Match[str]) -> Grade | None:  # noqa: PLR0911 # in order
    """Grade the value of a name such as `DB_PASSWORD`."""
    value, name = match["quoted"] or match["plain"], _name_of(match)
    has_other_suffix = bool(_OTHER_SUFFIXES.fullmatch(match["suffix"] or ""))
    if len(value) < _SHORTEST or has_other_suffix or not _is_named(match, name):
        return None
    if _is_placeholder(value) or _is_code(match, value):
        return None
    if " " in value:
        return Grade.DOUBTFUL if re.search("phrase|mnemonic", name, re.IGNORECASE) else None
    if _is_random(value):
        return Grade.CERTAIN
    if not _is_close(match):
        return None
    if _is_mixed(value):  # a short `token` may be one of a text
        return Grade.PART if name.lower() == "token" and len(value) < _LONG else Grade.DOUBTFUL
    return Grade.DOUBTFUL if match["password"] and _is_password(match, value) else None


def _is_named(match: re.Match[str], name: str) -> bool:  # noqa: PLR0911 # one for each kind of operator
    """Return True if a name is a secret's, and has the value: `name = value`, `<name>value<`, `--name value`."""
    if _OTHER_NAMES.search(name) or (match["vague"] and not _is_key(match["quoted"] or match["plain"])):
        return False
    operator = match["operator"]
    if ">" in operator and "=" not in operator and ":" not in operator:
        return (
            match["plain"] is not None
            and re.match(r"\s*<", match.string[match.end("plain") :][:40]) is not None
        )
    if operator.strip(" \t\n|,"):
        return True
    if (match["quoted"] and match["quote"] != "`" and _is_random(match["quoted"], 16)) or _is_key(
        match["plain"] or "", _LONG
    ):
        return True
    if "," in operator:
        return match["quoted"] is not None and _is_set(match)
    if name.startswith("--") or match["word"].lower() in {"requirepass", "masterauth"}:
        return True
    if match["password"] and match["quote"] != "`" and _is_mixed(match["quoted"] or ""):
        return True
    return bool(re.search(r"(?i)(?:^|\n)\s*(?:ENV|ARG|export|setenv|set)[ \t]+\Z", _before(match, name)))


def _is_set(match: re.Match[str]) -> bool:
    """Return True if a call sets a value: `setdefault("DB_PASSWORD", "value")`."""
    name = _name_of(match)
    return (
        re.search(
            r"(?i)\b(?:set\w*|putenv|define|\w+_set)\(\s*(?:[\"'][^\"'\n]*[\"'],\s*)?[\"']\Z",
            _before(match, name),
        )
        is not None
    )


def _before(match: re.Match[str], name: str) -> str:
    """Return the text before a name."""
    start = match.end("word") - len(name)
    return match.string[max(0, start - _LONGEST_NAME) : start]


def _name_of(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - _LONGEST_NAME) : match.start()]
    return before[len(before.rstrip(_IN_NAMES)) :] + match["word"]


def _is_close(match: re.Match[str]) -> bool:
    """Return True if only a simple operator is between a name and its value."""
    operator = match["operator"]
    is_next = "\n" not in operator or match["quoted"] or re.search(r"[|>-]\s*\Z", operator)
    suffix = match["suffix"]
    is_compared = re.search(r"[=!]=", operator) and not match["password"]
    is_result = match["plain"] and _name_of(match).lower() == "pass"  # of a test
    return bool(
        is_next and not is_compared and not is_result and (not suffix or _NEUTRAL_SUFFIXES.fullmatch(suffix))
    )


def _is_code(match: re.Match[str], value: str) -> bool:
    """Return True if a value is a reference, or an expression or a type without quotes."""
    if _REFERENCE.match(value):
        return True
    if _PATH.match(value):
        parts = re.split(r"[/\\]", value)
        return len(parts) > 2 and not any(map(_is_random, parts))  # noqa: PLR2004 # one behind the root
    if match["plain"] is None:
        return False
    return bool(match["call"] or any(one.fullmatch(value) for one in (_DOTTED, _CLASS_NAME)))


def _is_password(match: re.Match[str], value: str) -> bool:
    """Return True if a word or number may be a password: in quotes, with symbols, or alone in a line of settings."""
    if _WEAK_VALUE.fullmatch(value) or "[" in (match["wrap"] or ""):
        return False
    return bool(match["quoted"] or re.search(r"[^\w.:/-]", value) or _is_setting(match, value))


def _is_setting(match: re.Match[str], value: str) -> bool:
    """Return True if a name and its value are a whole line, as in a file of settings."""
    start = match.string.rfind("\n", max(0, match.start() - _LONGEST_NAME), match.start()) + 1
    line = match.string[start : match.end() + len(value) + 1]
    return re.fullmatch(r"\s*(?:export )?[\w.-]+(?:=|: ?)[a-z_]{8,}\s?", line) is not None


_IN_NAMES: Final = f"{string.ascii_letters}{string.digits}_.-<"
_OTHER_NAMES: Final = re.compile(
    r"(?:next|page|continuation|cancel(?:lation)?|[cx]srf|pad|[eb]os|unk|mask|cls|sep|stop|start|end|special|max"
    r"|min|num|total"
    r"|prompt|completion|input|output|per|first|last|current|prev(?:ious)?|image|audio|public|sort|partition|cache"
    r"|primary"
    r"|foreign|unique|group|index|join|hash|row|object|lock|action|s3|redis|lookup|map|routing|idempotency|natural"
    r"|surrogate|composite"
    r"|bucket|file|path|dict|config|param)[-_. ]?(?:token|key)\Z|tiktoken\Z"
    r"|(?:by|com|tres|sur|over|under|low|high|band|all|one|two|first|second|last|multi|single|render|forward|test"
    r"|num|n)[-_]?pass\Z",
    re.IGNORECASE,
)
_OTHER_SUFFIXES: Final = re.compile(
    r"[-_]?(?:\w*_)?(?:counts?|ids?|ur[il]s?|type|names?|files?|path|hash(?:es)?|limits?|size|len(?:gth)?|ttl"
    r"|expir\w*|at|in|life\w*|endpoint"
    r"|arn|header|field|prefix|suffix|alg\w*|regex|pattern|version|policy|class|label|hint|index|map|kind|usage"
    r"|cost|budget|created"
    r"|changed|updated|rotat\w*|sha\d*|md5|digest|checksum|fingerprint|manager|store|provider|address|refs?"
    r"|placeholder|mint|symbol"
    r"|model|format|encod\w*|hex|positions?|list|set|spans?|embeddings?|request|response|func(?:tion)?|test|line"
    r"|column|range)",
    re.IGNORECASE,
)
_NEUTRAL_SUFFIXES: Final = re.compile(
    r"[-_]?(?:\d{1,3}|base|value|val|str(?:ing)?|text|raw|plain|prod(?:uction)?|dev|live|staging|local|old|new"
    r"|backup|default|main)",
    re.IGNORECASE,
)
_VALUES: Final = possessive(
    r"(?P<word>(?P<password>passw(?:or)?d|passphrase|passcode|passwort|kennwort|mot[-_]?de[-_]?passe|senha"
    r"|contrase[nñ]a|mnemonic"
    r"|seed[-_ ]?phrase|(?<![a-z])(?:pwd?|pass(?![a-z]))|(?-i:(?<=[a-z])Pass(?![a-z])|(?<=[A-Z])PASS(?![A-Za-z]))"
    r"|requirepass|masterauth|identified by)|secret|token|credential|creds|api[-_. ]?key|psk"
    r"|(?:access|secret|private|auth|account|encrypt(?:ion)?|signing|master|service|client|app|license|storage"
    r"|admin|deploy"
    r"|webhook|subscription|consumer|session|pre-?shared)[-_ ]?(?:access[-_ ]?)?key|shared[-_ ]?access[-_ ]?(?:key"
    r"|signature)"
    r"|(?-i:(?<=[A-Z0-9]_)KEY)|(?P<vague>(?<=_)auth|(?-i:(?<=_)(?:PAT|SALT|PEPPER))))"
    r"s?(?P<suffix>\d{1,3}(?!\w)|[-_]\w{1,30}+|(?-i:[A-Z][a-z]\w{0,30}+))?"
    # closing quotes, and what separates a name from its value
    r"(?:\s?[\"'`])?\s?\]?"
    r"(?P<operator>,?\s{0,20}[\"']?value[\"']?\s{0,3}[:=]\s{0,3}"
    r"|\s{0,3}:\s?[&\w.\[\]()|?, ]{1,60}(?<!\s)\s?=(?!=)\s{0,3}"  # with a type
    r"|\s{0,3}(?:=>|<-|(?:\|\||\?\?|[:+])=|[=!]==?|[:=](?!=))\s{0,3}(?:[|>][+-]?\s{0,3}\n)?(?:\s{0,40}(?:-\s{1,3})?(?<=\s))?"
    r"|\)?\s{0,3}(?:or|\?\?|\|\|)\s{1,3}|</?\w{1,20}>\s{0,20}<\w{1,20}>|>\s{0,40}"
    r"|[ \t]?\|[ \t]{0,3}|[ \t]{1,8}(?:is[ \t:]{1,4})?"
    r"|\s?,\s{0,20})"
    # the rest is a lookahead: another name may begin within it
    r"(?=(?P<wrap>(?:(?:[\w.:]{0,30}(?:Secret\w{0,10}|String|Str|Token|Password|Key|Credential)|str|bytes"
    r"|bytearray|list|tuple|set|from"
    r"|String::from|Some|new)?(?:\[\w{1,20}\])?[(\[]\s{0,20}){0,3}(?:[\"'][^\"'\n]{0,5}[\"'],\s{0,20}){0,3})"
    r"[rbufRBUF@]{0,2}(?:(?:\"\"\"|''')\s{0,20}|(?P<quote>[\"'`]))"
    r"(?P<quoted>(?:(?!(?P=quote))[^\\\n]|\\.){1,200}+)"
    r"|(?P<plain>(?:[#@^*!?=+~%|]|[,;(&](?=[\w/+-]{12,60}+(?![=(.])))?[^\s\"'\\,;&<>(){}\[\]`|]{1,200}+)(?P<call>[(\[])?)",
    re.ASCII | re.IGNORECASE,
)
_REST: Final = re.compile(r"(?:[^\s\"'\\,;&<>(){}\[\]`|]|,(?=[\w-]{12}))*")
_ELEMENT: Final = re.compile(r"(?<=[\"'`])\s{0,3},\s{0,40}[\"'`](?P<secret>[^\"'`\n]{6,200})")
_PEM: Final = r"PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_BLOCK: Final = (  # PEM, OpenSSH, PGP: to the end of the block, or to the end of the text
    rf"-{{4,5}} ?BEGIN [A-Z0-9 ]{{0,40}}{_PEM}(?:[^-]*+(?:-(?!---)[^-]*+)*+-{{4,5}} ?END [A-Z0-9 ]{{0,40}}{_PEM}"
    r"|(?:\s*+[\w+/=]{16,}+)*+)"
)
_ADDRESS: Final = (
    r"(?<=://)[^\s/@:\"'<>?#\\]{0,200}:(?!\d{1,5}(?:[/?#\s]|\Z))[^\s\"'<>\\]{1,300}?"
    r"(?=@[\w.\[\]:%-]{0,300}(?:[/?#\s\"',;)<>\\]|\Z))"
)
_USER: Final = r"(?<=://)[^\s/@:\"'<>?#\\]{12,300}+(?=:?@[\w\[])"
_NETRC: Final = (
    r"\b(?:machine\s{1,20}\S{1,200}|default)\s{1,20}login\s{1,20}\S{1,200}\s{1,20}password\s{1,20}\S{4,}"
)
_PGPASS: Final = (  # a pattern
    r"(?m:^)(?=[^:\n]{0,200}[g-zG-Z.*])[\w.*-]{1,200}:(?:\*|[56][45]\d\d)"
    r":[\w*-]{1,100}:[\w*.@-]{1,100}:[^\s:]{4,}"
)
_GAP: Final = r"(?:[^\n]|(?<=\\)\n){0,300}?[\s\"']"
_CURL: Final = (
    rf"\b(?:curl|wget|https?(?!:)|xh)\b{_GAP}(?:-u|-a|-U|--(?:proxy-)?user|--auth)[\s=\"',]{{0,4}}[^\s:\"']{{0,100}}:"
    r"(?P<secret>[^\s\"']{4,200})"
)
_COMMAND: Final = (
    rf"\b(?:sshpass|mysql\w{{0,10}}|mariadb\w{{0,10}}|(?:docker|podman|helm|az|oc)[\w ]{{0,20}}login|redis-cli"
    rf"|mongo\w{{0,10}}|sqlcmd|ldap\w{{3,10}}"
    rf"|7z|zip|smbclient)\b{_GAP}-[paPw](?:[\s=\"',]{{0,4}})(?P<secret>[^\s\"':/-][^\s\"':/]{{5,200}})"
)
_LOGIN: Final = (  # a user and a password, in this order
    r"(?:auth\w{0,20}\s?[=:]?\s?|\blogin\s?)[(\[]\s{0,20}[\"'][^\"'\n]{0,100}[\"']"
    r"\s?,\s{0,20}[\"'](?P<secret>[^\"'\n]{6,200})"
)
_SETTER: Final = (
    r"(?:(?:set|make|check|hash|verify)_?password\w{0,8}\(\s{0,20}(?:[\"'][^\"'\n]{0,60}[\"']\s?,\s{0,20}){0,2}"
    r"|securestring[ \t]{1,4})"
    r"[\"'](?P<secret>[^\"'\n]{6,200})"
)
_AUTHORIZATION: Final = (
    r"(?<![a-z])authorization[\"'\])]{0,3}\s{0,3}[:=,]\s{0,3}[\"']?"
    r"(?:[\w-]{3,20}[ \t]{1,20}(?:token=|key=)?)?[\"']?"
)
_COOKIE: Final = (
    r"\bcookie[\"']?\s?:\s?[\"']?[^\n\"']{0,200}?(?:sess\w{0,12}|sid|token"
    r"|auth\w{0,8})=(?P<secret>[^\s;\"'\\]{16,})"
)
_PATTERNS: Final[tuple[tuple[str, Callable[[re.Match[str]], Grade | None]], ...]] = (
    (f"(?:{'|'.join(_BRANDED.values())})", _grade_of_brand),
    (rf"{_BEFORE}(?:{'|'.join(_TOKENS.values())})", lambda _: Grade.CERTAIN),
    # a key that a provider repeats with stars, or that was cut
    (
        rf"{_BEFORE}sk-(?:(?=[a-zA-Z_-]{{0,40}}\d)[\w-]{{6,}}|[\w-]{{0,200}}+[*…][\w*….-]*)",
        lambda _: Grade.PART,
    ),
    (_BLOCK, _grade_of_block),
    (r"(?<=Private-Lines: )\d{1,4}(?:\s*+[A-Za-z0-9+/=]{16,}+)++", lambda _: Grade.CERTAIN),  # PuTTY
    (r"(?<=\"d\":)\s{0,3}\"[\w-]{40,}\"", lambda _: Grade.CERTAIN),  # a JSON Web Key
    (_ADDRESS, _grade_in_address),
    (_USER, _grade_of_user),
    # addresses of databases in Go and Java
    (r":(?P<secret>[^\s:@\"']{4,100}+)(?=@(?:tcp|unix)\()", _grade_of_place),
    (r":thin:[^\s/:]{1,60}/(?P<secret>[^\s@/\"']{4,100})(?=@)", _grade_of_place),
    (rf"(?i:bearer[ \t:=\"'+]{{1,20}}|{_AUTHORIZATION})(?P<secret>[\w.~+/=*…-]{{6,}})", _grade_in_header),
    (rf"(?i:{_COOKIE})", _grade_of_word),
    (
        r"(?i:\bbasic[ \t]{1,20}|\"auth\"\s{0,3}:\s{0,3}\")(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})",
        _grade_of_pair,
    ),
    (r"(?i:(?<=[?&]key=)|(?<=[?&]sig=)|(?<=signature=)|(?<=[?&]code=))[^\s&#\"'\\]{4,}", _grade_of_parameter),
    *((f"(?i:{one})", _grade_of_word) for one in (_CURL, _LOGIN, _SETTER)),
    (_COMMAND, _grade_of_word),
    (_NETRC, _grade_of_entry),
    (_PGPASS, _grade_of_entry),
)
_SHAPES: Final = (
    *((possessive(one, re.ASCII), grade) for one, grade in _PATTERNS),
    (_VALUES, _grade_of_value),
)

# --- escapes

_ESCAPE: Final = possessive(
    r"%(?:25)*[0-9A-Fa-f]{2}|(?<!\\)\\++(?:u00[0-9A-Fa-f]{2}|x[0-9A-Fa-f]{2}|[\"'/nrt])"
    r"|&(?:amp;)*(?:quot|apos|amp|lt|gt|#\d{1,3}|#x[0-9A-Fa-f]{1,2});|=3D|[\xa0\u2007\u202f\u3000\uff1d\uff1a\u201c\u201d\u2018\u2019]",
    re.ASCII,
)
_PLAIN: Final = dict(
    zip("nrt\xa0\u2007\u202f\u3000\uff1d\uff1a\u201c\u201d\u2018\u2019", "\n\r\t    =:\"\"''", strict=True)
)


def _unescaped(text: str) -> tuple[str, Callable[[int], int]]:
    """Return a plain form of a text, and a function that maps its places to places of the text."""
    pieces, here, there, length, end = [], [0], [0], 0, 0
    for match in _ESCAPE.finditer(text):
        start, after = match.span()
        length += start - end
        pieces += [text[end:start], _character(match[0])]
        here += [length, length + 1]
        there += [start, after]
        length, end = length + 1, after

    def origin(place: int) -> int:
        at = bisect(here, place) - 1
        return there[at] + place - here[at]

    return "".join([*pieces, text[end:]]), origin


def _character(escape: str) -> str:
    if escape[0] == "&":
        return html.unescape(f"&{escape.replace('amp;', '')[1:]}" if escape.count(";") > 1 else escape)[:1]
    last = escape.lstrip("\\")
    return _PLAIN.get(last) or (last if len(last) == 1 else chr(int(escape[-2:], 16)))


def find_secrets(text: str) -> list[FoundSecret]:
    """Return the secrets in a text, in order. They do not overlap."""
    plain, origin = _unescaped(text)
    secrets = set(_matches_in(text))
    if plain != text:
        secrets |= {
            FoundSecret(origin(secret.start), origin(secret.end), secret.grade)
            for secret in _matches_in(plain)
        }
    merged: list[FoundSecret] = []
    for secret in sorted(secrets):
        last = merged[-1] if merged else None
        if last is not None and secret.start < last.end:
            merged[-1] = FoundSecret(last.start, max(last.end, secret.end), max(last.grade, secret.grade))
        else:
            merged.append(secret)
    return merged


def why_not_sent(text: str, *, send_anyway: bool = False) -> str:
    """Return the reason not to send a text, as the middle of a sentence. Empty if it can be sent.

    Args:
        text: the whole text.
        send_anyway: True if the user decided that doubtful secrets are not secrets. It has no effect if the
            administrator's limits require redaction.
    """
    certain, doubtful = key_lines(text), key_lines(text, Grade.DOUBTFUL)
    if certain:
        return f"contains a likely key in line {certain[0]}"
    is_sent = not doubtful or (send_anyway and not admin_limits().redaction)
    return "" if is_sent else f"may contain a secret in line {doubtful[0]}"


def mask_secrets(text: str, mask: str) -> str:
    """Return a text with `mask` in place of each secret."""
    pieces, end = [], 0
    for one in find_secrets(text):
        pieces += [text[end : one.start], mask]
        end = one.end
    return "".join([*pieces, text[end:]])


def key_lines(text: str, grade: Grade = Grade.CERTAIN) -> list[int]:
    """Return the lines of a text on which secrets of a grade begin, counted from 1."""
    breaks = [one.end() for one in re.finditer(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text)]
    return list(
        dict.fromkeys(bisect(breaks, one.start) + 1 for one in find_secrets(text) if one.grade is grade)
    )


def _matches_in(text: str) -> Iterator[FoundSecret]:
    for pattern, grade_of in _SHAPES:
        end = 0
        for match in pattern.finditer(text):
            grade = grade_of(match) if match.start() >= end else None
            if grade is None:
                continue
            parts = [name for name, part in match.groupdict().items() if name in _PARTS and part is not None]
            start, end = match.span(parts[0] if parts else 0)
            if pattern is _VALUES:
                end = _REST.match(text, end).end()  # type: ignore[union-attr] # it always matches
                if match["wrap"]:
                    yield from _others(text, end, grade)
            yield FoundSecret(start, end, grade)


def _others(text: str, start: int, grade: Grade) -> Iterator[FoundSecret]:
    """Yield the other texts of a list after its first one."""
    while (match := _ELEMENT.match(text, start + 1)) is not None:
        start = match.end()
        if _is_mixed(match["secret"]):
            yield FoundSecret(*match.span("secret"), grade)
