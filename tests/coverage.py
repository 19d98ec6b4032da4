#!/usr/bin/env python3
"""Prints how much of source files was run, as rows of a table; clang's source-based coverage.

tests/coverage.py [--at-least LINES BRANCHES] PROFILE BINARY[,BINARY…] FILE…

Names of files are ends of paths ("store/bundle.cc"). Exits 1 where a percentage is below.
"""
import argparse
import json
import os
import subprocess
import sys


def summaries(profile, binaries):
    command = ["llvm-cov-14", "export", "-summary-only", f"-instr-profile={profile}", binaries[0]]
    for binary in binaries[1:]:
        command += ["-object", binary]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    files = json.loads(output)["data"][0]["files"]
    return {os.path.normpath(file["filename"]): file["summary"] for file in files}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--at-least", nargs=2, type=float, default=(0, 0))
    parser.add_argument("profile")
    parser.add_argument("binaries")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    found = summaries(args.profile, args.binaries.split(","))
    low = False
    for name in args.files:
        matches = [summary for path, summary in found.items() if path.endswith("/" + name)]
        if len(matches) != 1:
            sys.exit(f"coverage.py: {len(matches)} files end with {name}")
        lines, branches = matches[0]["lines"], matches[0]["branches"]
        low |= lines["percent"] < args.at_least[0] or branches["percent"] < args.at_least[1]
        print(f"| {name} | {lines['percent']:.1f} % of {lines['count']} lines "
              f"| {branches['percent']:.1f} % of {branches['count']} branches |")
    return int(low)


if __name__ == "__main__":
    sys.exit(main())
