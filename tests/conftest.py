"""What all tests of the core share: nothing of whoever runs them, and no clock on a slow example."""

import os
from collections.abc import Iterator

import hypothesis
import pytest

# Two shared cores: how long an example takes says nothing.
hypothesis.settings.register_profile("warmcore", deadline=None)
hypothesis.settings.load_profile("warmcore")


@pytest.fixture(autouse=True, scope="session")
def _no_home_and_no_settings_of_mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        for name in [name for name in os.environ if name.startswith(("WARMCORE_", "XDG_"))]:
            patch.delenv(name)
        yield
