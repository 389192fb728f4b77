"""GPU inference engines should never warm up twice: their artifacts, carried between processes, replicas and clusters.

Everything public is named here and loaded when first touched, so that `import warmcore` costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warmcore.artifact import Header as Header
    from warmcore.blob import Blob as Blob
    from warmcore.blob import Origin as Origin
    from warmcore.blob import Payload as Payload
    from warmcore.config import Config as Config
    from warmcore.config import load_config as load_config
    from warmcore.contracts import Context as Context
    from warmcore.contracts import Entry as Entry
    from warmcore.contracts import Expect as Expect
    from warmcore.contracts import Fence as Fence
    from warmcore.contracts import Fingerprint as Fingerprint
    from warmcore.contracts import Group as Group
    from warmcore.contracts import Held as Held
    from warmcore.contracts import Lease as Lease
    from warmcore.contracts import NotApplicable as NotApplicable
    from warmcore.contracts import Sink as Sink
    from warmcore.contracts import Source as Source
    from warmcore.contracts import Undo as Undo
    from warmcore.contracts import Usage as Usage
    from warmcore.errors import CacheError as CacheError
    from warmcore.errors import ConfigError as ConfigError
    from warmcore.errors import DeadlineExceeded as DeadlineExceeded
    from warmcore.errors import IdentityError as IdentityError
    from warmcore.errors import PluginError as PluginError
    from warmcore.errors import Reject as Reject
    from warmcore.errors import StoreError as StoreError
    from warmcore.errors import WarmcoreError as WarmcoreError
    from warmcore.hookspecs import hookimpl as hookimpl
    from warmcore.identity import Difference as Difference
    from warmcore.identity import Identity as Identity
    from warmcore.identity import Place as Place
    from warmcore.identity import Request as Request
    from warmcore.identity import config_hash as config_hash
    from warmcore.identity import diff as diff
    from warmcore.notes import Note as Note
    from warmcore.notes import read_note as read_note
    from warmcore.notes import write_note as write_note
    from warmcore.notes import write_whole as write_whole
    from warmcore.plugins import Store as Store
    from warmcore.report import Event as Event
    from warmcore.report import Report as Report
    from warmcore.session import Session as Session
    from warmcore.settings import Duration as Duration
    from warmcore.settings import Secret as Secret
    from warmcore.settings import Size as Size
    from warmcore.streams import BlobSource as BlobSource

_HOMES = {
    "artifact": ("Header",),
    "blob": ("Blob", "Origin", "Payload"),
    "streams": ("BlobSource",),
    "config": ("Config", "load_config"),
    "contracts": (
        "Context",
        "Entry",
        "Expect",
        "Fence",
        "Fingerprint",
        "Group",
        "Held",
        "Lease",
        "NotApplicable",
        "Sink",
        "Source",
        "Undo",
        "Usage",
    ),
    "errors": (
        "CacheError",
        "ConfigError",
        "DeadlineExceeded",
        "IdentityError",
        "PluginError",
        "Reject",
        "StoreError",
        "WarmcoreError",
    ),
    "hookspecs": ("hookimpl",),
    "identity": ("Difference", "Identity", "Place", "Request", "config_hash", "diff"),
    "notes": ("Note", "read_note", "write_note", "write_whole"),
    "plugins": ("Store",),
    "report": ("Event", "Report"),
    "session": ("Session",),
    "settings": ("Duration", "Secret", "Size"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605  # a list
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'warmcore' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"warmcore.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
