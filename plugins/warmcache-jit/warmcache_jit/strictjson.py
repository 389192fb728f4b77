"""JSON from outside, read strictly."""

import json
import math
from typing import Any, NoReturn

from warmcore import Reject


def strict_json(data: bytes, what: str) -> Any:
    """Parse UTF-8 JSON of a capped size; Reject on a duplicate key, NaN, an infinity, or too great a depth."""
    try:
        return json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise Reject(f"{what} is not strict JSON: {str(error) or type(error).__name__:.120}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text:.40} is not finite")
    return value
