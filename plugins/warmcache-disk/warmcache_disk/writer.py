"""Who is writing a temporary file, in its name, so that a sweep can tell a dead writer's from a living one's."""

import os
import re
import secrets
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

MAX_AGE = 3600
UNKNOWN = "unknown"

_NAME = re.compile(r"\.draft-([0-9a-f]{32}|unknown)-(\d{1,20})-(\d{1,7})-(\d{1,20})-(\d{1,12})-[0-9a-f]{16}")


@cache
def boot_id() -> str:
    """Return the id of this boot of this host, or "unknown" where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    except OSError:
        return UNKNOWN


class Writer(NamedTuple):
    """A process, and when it began a file (Unix seconds).

    `space` is its pid namespace, `started` its start in clock ticks since boot; 0 stands for not known.
    """

    boot: str
    space: int
    pid: int
    started: int
    created: int

    @classmethod
    def me(cls) -> "Writer":
        # Asked anew each time: after a fork it is another process.
        status = _status("self")
        return cls(boot_id(), _space(), os.getpid(), status.started if status else 0, int(time.time()))

    @classmethod
    def of(cls, name: str) -> "Writer | None":
        """Read a file's name; None unless it is exactly as `new_name` makes it."""
        match = _NAME.fullmatch(name)
        return cls(match[1], *map(int, match.groups()[1:])) if match else None

    def new_name(self) -> str:
        return f".draft-{self.boot}-{self.space}-{self.pid}-{self.started}-{self.created}-{secrets.token_hex(8)}"

    def gone(self) -> bool:
        """Whether its file may be removed: older than an hour by its name, or the writer is known to be dead."""
        return self.created < time.time() - MAX_AGE or self._dead()

    def _dead(self) -> bool:
        if self.boot == UNKNOWN or self.space == 0 or (self.boot, self.space) != (boot_id(), _space()):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # another user's: it is there, whatever /proc shows of it
        status = _status(str(self.pid))
        return status is not None and (status.ended or self.started not in (0, status.started))


class _Status(NamedTuple):
    ended: bool
    started: int


def _status(pid: str) -> _Status | None:
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None  # /proc shows another pid namespace than ours
        text = Path("/proc", pid, "stat").read_bytes()
    except OSError:
        return None
    state, *fields = text[text.rindex(b")") + 2 :].split()
    # A process whose first thread has ended is alive while others run.
    return _Status(state in (b"Z", b"X") and int(fields[16]) <= 1, int(fields[18]))


def _space() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
