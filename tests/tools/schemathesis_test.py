#!/usr/bin/env python3
"""The server against its own description: cases that schemathesis (PyPI) makes of /openapi.json.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
"""

import os
import re
import subprocess
import sys
import tempfile

from server_test import BIN, MODEL, TEXT, Server

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = 320  # of each operation, good and bad
CASES = 5000
# No claims of ours: which fields go together, and how messages follow each other, is said in words;
# the id of a job is none of a document, and a job that was cancelled can still be read.
UNCHECKED = "positive_data_acceptance,ensure_resource_availability,use_after_free"

# Beside schemathesis' own: what is too long is refused before it is understood.
CONFIG = """[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "413", "414", "415", "431"]
"""


def main():
    with tempfile.TemporaryDirectory(prefix="lectern-schemathesis-") as folder:
        store = os.path.join(folder, "store")
        subprocess.run([os.path.join(BIN, "index-document"), "--store", store, "--model", MODEL,
                        "--name", "lease.txt", "--progress", "none", "-"],
                       input=TEXT.encode(), check=True, capture_output=True)
        with open(os.path.join(folder, "schemathesis.toml"), "w", encoding="utf-8") as file:
            file.write(CONFIG)
        server = Server(store, "--model", MODEL, "--allow-index")
        run = subprocess.Popen(
            [os.path.join(os.path.dirname(sys.executable), "schemathesis"), "run",
             f"http://127.0.0.1:{server.port}/openapi.json", "--max-examples", str(EXAMPLES),
             "--seed", "1", "--exclude-checks", UNCHECKED, "--continue-on-failure", "--no-color",
             "--request-timeout", "60"],
            env={**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": HERE},
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output = run.communicate()[0]
        code, _, errors = server.stop()
    print(output)
    cases = int((re.search(r"(\d+) generated", output) or ["", "0"])[1])
    print(f"{cases} cases; schemathesis ended with {run.returncode}, the server with {code} {errors}")
    return 0 if cases >= CASES and run.returncode == 0 and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
