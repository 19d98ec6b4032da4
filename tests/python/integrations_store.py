"""The store that tests of tools/python/lectern/integrations ask: two documents, one with pages,
read once for all cases of a test. Where LECTERN_LIBRARY is set, the package of the source tree is
tested, else the one that is installed; LECTERN_TEST_MODEL: the bundled reader."""
import os
import pathlib
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = SOURCE / "tools/python"
# Also for the processes that tests start.
os.environ["LECTERN_MODEL"] = os.environ["LECTERN_TEST_MODEL"]
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
sys.dont_write_bytecode = True
if "LECTERN_LIBRARY" in os.environ:
    sys.path.insert(0, str(PACKAGE))
    os.environ["PYTHONPATH"] = str(PACKAGE)
sys.path.append(str(SOURCE / "tests/tools"))

import lectern  # noqa: E402
from make_pdf import make_pdf  # noqa: E402

TOWNS = ("Ünal has two boats. The Douquouth committee meets in Stuxwick. 😀 Ann sings songs. "
         "The owner repairs the roof before the winter.")
LEASE = [["The lease begins in May."], ["The owner pays for repairs to the roof."]]
QUESTION = "Where does the Douquouth committee meet?"
PASSAGE = "The Douquouth committee meets in Stuxwick."
# An answer that goes on until it is cancelled, or has 3,000 tokens: the end has no chance.
ENDLESS = {"logit_bias": {2: -100.0}, "temperature": 2.0}

_folder = tempfile.TemporaryDirectory()
WORK = pathlib.Path(_folder.name)
STORE = WORK / "store"
os.environ["LECTERN_STORE"] = str(STORE)
store = lectern.Store(STORE)
TOWNS_ID = store.index_text(TOWNS, name="towns").document
(WORK / "lease.pdf").write_bytes(make_pdf(LEASE))
LEASE_ID = store.index(WORK / "lease.pdf").document


def command(module):
    """The command line of a module of the integrations."""
    return [sys.executable, "-m", f"lectern.integrations.{module}"]
