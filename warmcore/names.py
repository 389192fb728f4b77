"""The one place where names from outside are judged."""

import re
import unicodedata
from collections.abc import Iterable

from warmcore.errors import IdentityError, Reject

MAX_FILES = 20_000
MAX_NAME_BYTES = 1_024
# Names travel in a header, so 255 is not our limit: it is the installing file system's, and judged there.
MAX_SEGMENT_BYTES = 288

KIND = re.compile(r"[a-z][a-z0-9_]{0,63}")
HASH = re.compile(r"[0-9a-f]{64}")
ARTIFACT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,511}")
NAMESPACE = re.compile(r"[a-z0-9._-]{1,64}")
GENERATION = re.compile(r"[0-9a-z]{1,64}")
FACTOR = re.compile(r"[a-z][a-z0-9_.]{0,63}")
# Room for a cache to put `engine.` before it.
ENGINE_FACTOR = re.compile(r"[a-z][a-z0-9_.]{0,56}")

_FORBIDDEN = frozenset('\\:*?"<>|')
_DEVICE = re.compile(r"(con|prn|aux|nul|clock\$|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])( *\..*)?", re.IGNORECASE)


def check(rule: re.Pattern[str], what: str, text: str) -> str:
    """Return `text` if the whole of it matches `rule`, else raise IdentityError."""
    if not isinstance(text, str) or not rule.fullmatch(text):
        raise IdentityError(f"{what} {text!r:.80} is not allowed: expected {rule.pattern}")
    return text


def check_namespace(text: str) -> str:
    if text in (".", ".."):
        raise IdentityError(f"namespace {text!r} is not allowed: choose 1 to 64 of a-z 0-9 . _ -")
    return check(NAMESPACE, "namespace", text)


def check_file_names(names: Iterable[str]) -> None:
    """Judge the file names of one artifact together; Reject at the first that could harm a folder it is written to."""
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for count, name in enumerate(names, 1):
        if count > MAX_FILES:
            raise Reject(f"more than {MAX_FILES} files in one artifact")
        _check_file_name(name)
        folded = _fold(name)
        if folded in seen:
            raise Reject(f"file names {seen[folded]!r:.80} and {name!r:.80} are one name on a case-blind file system")
        seen[folded] = name
        for folder in _parents(name):
            if folders.setdefault(_fold(folder), folder) != folder:
                raise Reject(f"folder {folder!r:.80} has a case twin on a case-blind file system")
    if clash := folders.keys() & seen.keys():
        raise Reject(f"{min(clash)!r:.80} is both a file and a folder")


def _check_file_name(name: str) -> None:
    reason = _fault(name)
    if reason:
        raise Reject(f"file name {name!r:.80} is not allowed: {reason}")


def _fault(name: str) -> str | None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "not valid Unicode"
    if not 0 < size <= MAX_NAME_BYTES:
        return f"{size} bytes long, expected 1 to {MAX_NAME_BYTES}"
    if not unicodedata.is_normalized("NFC", name):
        return "not in Unicode normal form C"
    if not (name.isprintable() and _FORBIDDEN.isdisjoint(name)):
        return 'holds a control character or one of \\ : * ? " < > |'
    return next(filter(None, map(_segment_fault, name.split("/"))), None)


def _segment_fault(segment: str) -> str | None:
    if segment in ("", ".", ".."):
        return "absolute, or with an empty, '.' or '..' part"
    if segment[-1] in ". " or segment[0] == " ":
        return "a part starts with a space or ends in a dot or a space"
    if len(segment.encode()) > MAX_SEGMENT_BYTES:
        return f"a part is over {MAX_SEGMENT_BYTES} bytes"
    return "a device name" if _DEVICE.fullmatch(segment) else None


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())
