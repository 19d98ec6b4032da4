#!/usr/bin/env python3
"""Peak memory of the tools under --max-ram: tests/memory.py DOCUMENT.txt [BIN]

Indexes the document and asks it under falling limits, each in a process of its own, with files
mapped and read. Prints what the process took at its peak (ru_maxrss) beyond what it takes to print
its version; exits 1 where that is more than the limit and SLACK, or where something else than too
little memory goes wrong. Standard library only.
"""

import os
import subprocess
import sys
import tempfile

MIB = 1 << 20
# Libraries and what they allocate (OpenBLAS, FAISS, SQLite), stacks, what the allocator keeps.
SLACK = 16 * MIB
LIMITS = [None, 128, 64, 48, 32, 24, 16]  # MiB


def run(*command):
    """Exit status, peak of resident memory in bytes, and the errors that were printed."""
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return child.returncode, usage.ru_maxrss * 1024, errors.read().decode()


def main(document, folder):
    ask, index = (os.path.join(folder, tool) for tool in ("ask-document", "index-document"))
    failed = False
    with tempfile.TemporaryDirectory(prefix="lectern-memory-") as store:
        flags = ("--store", store, "--threads", "2")
        asks = [(f"ask {budget} {io}", (ask, *flags, "--io", io, "--kv-budget", budget,
                                        "--max-tokens", "8", "Who designed the bridge?"))
                for budget in ("0.1", "1") for io in ("mmap", "pread")]
        for name, command in [("index", (index, *flags, "--again", "--yes", document)), *asks]:
            own = run(command[0], "--version")[1]
            for limit in LIMITS:
                options = () if limit is None else ("--max-ram", f"{limit}MiB")
                status, peak, errors = run(*command, *options)
                taken = max(0, peak - own)
                print(f"{name:16} limit {'none' if limit is None else f'{limit} MiB':8} "
                      f"peak {taken / MIB:6.1f} MiB  exit {status}", flush=True)
                if limit is not None and taken > limit * MIB + SLACK:
                    failed = True
                    print(f"  more than the limit and {SLACK // MIB} MiB")
                if status != 0:
                    if status != 5 or "max_ram" not in errors:
                        failed = True
                    print("  " + errors.strip().splitlines()[-1])
                    break
    return failed


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "build-release/tools"))
