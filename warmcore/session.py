"""What an engine calls: open a session, start the engine process through it. It never raises for a fault of ours."""

import logging
import os
import re
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from warmcore.assembly import Assembly, assemble
from warmcore.chain import Chain
from warmcore.config import Config, is_disabled, load_config
from warmcore.contracts import Context
from warmcore.errors import ConfigError, PluginError, StoreError, reason_of
from warmcore.notes import write_whole
from warmcore.plugins import Store
from warmcore.report import Events, Report
from warmcore.start import Start
from warmcore.threads import start_daemon
from warmcore.warmups import distinct

log = logging.getLogger("warmcore")

MAX_REPORTS = 100
CLOSE_SECONDS = 0.5

_REPORT = re.compile(r"\d{15}-[0-9a-f]{12}\.json")


class Session:
    """The engine's side of warmcore.

    `config` is a path, a mapping, a loaded Config, or None for WARMCORE_CONFIG or ./warmcore.toml. With a bad config
    the session is off and says so in one ERROR line, unless the config says `strict = true`: then it raises ConfigError
    or PluginError.
    """

    def __init__(self, config: Config | Path | str | Mapping[str, Any] | None = None) -> None:
        self.off: str | None = None
        self.config = Config()
        self._made = Assembly()
        self._closed = False
        self._missed: dict[tuple[str, str], float] = {}
        try:
            self.config = _loaded(config)
            self.off = _nothing_to_do(self.config)
            if self.off is None:
                self._made = assemble(self.config)
                self._notice()
        except (ConfigError, PluginError) as error:
            if error.strict or self.config.strict:
                raise
            self._switch_off(str(error))
        except Exception as error:  # noqa: BLE001  # promise P1: whatever went wrong, the engine starts
            self._switch_off(reason_of(error))

    def start(self, context: Context) -> Report:
        """Adopt, warm up and publish all kinds for one engine process; raises only what its own warm-up raises."""
        policy = self.config.policy
        report = Report(policy.namespace, self._off_for(context), list(self._made.problems))
        chain = Chain(self._made.stores, Events(self._made.listeners), policy.namespace, _spill_folder(policy.reports))
        chain.missed = self._missed
        if report.off is not None:
            _warm_up_alone(context)
            return report
        try:
            return Start(chain, self._made.caches, policy, context, report).run()
        finally:
            _write(report, policy.reports)

    def close(self) -> None:
        """Let the stores go; those that do not answer are left behind after 0.5 s in all."""
        if self._closed:
            return
        self._closed = True
        end = time.monotonic() + CLOSE_SECONDS
        try:
            threads = [start_daemon(partial(_close, store)) for store in self._made.stores]
        except StoreError as error:
            log.debug("not all stores were closed: %s", error)
            return
        for thread in threads:
            thread.join(timeout=max(end - time.monotonic(), 0.0))

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _notice(self) -> None:
        for problem in self._made.problems:
            log.error("%s", problem)
        if self.config.strict and self._made.problems:
            raise PluginError("; ".join(self._made.problems))
        if not any(store.shared and store.mode == "read-write" for store in self._made.stores):
            log.info("no shared store may be written: what is warmed here stays on this host")

    def _switch_off(self, reason: str) -> None:
        self.off = reason
        log.error("warmcore is off: %s", reason)

    def _off_for(self, context: Context) -> str | None:
        if self.off is not None or context.group is None:
            return self.off
        try:
            size = context.group.size
        except Exception as error:  # noqa: BLE001  # an engine's own class
            return f"the group can't be asked for its size: {reason_of(error)}"
        return f"{size} ranks must decide together, and this warmcore decides for one rank only" if size > 1 else None


def _loaded(config: Config | Path | str | Mapping[str, Any] | None) -> Config:
    if isinstance(config, Config):
        return Config(disabled=True) if is_disabled() else config
    return load_config(Path(config) if isinstance(config, str) else config)


def _close(store: Store) -> None:
    try:
        store.close()
    except BaseException as error:  # noqa: BLE001  # closing is a courtesy
        log.debug("store %s did not close: %s", store.name, reason_of(error))


def _nothing_to_do(config: Config) -> str | None:
    if config.disabled:
        return "WARMCORE_DISABLE is set"
    return (
        None
        if config.caches
        else 'no cache is switched on: add caches = ["..."] to the config (see `warmcore list-plugins`)'
    )


def _warm_up_alone(context: Context) -> None:
    for warm_up in distinct(context.warm_ups.values()):
        warm_up()


def _write(report: Report, folder: Path | None) -> None:
    try:
        folder = folder or report_folder()
        path = folder / f"{int(report.at * 1000):015d}-{report.id}.json"
        write_whole(path, report.to_json().encode())
        report.path = path
        for old in sorted(name for name in os.listdir(folder) if _REPORT.fullmatch(name))[:-MAX_REPORTS]:
            (folder / old).unlink(missing_ok=True)
    except Exception as error:  # noqa: BLE001  # promise P1
        log.warning("no report was written: %s", reason_of(error))


def report_folder() -> Path:
    """Return the default folder of the JSON reports; StoreError where there is no home."""
    cache = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")
    if not os.path.isabs(cache):
        raise StoreError("no home folder: set HOME, XDG_CACHE_HOME or [policy] reports")
    return Path(cache) / "warmcore" / "reports"


def _spill_folder(reports: Path | None) -> Path | None:
    """Return where a large artifact may spill if TMPDIR can't take it: beside the reports."""
    try:
        folder = reports or report_folder()
        return folder if folder.is_dir() else None
    except (StoreError, OSError):
        return None
