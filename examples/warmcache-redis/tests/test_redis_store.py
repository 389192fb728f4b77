"""RedisStore keeps every rule of the kit, on a real server of its own."""

import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from warmcache_redis import PREFIX, RedisStore

from warmcore import Secret, StoreError
from warmcore.testing import FakeEngine, StoreTests, get_bytes, open_store, stored_key

pytest_plugins = ["warmcore.testing.fixtures"]

PASSWORD = secrets.token_hex(16)


@pytest.fixture(scope="session")
def socket() -> Iterator[Path]:
    """Start a server that only this test run can reach; yield its socket."""
    if not shutil.which("redis-server"):
        pytest.fail("redis-server is not installed: apt-get install redis-server")
    # A socket's path must be short, so not in pytest's own folder.
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        path = Path(folder) / "redis.sock"
        command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--dir", folder, "--save", ""]
        server = subprocess.Popen([*command, "--requirepass", PASSWORD], stdout=subprocess.DEVNULL)
        try:
            while not path.exists() and server.poll() is None:
                time.sleep(0.01)
            yield path
        finally:
            server.terminate()
            server.wait()


@pytest.fixture
def client(socket: Path) -> Iterator[Any]:
    """Yield a way past the store, to a server that is empty again."""
    with redis.Redis(unix_socket_path=str(socket), password=PASSWORD) as client:
        client.flushall()
        yield client


class Behind:
    """What lies in the server, reached past the store."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def read(self, key: str) -> bytes | None:
        found: bytes | None = self._client.hget(PREFIX + key, "bytes")
        return found

    def write(self, key: str, data: bytes) -> None:
        self._client.hset(PREFIX + key, "bytes", data)


class TestRedisStore(StoreTests):
    @pytest.fixture
    def opened(self, socket: Path, client: Any) -> Callable[[], RedisStore]:
        return lambda: RedisStore(socket=socket, password=Secret(lambda: PASSWORD))

    @pytest.fixture
    def store(self, opened: Callable[[], RedisStore]) -> RedisStore:
        return opened()

    @pytest.fixture
    def reopen(self, opened: Callable[[], RedisStore]) -> Callable[[], RedisStore]:
        return opened

    @pytest.fixture
    def raw(self, client: Any) -> Behind:
        return Behind(client)

    @pytest.fixture
    def unreachable(self, tmp_path: Path) -> RedisStore:
        return RedisStore(socket=tmp_path / "nobody")


def test_two_engines_share_it_through_a_config(
    warmcore_engine: FakeEngine, socket: Path, client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLEET_PASSWORD", PASSWORD)
    stores = {"fleet": {"plugin": "redis", "socket": str(socket), "password": {"env": "FLEET_PASSWORD"}}}
    warmcore_engine.start(stores)
    second = FakeEngine(tmp_path / "second")
    report = second.start(stores)
    assert (report.problems, second.made, report.kinds[0].store) == ([], [], "fleet")


def test_a_wrong_password_is_an_error_that_does_not_tell_it(socket: Path) -> None:
    store = open_store(RedisStore(socket=socket, password=Secret(lambda: "guessed-wrong")))
    with pytest.raises(StoreError, match="AuthenticationError") as raised:
        get_bytes(store, stored_key())
    assert "guessed-wrong" not in f"{raised.value} {raised.value.__cause__!r} {store.plugin!r}"


def test_the_client_is_imported_by_the_first_call_and_no_sooner() -> None:
    program = "import sys, warmcache_redis; warmcache_redis.RedisStore(); sys.exit('redis' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
