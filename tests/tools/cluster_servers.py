"""Servers for the tests of lectern-batch, each in a folder of its own and on a free port.

PostgreSQL of Debian's postgresql-15 package or whichever newest version is installed, started by
initdb and pg_ctl as an unprivileged user; two S3 servers: moto (PyPI; PYTHON names the interpreter
that has it) and OpenStack Swift with its s3api middleware (Debian's swift-proxy, swift-account,
swift-container, swift-object and memcached). Each class says by `why_missing` what is not installed.
Standard library only.
"""

import glob
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

START_SECONDS = 60


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_until(is_ready, what):
    """Waits for a server; an error after START_SECONDS."""
    end = time.monotonic() + START_SECONDS
    while not is_ready():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not start in {START_SECONDS} s")
        time.sleep(0.1)


def answers(url):
    """Whether something speaks HTTP there; any status will do."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def http(method, url, headers=None):
    """The answer's headers and body; urllib's errors."""
    with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers or {}),
                                timeout=60) as answer:
        return answer.headers, answer.read()


class PostgreSql:
    """One cluster with one database; `url` is what lectern-batch --database takes."""

    @staticmethod
    def programs():
        folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda f: int(f.split("/")[4]))
        return folders[-1] if folders else os.path.dirname(shutil.which("initdb") or "")

    @classmethod
    def why_missing(cls):
        return "" if cls.programs() else "PostgreSQL (apt install postgresql) is not installed"

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="lectern-pg-")
        self.port = free_port()
        self.user = None  # PostgreSQL refuses to run as root
        if os.geteuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            self.user = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self.folder, self.user)
        self.run("initdb", "-D", f"{self.folder}/data", "-U", "lectern", "-A", "trust", "-N", "-E", "UTF8")
        self.url = f"postgresql://lectern@127.0.0.1:{self.port}/postgres"
        self.start()

    def run(self, program, *arguments):
        return subprocess.run([f"{self.programs()}/{program}", *arguments], check=True, user=self.user,
                              cwd=self.folder, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                              timeout=120)

    def start(self):
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-w", "start", "-o",
                 f"-c port={self.port} -c listen_addresses=127.0.0.1 -c fsync=off"
                 f" -c unix_socket_directories={self.folder}")

    def stop(self, mode="fast"):
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-m", mode, "-w", "stop")

    def rows(self, query):
        """The rows of a query as lists of texts."""
        out = subprocess.run([f"{self.programs()}/psql", self.url, "-XAtq", "-F", "\t", "-c", query],
                             check=True, capture_output=True, text=True, timeout=60).stdout
        return [line.split("\t") for line in out.splitlines()]

    def close(self):
        try:
            self.stop("immediate")
        except subprocess.SubprocessError:
            pass  # it was stopped already
        shutil.rmtree(self.folder, ignore_errors=True)


class Moto:
    """moto's S3, which keeps objects in memory and checks no signature."""

    # It has to be there, and is not checked.
    SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=key/20240101/us-east-1/s3/aws4_request, "
                               "SignedHeaders=host, Signature=0"}
    python = os.environ.get("PYTHON", sys.executable)

    @classmethod
    def why_missing(cls):
        found = subprocess.run([cls.python, "-c", "import moto.server"], capture_output=True)
        return "" if found.returncode == 0 else f"moto (pip install 'moto[server]') is not in {cls.python}"

    def __init__(self):
        self.port = free_port()
        self.process = subprocess.Popen([self.python, "-m", "moto.server", "-p", str(self.port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.environment = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
                            "AWS_REGION": "us-east-1"}
        wait_until(lambda: answers(self.endpoint), "moto")

    def make_bucket(self, bucket):
        http("PUT", f"{self.endpoint}/{bucket}", self.SIGNED)

    def objects(self, bucket):
        """The sizes of all objects by key."""
        found, after = {}, ""
        while True:
            query = urllib.parse.urlencode({"list-type": 2, "start-after": after})
            tree = xml.etree.ElementTree.fromstring(http("GET", f"{self.endpoint}/{bucket}?{query}", self.SIGNED)[1])
            space = tree.tag[:tree.tag.index("}") + 1]
            page = {one.find(f"{space}Key").text: int(one.find(f"{space}Size").text)
                    for one in tree.findall(f"{space}Contents")}
            if not page:
                return found
            found.update(page)
            after = max(page)

    def get(self, bucket, key):
        return http("GET", f"{self.endpoint}/{bucket}/{urllib.parse.quote(key)}", self.SIGNED)[1]

    def remove(self, bucket, key):
        http("DELETE", f"{self.endpoint}/{bucket}/{urllib.parse.quote(key)}", self.SIGNED)

    def close(self):
        self.process.kill()
        self.process.wait()


PROXY = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {folder}
workers = 2
[pipeline:main]
pipeline = catch_errors cache s3api tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:{memcached}
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
"""

STORAGE = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
workers = 1
fallocate_reserve = 0
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""


class Swift:
    """OpenStack Swift behind S3's API: one replica, real signatures. Its folder needs a file system
    with extended attributes."""

    KINDS = ("account", "container", "object")

    @classmethod
    def why_missing(cls):
        missing = [f"swift-{kind}" for kind in ("proxy", *cls.KINDS)
                   if not shutil.which(f"swift-{kind}-server")]
        missing += [] if shutil.which("memcached") else ["memcached"]
        return f"not installed (apt install): {' '.join(missing)}" if missing else ""

    def __init__(self, parent=None):
        self.folder = tempfile.mkdtemp(prefix="lectern-swift-", dir=parent)
        self.processes = []
        user = pwd.getpwuid(os.geteuid()).pw_name
        ports = {kind: free_port() for kind in (*self.KINDS, "proxy", "memcached")}
        os.makedirs(f"{self.folder}/devices/d1")
        self.write("swift.conf", "[swift-hash]\nswift_hash_path_suffix = test\nswift_hash_path_prefix = test\n"
                   "[storage-policy:0]\nname = default\ndefault = yes\n")
        for kind in self.KINDS:
            self.write(f"{kind}-server.conf",
                       STORAGE.format(kind=kind, port=ports[kind], user=user, folder=self.folder))
            builder = f"{self.folder}/{kind}.builder"
            for step in (["create", "8", "1", "0"],
                         ["add", f"r1z1-127.0.0.1:{ports[kind]}/d1", "1"], ["rebalance"]):
                # swift-ring-builder ends with 1 where it only warns.
                made = subprocess.run(["swift-ring-builder", builder, *step], capture_output=True, text=True)
                if made.returncode > 1:
                    raise RuntimeError(made.stdout + made.stderr)
        self.write("proxy-server.conf", PROXY.format(port=ports["proxy"], memcached=ports["memcached"],
                                                     user=user, folder=self.folder))
        self.start("memcached", "-l", "127.0.0.1", "-p", str(ports["memcached"]), "-u", user)
        for kind in (*self.KINDS, "proxy"):
            self.start(f"swift-{kind}-server", f"{self.folder}/{kind}-server.conf")
        self.endpoint = f"http://127.0.0.1:{ports['proxy']}"
        self.environment = {"AWS_ACCESS_KEY_ID": "test:tester", "AWS_SECRET_ACCESS_KEY": "testing",
                            "AWS_REGION": "us-east-1"}
        for kind in (*self.KINDS, "proxy"):
            wait_until(lambda: answers(f"http://127.0.0.1:{ports[kind]}"), f"swift-{kind}-server")
        headers, _ = http("GET", f"{self.endpoint}/auth/v1.0",
                          {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"})
        self.storage, self.token = headers["X-Storage-Url"], {"X-Auth-Token": headers["X-Auth-Token"]}

    # Buckets are seen from Swift's own side, so that a mistake of S3's side shows.

    def make_bucket(self, bucket):
        http("PUT", f"{self.storage}/{bucket}", self.token)

    def objects(self, bucket):
        """The sizes of all objects by key."""
        found, after = {}, ""
        while True:
            query = urllib.parse.urlencode({"format": "json", "marker": after})
            page = json.loads(http("GET", f"{self.storage}/{bucket}?{query}", self.token)[1])
            if not page:
                return found
            found.update({one["name"]: one["bytes"] for one in page})
            after = page[-1]["name"]

    def get(self, bucket, key):
        return http("GET", f"{self.storage}/{bucket}/{urllib.parse.quote(key)}", self.token)[1]

    def remove(self, bucket, key):
        http("DELETE", f"{self.storage}/{bucket}/{urllib.parse.quote(key)}", self.token)

    def write(self, name, text):
        pathlib.Path(self.folder, name).write_text(text)

    def start(self, *command):
        log = open(f"{self.folder}/{os.path.basename(command[0])}.log", "wb")
        self.processes.append(subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "SWIFT_DIR": self.folder}))
        log.close()

    def close(self):
        for process in self.processes:  # each with its workers
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
