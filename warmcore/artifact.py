"""The sealed form, version 1: one line that commits to the header, a readable header, and the bytes of all files.

docs/reference/sealed-artifact.md describes it byte by byte. Checks run in this order, here and nowhere else: first
line, header cap, header digest, strict parse, namespace, key, identity, expiry, names, sizes, body digest, file
digests.
"""

import hashlib
import re
import time
import uuid
from dataclasses import dataclass

import msgspec

from warmcore import names
from warmcore.blob import Blob, Origin, Payload
from warmcore.errors import FutureVersion, IdentityError, Reject
from warmcore.identity import Identity, Request, Scalar, diff, parse_key

VERSION = 1
MAX_HEADER = 4 << 20
MAX_LINE = 128

_LINE = re.compile(rb"(warmcore-sealed/([1-9][0-9]{0,5}) ([1-9][0-9]{0,7})) ([0-9a-f]{64})\n")


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of the artifact: its place in the body follows from the sizes before it."""

    name: str
    size: int
    sha256: str


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a sealed artifact says of itself.

    Times are Unix seconds; `cost_seconds` is what the warm-up took its publisher.
    """

    namespace: str
    key: str
    identity: dict[str, Scalar]
    created: int
    expires: int
    generation: str
    cost_seconds: float | None
    body_sha256: str
    files: list[File]
    signature: str | None = None

    @property
    def body_size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Head:
    """A parsed head: the header, and where the body starts."""

    header: Header
    body_start: int


def seal(
    payload: Payload, request: Request, key: str, *, namespace: str, keep: float, generation: str, cost: float | None
) -> tuple[Header, tuple[Blob, ...]]:
    """Seal a payload under a key; return the header and the bytes to store.

    IdentityError without an identity, Reject on a bad name.
    """
    if request.identity is None:
        raise IdentityError(f"{key}: a request without an identity can be read, not published")
    if not payload:
        raise Reject("empty: no files to publish")
    names.check_file_names(payload)
    created = int(time.time())
    header = Header(
        namespace=names.check_namespace(namespace),
        key=key,
        identity=dict(request.identity.factors),
        created=created,
        expires=created + int(keep),
        generation=generation,
        cost_seconds=None if cost is None else float(cost),
        body_sha256=payload.digest,
        files=[File(name, blob.size, blob.sha256) for name, blob in payload.items()],
    )
    return header, (Blob.of(_encode_head(header)), *payload.values())


def origin(header: Header) -> Origin:
    """Return what a payload of this header remembers of where it came from."""
    return Origin(header.namespace, header.key, header.generation)


def new_generation() -> str:
    """Return the id that all artifacts of one publish share."""
    return uuid.uuid4().hex


def unseal(
    sealed: Blob, request: Request, key: str, *, namespace: str, now: float | None = None
) -> tuple[Header, Payload]:
    """Verify every byte of a sealed artifact against what was asked for; Reject, or FutureVersion, with the reason."""
    head = parse_head(_start(sealed))
    _check_asked(head.header, request, key, namespace)
    if head.header.expires <= (time.time() if now is None else now):
        raise Reject(f"expired at {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(head.header.expires))} UTC")
    return head.header, open_body(sealed, head)


def open_body(sealed: Blob, head: Head) -> Payload:
    """Verify names, sizes and digests, and return the files as views into `sealed`."""
    header = head.header
    file_names = [file.name for file in header.files]
    if not file_names or file_names != sorted(set(file_names)):
        raise Reject("file list is empty, unsorted, or names a file twice")
    names.check_file_names(file_names)
    if any(file.size < 0 for file in header.files) or head.body_start + header.body_size != sealed.size:
        raise Reject(
            f"{sealed.size} bytes, the header promises {head.body_start + header.body_size}: "
            "cut short, or with bytes behind"
        )
    files, position = {}, head.body_start
    for file in header.files:
        files[file.name] = sealed.part(position, file.size)
        position += file.size
    listed = "".join(f"{file.sha256} {file.size} {file.name}\n" for file in header.files)
    if hashlib.sha256(listed.encode()).hexdigest() != header.body_sha256:
        raise Reject("body digest does not match the file list")
    for file in header.files:
        if files[file.name].sha256 != file.sha256:
            raise Reject(f"file {file.name!r:.80} does not match its digest: damaged, or of another artifact")
    return Payload(files, origin(header))


def parse_head(start: bytes) -> Head:
    """Parse first line and header from the first bytes of a sealed artifact; Reject if not exactly as written."""
    line = _LINE.match(start[:MAX_LINE])
    if not line:
        raise Reject("not a sealed artifact: empty, cut short, or something else")
    promise, version, size, digest = line.groups()
    if int(size) > MAX_HEADER:
        raise Reject(f"header of {int(size)} bytes, the cap is {MAX_HEADER}")
    text = start[line.end() : line.end() + int(size)]
    if _header_digest(promise, text) != digest:
        raise Reject("header does not match its digest: damaged or cut short")
    if int(version) != VERSION:
        raise FutureVersion(int(version), VERSION)
    return Head(_parse_header(text), line.end() + int(size))


def _start(sealed: Blob) -> bytes:
    line = sealed.part(0, min(sealed.size, MAX_LINE)).read(MAX_LINE)
    size = min(head_size(line) or 0, MAX_LINE + MAX_HEADER, sealed.size)
    return sealed.part(0, size).read(size)


def head_size(start: bytes) -> int | None:
    """Return the size of the head, None while the first line is not complete; Reject if this is no sealed artifact."""
    line = _LINE.match(start[:MAX_LINE])
    if line:
        return line.end() + int(line.group(3))
    if len(start) >= MAX_LINE or b"\n" in start:
        raise Reject("not a sealed artifact: empty, cut short, or something else")
    return None


def _parse_header(text: bytes) -> Header:
    try:
        header = msgspec.json.decode(text, type=Header)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Reject(f"header is not as the format says: {error}") from None
    # Equal to its own canonical text: no duplicate field, no other spelling of a number, no other order.
    if _encode_header(header) != text:
        raise Reject("header is not in its canonical form: a duplicate field, or another writer's spelling")
    return header


def _check_asked(header: Header, request: Request, key: str, namespace: str) -> None:
    if header.namespace != namespace:
        raise Reject(f"sealed for namespace {header.namespace!r:.80}, asked for {namespace!r}")
    if header.key != key:
        raise Reject(f"sealed under key {header.key!r:.200}, asked for {key}")
    try:
        names.check(names.GENERATION, "generation", header.generation)
        identity = Identity(header.identity)
    except IdentityError as error:
        raise Reject(f"sealed identity is not valid: {error}") from None
    if header.cost_seconds is not None and header.cost_seconds < 0:
        raise Reject(f"sealed cost is {header.cost_seconds:g} s: expected 0 or more")
    if request.identity is not None and (differences := diff(request.identity, identity)):
        factors = ", ".join(difference.factor for difference in differences)
        raise Reject(f"sealed for another identity: it differs in {factors:.200}")
    if identity.config_hash != parse_key(key).config_hash:
        raise Reject("sealed identity does not give the config hash of its key")


def _encode_head(header: Header) -> bytes:
    text = _encode_header(header)
    if len(text) > MAX_HEADER:
        raise Reject(f"header of {len(text)} bytes, the cap is {MAX_HEADER}: too many files")
    promise = b"warmcore-sealed/%d %d" % (VERSION, len(text))
    return promise + b" " + _header_digest(promise, text) + b"\n" + text


def _encode_header(header: Header) -> bytes:
    return msgspec.json.format(msgspec.json.encode(header, order="deterministic"), indent=1) + b"\n"


def _header_digest(promise: bytes, text: bytes) -> bytes:
    return hashlib.sha256(promise + b"\n" + text).hexdigest().encode()
