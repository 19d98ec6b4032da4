"""The licences of what is in the wheel.

licences.py collect PACKAGE LIBRARIES OUT   for each library that the files in PACKAGE need, the
                                            copyright file of its Debian package goes to OUT, and
                                            the table of libraries to OUT/libraries.txt; LIBRARIES
                                            has those that this project builds in place of Debian's
licences.py check WHEEL                     prints every file of machine code with its package and
                                            licence; exits 1 where one has none
"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]
# Packages whose code is inside of ours; what is built in place of Debian's libraries has its own.
INSIDE = ["libfaiss-dev", "libhwy-dev", "nlohmann-json3-dev", "libcli11-dev"]
OWN = {"libblas.so.3": ["libeigen3-dev", "liblapack-dev"],
       "liblapack.so.3": ["liblapack-dev"], "libicuuc.so.72": ["lectern"],
       "libpoppler-glib.so.8": ["lectern"]}
# Libraries that every Linux system has: glibc, GCC's, and zlib.
OF_THE_SYSTEM = re.compile(r"(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|z)\.so)")


def package_of(path: str) -> str:
    """The Debian package of a file; folders of /usr may be named without it."""
    real = os.path.realpath(path)
    for name in (real, real.removeprefix("/usr"), path, path.removeprefix("/usr")):
        found = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    sys.exit(f"licences.py: {path} belongs to no Debian package")


def collect(package: pathlib.Path, libraries: pathlib.Path, out: pathlib.Path) -> None:
    table: dict[str, list[str]] = {}
    for file in sorted(package.rglob("*")):
        if not is_code(file):
            continue
        linked = subprocess.run(["ldd", file], check=True, capture_output=True, text=True,
                                env={**os.environ, "LD_LIBRARY_PATH": str(libraries)}).stdout
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", linked, re.M):
            if name in OWN:
                table[name] = OWN[name]
            elif not OF_THE_SYSTEM.match(name):
                real = path if not path.startswith(str(package)) else \
                    f"/usr/lib/x86_64-linux-gnu/{name}"
                table[name] = [package_of(real)]
    for one in sorted({one for all_ in table.values() for one in all_} | set(INSIDE)):
        if one != "lectern":
            shutil.copy(f"/usr/share/doc/{one}/copyright", out / f"{one}.txt")
    shutil.copy(libraries.parent / "sentencepiece/share/doc/sentencepiece/copyright",
                out / "sentencepiece.txt")
    shutil.copy(SOURCE / "LICENSE", out / "lectern.txt")
    (out / "libraries.txt").write_text("".join(
        f"{name} {' '.join(packages)}\n" for name, packages in sorted(table.items())))


def is_code(file: pathlib.Path) -> bool:
    return file.is_file() and file.open("rb").read(4) == b"\x7fELF"


def check(wheel: str) -> int:
    failed = 0
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        licences = {pathlib.PurePath(name).stem: name for name in names
                    if ".dist-info/licenses/" in name}
        table = {}
        if "libraries" in licences:
            lines = archive.read(licences["libraries"]).decode().splitlines()
            table = {line.split()[0]: line.split()[1:] for line in lines}
        print(f"{pathlib.Path(wheel).name}: {os.path.getsize(wheel) / 1e6:.1f} MB")
        for info in sorted(archive.infolist(), key=lambda info: -info.compress_size):
            name = info.filename
            with archive.open(name) as file:
                code = file.read(4) == b"\x7fELF"
            if not code:
                if info.compress_size > 100_000:
                    print(f"  {info.compress_size / 1e6:6.2f} MB  {name}")
                continue
            base = re.sub(r"-[0-9a-f]{8}(?=[-.])", "", pathlib.PurePath(name).name)
            if re.match(r"lectern/(lib|bin|libexec/lectern)/[^/]+$", name):
                packages = ["lectern", *INSIDE, "sentencepiece"]
            else:
                packages = next((of for soname, of in table.items() if is_same(base, soname)), [])
            missing = [one for one in packages if one not in licences]
            if missing or not packages:
                failed = 1
            said = "NO LICENCE: " + " ".join(missing or [base]) if missing or not packages else \
                " ".join(packages)
            print(f"  {info.compress_size / 1e6:6.2f} MB  {name}  ({said})")
    return failed


def is_same(file: str, soname: str) -> bool:
    """auditwheel names a copy after the file, libsqlite3-0a1b2c3d.so.0.8.6, not the soname."""
    def stem(name: str) -> str:
        return re.sub(r"[-.][0-9.]*$", "", name.split(".so")[0])

    return stem(file) == stem(soname)


if __name__ == "__main__":
    if sys.argv[1:2] == ["collect"] and len(sys.argv) == 5:
        collect(*map(pathlib.Path, sys.argv[2:]))
    elif sys.argv[1:2] == ["check"] and len(sys.argv) == 3:
        sys.exit(check(sys.argv[2]))
    else:
        sys.exit(__doc__)
