"""python -m lectern: the command `lectern`."""
import sys

from ._command import main

sys.exit(main())
