"""The shapes of secrets: keys, tokens, passwords. The one list, for everything that is sent, recorded or shown.

A certain secret is not sent. The user decides about a doubtful one. A mere part of a secret, such as a key with
stars, matters where text is written. Prose, tables, identifiers, hashes and placeholders are no secrets.

Patterns begin with a fixed text and repeat bounded or exclusive classes, so the time is linear.
"""

from __future__ import annotations

import re
import string
from base64 import b64decode
from bisect import bisect
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

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


# --- keys that are known by their beginning

_TOKENS: Final = {
    "OpenAI, Anthropic, OpenRouter": r"sk-(?:[a-z]{2,8}-){0,2}(?:[a-z]{1,4}\d{1,3}-)?[A-Za-z0-9]{15}[\w-]*",
    "OpenAI with hyphens": r"sk-(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[A-Z])(?=[\w-]{0,40}[a-z])[\w-]{16,}"
    r"|sess-[A-Za-z0-9]{30,}",
    "Groq, xAI, Perplexity, Replicate": r"gsk_\w{16,}|xai-\w{20,}|pplx-[A-Za-z0-9]{30,}|r8_[A-Za-z0-9]{30,}",
    "Hugging Face, LangSmith": r"hf_[A-Za-z0-9]{18,}|api_org_[A-Za-z0-9]{30,}|lsv2_\w{30,}",
    "Google": r"AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|1//0[\w-]{30,}",
    "GitHub": r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}",
    "GitLab": r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|soat|oas|agent)-[\w-]{16,}|GR1348941[\w-]{16,}",
    "AWS": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?!\w)|ABSK[A-Za-z0-9+/]{40,}={0,2}",
    "Azure": r"[A-Za-z0-9_~.]{3}\dQ~[\w~.-]{31,34}",
    "Slack": r"xox[a-z]-[\w-]{10,}|xapp-\d-[\w-]{10,}|hooks\.slack\.com/services/[\w/]{20,}",
    "Stripe": r"[rs]k_(?:live|test)_\w{10,}|whsec_[A-Za-z0-9+/]{20,}",
    "SendGrid, Twilio, Mailgun, Mailchimp": r"SG\.[\w-]{16,}\.[\w-]{16,}|SK[0-9a-f]{32}(?!\w)|key-[0-9a-f]{32}(?!\w)"
    r"|[0-9a-f]{32}-us\d{1,2}(?!\w)",
    "npm, PyPI, RubyGems, crates.io, Docker": r"npm_[A-Za-z0-9]{30,}|pypi-AgE[\w-]{16,}|rubygems_[0-9a-f]{40,}"
    r"|cio[A-Za-z0-9]{32}(?!\w)|dckr_pat_[\w-]{20,}",
    "clouds": r"do[opr]_v1_[0-9a-f]{40,}|dapi[0-9a-f]{32}|HRKU-[\w-]{30,}|hv[sbr]\.[\w-]{20,}|sbp_[0-9a-f]{40}"
    r"|fm2_[\w+/=]{30,}",
    "services": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0[a-z]{3}-[\w-]{20,}|lin_api_\w{30,}|secret_[A-Za-z0-9]{40,}"
    r"|ntn_[A-Za-z0-9]{40,}|figd_[\w-]{30,}|PMAK-[\w-]{40,}|gl(?:sa|c)_[\w+/=]{20,}|sntry[su]_[\w+/=-]{20,}|NRAK-[A-Z0-9]{20,}"
    r"|dp\.(?:pt|st|ct|sa)\.[\w.-]{20,}|pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}|ATATT3[\w=-]{30,}|EAA[A-Za-z0-9]{60,}",
    "Telegram, Discord": r"\d{8,10}:AA[\w-]{32,}|[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}",
    "age": r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    "JSON Web Token": r"eyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]{6,}",
}
_BEFORE: Final = r"(?:(?<![\w-])|(?<=\\[nrt]))"  # within JSON text, a line may begin with \n

# --- values of which it depends

_NO_VALUE: Final = re.compile(
    r"(?:str|string|int|integer|float|number|bool|boolean|bytes|none|null|nil|any|optional|text|object|required|hidden|default"
    r"|true|false|unknown|undefined|empty|missing|invalid)\??",
    re.IGNORECASE,
)
_WEAK_VALUE: Final = re.compile(
    r"(?:my)?pass(?:word|wd|phrase)?|pwd|secret|token|key|apikey|credentials?|user(?:name)?|root|admin|postgres|mysql|guest|sample|todo"
    r"|test(?:ing)?",
    re.IGNORECASE,
)
_TEMPLATE: Final = re.compile(
    r"[<>{}\[\]()$*…]|\.\.\.|%(?![\da-f]{2})|x{4,}|(?<![a-z])(?:your|example|placeholder|change.?me|insert|replace|dummy"
    r"|redacted|masked)(?![a-z])",
    re.ASCII | re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"[~.]{0,2}/|[A-Za-z]:\\|\w+:|op:|!|&")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)
_CLASS_NAME: Final = re.compile(r"[A-Z]*\d*(?:[A-Z][a-z]+\d*){2,}|0x[\da-fA-F]+")
_CLASSES: Final = (str.islower, str.isupper, str.isdigit)
_LONG, _SHORTEST, _LONGEST_NAME = 20, 6, 60


def _is_placeholder(value: str) -> bool:
    return bool(_NO_VALUE.fullmatch(value) or _TEMPLATE.search(value))


def _is_mixed(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _is_random(value: str) -> bool:
    """Return True if a program seems to have drawn a value."""
    if any(map(_is_mixed, re.findall(r"[A-Za-z0-9]{12,}", value))):
        return True
    is_base64 = len(value) >= _LONG and re.fullmatch(r"[A-Za-z0-9+/=]+", value) is not None
    return is_base64 and all(any(map(one, value)) for one in _CLASSES)


def _grade_of_block(found: re.Match[str]) -> Grade | None:
    if re.search(r"[A-Za-z0-9+/]{32}", found[0]):
        return Grade.CERTAIN
    return Grade.DOUBTFUL if re.search(r"[A-Za-z0-9+/]{16}", found[0]) else None


def _grade_in_address(found: re.Match[str]) -> Grade | None:
    user, _, password = found[0].partition(":")
    if _is_placeholder(password) or _is_placeholder(user):
        return None
    is_weak = password.lower() == user.lower() or _WEAK_VALUE.fullmatch(password)
    return Grade.DOUBTFUL if is_weak else Grade.CERTAIN


def _grade_in_header(found: re.Match[str]) -> Grade | None:
    if not _is_mixed(found[0]):
        return None
    if "*" in found[0] or "…" in found[0]:
        return Grade.PART
    if _is_placeholder(found[0]):
        return None
    return Grade.CERTAIN if _is_random(found[0]) else Grade.DOUBTFUL


def _grade_of_pair(found: re.Match[str]) -> Grade | None:
    """Grade a text that may be `user:password` in base64."""
    try:
        return Grade.CERTAIN if ":" in b64decode(found[0], validate=True).decode() else None
    except ValueError:
        return None


def _grade_of_parameter(found: re.Match[str]) -> Grade | None:
    if _is_placeholder(found[0]):
        return None
    return Grade.CERTAIN if _is_random(found[0]) else Grade.PART


def _grade_of_entry(found: re.Match[str]) -> Grade | None:
    password = re.split(r"[\s:]", found[0])[-1]
    return None if _is_placeholder(password) else Grade.CERTAIN


def _grade_of_value(found: re.Match[str]) -> Grade | None:
    """Grade the value of a name such as `DB_PASSWORD`."""
    value, name = found["quoted"] or found["plain"], _name_of(found)
    if len(value) < _SHORTEST or not _is_named(found, name) or _is_placeholder(value) or _is_code(found):
        return None
    if " " in value:
        return Grade.DOUBTFUL if "phrase" in name.lower() else None
    if _is_random(value):
        return Grade.CERTAIN
    if _is_mixed(value):  # a short `token` may be one of a text
        return Grade.PART if name.lower() == "token" and len(value) < _LONG else Grade.DOUBTFUL
    return Grade.DOUBTFUL if found["password"] and _is_password(found, value) else None


def _is_named(found: re.Match[str], name: str) -> bool:
    """Return True if a name is a secret's, and has the value: `name = value`, `<name>value<`, `--name value`."""
    if found["operator"] == ">":
        return name.startswith("<") and found.string.startswith("<", found.end("plain"))
    return not _OTHER_NAMES.search(name) and (not found["operator"].isspace() or name.startswith("--"))


def _name_of(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - _LONGEST_NAME) : found.start()]
    return before[len(before.rstrip(_IN_NAMES)) :] + found["word"]


def _is_code(found: re.Match[str]) -> bool:
    """Return True if a value is an address, or an expression or a type without quotes."""
    value = found["plain"]
    if value is None:
        return _REFERENCE.match(found["quoted"]) is not None
    return bool(
        found["call"]
        or any(one.fullmatch(value) for one in (_DOTTED, _CLASS_NAME))
        or _REFERENCE.match(value)
    )


def _is_password(found: re.Match[str], value: str) -> bool:
    """Return True if a word or number may be a password: in quotes, with symbols, or alone in a line of settings."""
    if _WEAK_VALUE.fullmatch(value):
        return False
    return bool(found["quoted"] or re.search(r"[^\w.:/-]", value) or _is_setting(found, value))


def _is_setting(found: re.Match[str], value: str) -> bool:
    """Return True if a name and its value are a whole line, as in a file of settings."""
    start = found.string.rfind("\n", max(0, found.start() - _LONGEST_NAME), found.start()) + 1
    line = found.string[start : found.end() + len(value) + 1]
    return re.fullmatch(r"\s*(?:export )?[\w.-]+(?:=|: ?)[a-z_]{8,}\s?", line) is not None


_IN_NAMES: Final = f"{string.ascii_letters}{string.digits}_.-<"
_OTHER_NAMES: Final = re.compile(
    r"(?:next|page|continuation|cancel(?:lation)?|[cx]srf|pad|[eb]os|unk|mask|cls|sep|stop|start|end|special|max|min|num|total"
    r"|prompt|completion|input|output|per|first|last|current|prev(?:ious)?|image|audio|public|sort|partition|cache|primary"
    r"|foreign|unique|group|index|join|hash|row|object|s3|redis|lookup|map|routing|idempotency|natural|surrogate|composite"
    r"|bucket|file|path|dict|config|param)[-_. ]?(?:token|key)\Z|tiktoken\Z",
    re.IGNORECASE,
)
_VALUES: Final = re.compile(
    r"(?P<word>(?P<password>passw(?:or)?d|passphrase|passcode|(?<![a-z])pwd)|secret|token|credential|api[-_. ]?key"
    r"|(?:access|secret|private|auth|account|encrypt(?:ion)?|signing|master|service|client|app|license|storage|admin|deploy"
    r"|webhook|subscription|consumer|session)[-_ ]?(?:access[-_ ]?)?key|shared[-_ ]?access[-_ ]?(?:key|signature)"
    r"|(?-i:(?<=[A-Z0-9]_)KEY))"
    # closing quotes, and what separates a name from its value
    r"(?:\\{0,4}[\"'])?\]?"
    r"(?P<operator>\s{0,3}(?:=>|:=|[:=](?!=))\s{0,3}|>|[ \t]"
    r"|,?\s{0,20}\\{0,4}[\"']?value\\{0,4}[\"']?\s{0,3}[:=]\s{0,3})"
    # the rest is a lookahead: another name may begin within it
    r"(?=[rbu]?\\{0,4}[\"'](?P<quoted>[^\"'\\\n]{1,200}+)|(?P<plain>[^\s\"'\\,;&<>(){}\[\]`|]{1,200}+)(?P<call>[(\[])?)",
    re.ASCII | re.IGNORECASE,
)
_REST: Final = re.compile(r"[^\s\"'\\,;&<>(){}\[\]`|]*")
_PEM: Final = r"PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_BLOCK: Final = (  # PEM, OpenSSH, PGP: to the end of the block, or as far as it goes
    rf"-{{4,5}} ?BEGIN [A-Z0-9 ]{{0,40}}{_PEM}(?:[^-]*+(?:-(?!---)[^-]*+)*+-{{4,5}} ?END [A-Z0-9 ]{{0,40}}{_PEM}"
    r"|(?:(?:\s|\\+[nr])*+[\w+/=]{16,}+)*+)"
)
_ADDRESS: Final = (
    r"(?<=://)[^\s/@:\"'<>?#\\]{0,200}:(?!\d{1,5}(?:[/?#\s]|\Z))[^\s\"'<>\\]{1,300}?"
    r"(?=@[\w.\[\]:%-]{0,300}(?:[/?#\s\"',;)<>\\]|\Z))"
)
_NETRC: Final = (
    r"\b(?:machine\s{1,20}\S{1,200}|default)\s{1,20}login\s{1,20}\S{1,200}\s{1,20}password\s{1,20}\S{4,}"
)
_PGPASS: Final = (  # a pattern
    r"(?m:^)(?=[^:\n]{0,200}[g-zG-Z.*])[\w.*-]{1,200}:(?:\*|[56][45]\d\d)"
    r":[\w*-]{1,100}:[\w*.@-]{1,100}:[^\s:]{4,}"
)
_PATTERNS: Final[tuple[tuple[str, Callable[[re.Match[str]], Grade | None]], ...]] = (
    (rf"{_BEFORE}(?:{'|'.join(_TOKENS.values())})", lambda _: Grade.CERTAIN),
    # a key that a provider repeats with stars, or that was cut
    (
        rf"{_BEFORE}sk-(?:(?=[a-zA-Z_-]{{0,40}}\d)[\w-]{{6,}}|[\w-]{{0,200}}+[*…][\w*….-]*)",
        lambda _: Grade.PART,
    ),
    (_BLOCK, _grade_of_block),
    (
        r"(?<=Private-Lines: )\d{1,4}(?:(?:\s|\\+[nr])*+[A-Za-z0-9+/=]{16,}+)++",
        lambda _: Grade.CERTAIN,
    ),  # PuTTY
    (r"(?<=\"d\":)\s{0,3}\"[\w-]{40,}\"", lambda _: Grade.CERTAIN),  # a JSON Web Key
    (_ADDRESS, _grade_in_address),
    (
        r"(?i:(?<=bearer )|(?<=authorization: token )|(?<=authorization: basic ))[\w.~+/=*…-]{6,}",
        _grade_in_header,
    ),
    (r"(?i:(?<=basic )|(?<=\"auth\": \")|(?<=\"auth\":\"))[A-Za-z0-9+/]{8,}+={0,2}", _grade_of_pair),
    (r"(?i:(?<=[?&]key=)|(?<=[?&]sig=)|(?<=signature=)|(?<=[?&]code=))[^\s&#\"'\\]{4,}", _grade_of_parameter),
    (_NETRC, _grade_of_entry),
    (_PGPASS, _grade_of_entry),
)
_SHAPES: Final = (
    *((re.compile(one, re.ASCII), grade) for one, grade in _PATTERNS),
    (_VALUES, _grade_of_value),
)


def find_secrets(text: str) -> list[FoundSecret]:
    """Return the secrets in a text, in order. They do not overlap."""
    found = sorted(chain.from_iterable(_found(pattern, grade, text) for pattern, grade in _SHAPES))
    merged: list[FoundSecret] = []
    for one in found:
        last = merged[-1] if merged else None
        if last is not None and one.start < last.end:
            merged[-1] = FoundSecret(last.start, max(last.end, one.end), max(last.grade, one.grade))
        else:
            merged.append(one)
    return merged


def why_not_sent(text: str, *, send_anyway: bool = False) -> str:
    """Return why a text is not sent, as the middle of a sentence; empty if it can be.

    Args:
        text: all of it.
        send_anyway: the user decided that doubtful secrets are none.
    """
    certain, doubtful = key_lines(text), key_lines(text, Grade.DOUBTFUL)
    if certain:
        return f"holds something like a key in line {certain[0]}"
    return f"may hold a secret in line {doubtful[0]}" if doubtful and not send_anyway else ""


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


def _found(
    pattern: re.Pattern[str], grade_of: Callable[[re.Match[str]], Grade | None], text: str
) -> Iterator[FoundSecret]:
    end = 0
    for found in pattern.finditer(text):
        grade = grade_of(found) if found.start() >= end else None
        if grade is None:
            continue
        start, end = found.span()
        if pattern is _VALUES:
            start, end = found.span("quoted" if found["plain"] is None else "plain")
            end = _REST.match(text, end).end()  # type: ignore[union-attr] # it always matches
        yield FoundSecret(start, end, grade)
