"""A warmcore store in a Redis server: each artifact is one hash, with the fields `version` and `bytes`."""

import re
import secrets
from functools import cached_property
from pathlib import Path
from typing import Any

from warmcore import Duration, Entry, Expect, Fence, Secret, Sink, Source, StoreError, hookimpl

PREFIX = "warmcore:"
CHUNK = 1 << 20
ONE_SECOND = Duration(1)

# A script runs alone: no other client comes between the comparison and what follows it.
UNLESS_EXPECTED = """
local stands = redis.call('HGET', KEYS[1], 'version')
if ARGV[1] == 'absent' and stands or ARGV[1] == 'version' and stands ~= ARGV[2] then return 0 end
"""
PUT = UNLESS_EXPECTED + "redis.call('HSET', KEYS[1], 'version', ARGV[3], 'bytes', ARGV[4]) return 1"
DELETE = UNLESS_EXPECTED + "return redis.call('DEL', KEYS[1])"


class RedisStore:
    """Keep sealed artifacts in one Redis server, reached by `socket`, or else by `host` and `port`.

    `patience` bounds each wait for the server; keep it below the store's `timeout`.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 6379,
        socket: Path | None = None,
        password: Secret | None = None,
        tls: bool = False,
        patience: Duration = ONE_SECOND,
    ) -> None:
        self._where: dict[str, Any] = {"unix_socket_path": str(socket)} if socket else {"host": host, "port": port}
        self._password = password
        self._where |= {"ssl": tls, "socket_timeout": patience, "socket_connect_timeout": patience}

    @cached_property
    def _client(self) -> Any:  # its own types allow for futures and text, which it does not return here
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        # No retry: a put whose answer was lost may have been done, and a second one would find its own version.
        password = self._password.reveal() if self._password else None
        return Redis(**self._where, password=password, retry=Retry(NoBackoff(), 0))

    @hookimpl
    def store_get(self, key: str, sink: Sink, fresh: bool) -> str | None:  # noqa: ARG002  # one kind of read
        version, data = self._client.hmget(PREFIX + key, "version", "bytes")
        if version is None:
            return None
        for start in range(0, len(data), CHUNK):
            sink.write(data[start : start + CHUNK])
        return bytes(version).decode()

    @hookimpl
    def store_put(self, key: str, source: Source, expect: Expect | str, fence: Fence | None) -> bool:  # noqa: ARG002  # not ours
        data = b"".join(iter(lambda: source.read(CHUNK), b""))
        if len(data) != source.size:
            raise StoreError(f"the source gave {len(data)} bytes, it promised {source.size}: nothing was stored")
        return self._run(PUT, key, expect, secrets.token_hex(8), data)

    @hookimpl
    def store_list(self, prefix: str) -> list[Entry]:
        pattern = PREFIX + re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + "*"
        # A scan may tell a key twice.
        keys = sorted(set(self._client.scan_iter(match=pattern, count=1000, _type="hash")))
        with self._client.pipeline() as pipeline:
            for key in keys:
                pipeline.hget(key, "version")
                pipeline.hstrlen(key, "bytes")
            answers = pipeline.execute()
        found = zip(keys, answers[::2], answers[1::2], strict=True)
        return [Entry(key.decode()[len(PREFIX) :], version.decode(), size) for key, version, size in found if version]

    @hookimpl
    def store_delete(self, key: str, expect: Expect | str) -> bool:
        return self._run(DELETE, key, expect)

    @hookimpl
    def store_close(self) -> None:
        if "_client" in vars(self):
            self._client.close()

    def _run(self, script: str, key: str, expect: Expect | str, *values: str | bytes) -> bool:
        what, version = (expect.value, "") if isinstance(expect, Expect) else ("version", expect)
        return bool(self._client.register_script(script)(keys=[PREFIX + key], args=[what, version, *values]))
