#!/usr/bin/env python3
"""Fails where a program for Windows moves a vector of 32 or 64 bytes as if its address were aligned.

    check_stack_moves.py PROGRAM…

Windows aligns the stack to 16 bytes, and GCC does not align it further there. A vmovaps of a whole AVX
register to the stack ends the program, at random. The assembler's -muse-unaligned-vector-move turns
such moves into unaligned ones; this script reads the machine code to see that none is left. Streaming
moves (vmovntps and the like) need alignment, too, but they never go to the stack: they are reported
where their address is relative to rsp or rbp.
"""
import re
import subprocess
import sys

ALIGNED = re.compile(r"\bvmov(?:ap[sd]|dqa(?:32|64)?)\b(?=.*%[yz]mm)(?=.*\()")
STREAMING = re.compile(r"\bvmovnt(?:p[sd]|dqa?)\b(?=.*%[yz]mm)(?=.*\(%r[sb]p)")
WIDE = re.compile(r"\bv\w+\b.*%[yz]mm")


def faults(program):
    """Lines of aligned moves, and the number of instructions on wide vectors that were read."""
    listing = subprocess.run(["x86_64-w64-mingw32-objdump", "-d", "--no-show-raw-insn", program],
                             stdout=subprocess.PIPE, text=True, check=True).stdout
    found, num_wide = [], 0
    for line in listing.splitlines():
        if "mm" not in line:
            continue
        num_wide += bool(WIDE.search(line))
        if ALIGNED.search(line) or STREAMING.search(line):
            found.append(line.strip())
    return found, num_wide


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    status = 0
    for program in sys.argv[1:]:
        found, num_wide = faults(program)
        for line in found[:20]:
            print(f"{program}: {line}")
        if found or num_wide == 0:  # a program without wide vectors is none of ours
            status = 1
        print(f"{program}: {num_wide} instructions on wide vectors, {len(found)} moves that need alignment")
    sys.exit(status)


if __name__ == "__main__":
    main()
