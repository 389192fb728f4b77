"""`python -m warmcore` is the `warmcore` command."""

import sys

from warmcore.cli import main

sys.exit(main())
