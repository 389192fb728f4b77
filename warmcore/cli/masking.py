"""What of a plugin's config may be shown: no secret, and nothing that is named like one and not typed otherwise."""

import re
from collections.abc import Mapping
from pathlib import Path

from warmcore.settings import Duration, Secret, Size, bare
from warmcore.settings import masked as without_credentials

MASK = "***"

_SAFE = (bool, int, Duration, Path, Size)
_SECRET_NAME = re.compile(
    r"api_?key|authoriz|bearer|cookie|credential|passphrase|passw|secret|token|key$"
    r"|(^|[^a-z])(auth|dsn|keys?|pass|pin|pwd|sas)([^a-z]|$)",
    re.IGNORECASE,
)


def masked(key: str, found: object, annotation: object) -> object:
    """Return a config value as it may be shown; `annotation` is `str` where the plugin can't be asked."""
    if found is None or bare(annotation) in _SAFE:
        return found
    return _reference(found) if bare(annotation) is Secret else _without_secrets(key, found)


def _without_secrets(key: str, found: object) -> object:
    if _SECRET_NAME.search(key):
        return _reference(found)
    if isinstance(found, Mapping):
        return {name: _without_secrets(name, each) for name, each in found.items()}
    if isinstance(found, list):
        return [_without_secrets(key, each) for each in found]
    return without_credentials(found) if isinstance(found, str) else found


def _reference(found: object) -> str:
    """Name the file or variable that a secret is read from; nothing of a literal."""
    if isinstance(found, Mapping) and len(found) == 1:
        source, name = next(iter(found.items()))
        if source in ("file", "env") and isinstance(name, str):
            return f"{MASK} ({source} {name})"
    return MASK
