"""What can go wrong, in one file.

A miss is None, never an error; a message says what was found, what was expected, what to do.
"""


class WarmcoreError(Exception):
    """Base of all errors raised on purpose. `strict`: the config asked for its mistakes to stop the engine."""

    strict = False


class ConfigError(WarmcoreError):
    """A mistake in the config or in an environment override; names its place and its remedy."""


class PluginError(WarmcoreError):
    """A plugin that can't be used: broken at import, short of a hook, made for another core; names the plugin."""


class IdentityError(WarmcoreError, ValueError):
    """A factor, a place or a hash that can't stand in an identity or a key."""


class StoreError(WarmcoreError):
    """Trouble in a store: not a miss, and not the artifact's fault."""


class DeadlineExceeded(StoreError):
    """A store call ran past its time."""


class CacheError(WarmcoreError):
    """A cache could not collect, install or warm; nothing of it is left half done."""


class Reject(WarmcoreError):
    """Bytes that are not fit to install.

    `replaceable` is False when they are good for somebody else (a definite other environment): a publish leaves them
    alone. A store that wraps another and rejects what it reads gives their `version`, so that just they are replaced.
    """

    replaceable = True
    version: str | None = None

    def __init__(self, reason: str, *, replaceable: bool = True, version: str | None = None) -> None:
        super().__init__(reason)
        self.replaceable = replaceable
        self.version = version

    @property
    def reason(self) -> str:
        return reason_of(self)


class FutureVersion(Reject):
    """A sealed form newer than this core reads: counts as a miss and is never replaced."""

    def __init__(self, version: int, known: int) -> None:
        super().__init__(
            f"sealed form version {version}, this warmcore reads {known}: update warmcore to use it", replaceable=False
        )


def reason_of(error: BaseException) -> str:
    """Return what an error says on one line, at most 300 characters: one of ours as it is, any other with its type."""
    try:
        text = " ".join(str(error).split())[:300]
    except BaseException:  # noqa: BLE001  # a plugin's own class, broken too
        text = ""
    name = type(error).__name__
    if isinstance(error, WarmcoreError):
        return text or name
    return f"{name}: {text}" if text else name
