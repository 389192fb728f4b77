"""Hostile frames cost little memory and time, whatever they claim to hold."""

import json
import subprocess
import sys
from pathlib import Path

from zstd_attacks import ATTACKS, TIMEOUT

MOST_MEMORY = 64 << 20


def test_each_attack_is_refused_in_little_memory_and_time() -> None:
    program = Path(__file__).with_name("zstd_attacks.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    ended = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in ended] == list(ATTACKS)
    assert not [attack for attack in ended if attack[1] == "read"]
    assert not [attack for attack in ended if attack[2] > TIMEOUT + 0.5]
    assert not [attack for attack in ended if attack[3] > MOST_MEMORY]
