"""An inspected artifact, as lines for people and as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from warmcore.artifact import Header
from warmcore.cli.common import amount, table, value, when
from warmcore.cli.examine import Examined


@dataclass(frozen=True)
class Inspected:
    """One object of a store, what it turned out to be, and what the plugin of its kind tells of its content."""

    key: str
    store: str
    found: Examined
    rows: Sequence[dict[str, str]] = ()

    def lines(self) -> list[str]:
        found, header = self.found, self.found.header
        state = f"{found.state}{': ' if found.reason else ''}{found.reason}"
        facts = {"key": self.key, "store": self.store, "state": state, "size": f"{amount(found.size)} sealed"}
        return [*_facts(facts), *(_header(header) if header else []), *_content(self.rows)]

    def plain(self) -> dict[str, object]:
        found = self.found
        return {
            "key": self.key,
            "store": self.store,
            "state": found.state,
            "reason": found.reason,
            "size": found.size,
            "header": msgspec.to_builtins(found.header) if found.header else None,
            "content": list(self.rows),
        }


def _header(header: Header) -> list[str]:
    facts = {
        "namespace": header.namespace,
        "created": when(header.created),
        "expires": when(header.expires),
        "generation": header.generation,
        "cost": "unknown" if header.cost_seconds is None else f"{header.cost_seconds:.2f} s of warm-up",
        "digest": header.body_sha256,
        "signature": "none" if header.signature is None else "there, not checked by this version",
    }
    factors = [(name, value(each)) for name, each in header.identity.items()]
    files = [(file.name, f"{file.size:,}", file.sha256) for file in header.files]
    return [
        *_facts(facts),
        *_facts({"identity": f"{len(factors)} factors"}),
        *table(("factor", "value"), factors, "  "),
        *_facts({"files": f"{len(files)}, {amount(header.body_size)}"}),
        *table(("name", "bytes", "sha256"), files, "  "),
    ]


def _content(rows: Sequence[dict[str, str]]) -> list[str]:
    heads = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(head, "") for head in heads] for row in rows]
    return [*_facts({"content": f"{len(rows)} rows"}), *table(heads, cells, "  ")] if rows else []


def _facts(facts: dict[str, str]) -> list[str]:
    return [f"{fact:<11} {text}" for fact, text in facts.items()]
