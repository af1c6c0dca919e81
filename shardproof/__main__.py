"""`python -m shardproof`."""

import sys

from shardproof.cli import main

sys.exit(main())
