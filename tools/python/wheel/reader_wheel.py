"""Writes the wheel lectern_reader: the adapter of the released reader, 9 MB for which the wheel
lectern has no room. It puts the files where the tools look for them, beside the bundled reader.

reader_wheel.py VERSION ADAPTER LICENCE OUT"""
from __future__ import annotations

import base64
import hashlib
import pathlib
import sys
import zipfile


def main(version: str, adapter: pathlib.Path, licence: pathlib.Path, out: pathlib.Path) -> None:
    info = f"lectern_reader-{version}.dist-info"
    files = {f"lectern/share/lectern/adapter/{file.name}": file.read_bytes()
             for file in sorted(adapter.iterdir())}
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.4\nName: lectern-reader\nVersion: {version}\n"
        "Summary: The adapter of Lectern's default reader\nLicense-Expression: Apache-2.0\n"
        f"License-File: LICENSE\nRequires-Dist: lectern=={version}\n").encode()
    files[f"{info}/licenses/LICENSE"] = licence.read_bytes()
    files[f"{info}/WHEEL"] = (b"Wheel-Version: 1.0\nGenerator: lectern\nRoot-Is-Purelib: true\n"
                              b"Tag: py3-none-any\n")
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    with zipfile.ZipFile(out / f"lectern_reader-{version}-py3-none-any.whl", "w",
                         zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main(sys.argv[1], *map(pathlib.Path, sys.argv[2:]))
