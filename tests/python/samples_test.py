#!/usr/bin/env python3
"""tools/samples/python as people use them: the notebook by nbclient, the service by uvicorn and
httpx, the unit of systemd by systemd-analyze and by what it starts. Environment:
integrations_store.py."""
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

from integrations_store import (ENDLESS, LEASE, PASSAGE, QUESTION, SOURCE, WORK, lectern, make_pdf,
                                store)

SAMPLES = SOURCE / "tools/samples/python"


def needs(*modules):
    missing = [one for one in modules if not importlib.util.find_spec(one)]
    return unittest.skipIf(missing, f"not installed: {missing}")


@needs("nbclient", "ipykernel")
class Notebook(unittest.TestCase):
    def test_it_runs_from_top_to_bottom(self):
        import nbformat
        from nbclient import NotebookClient
        folder = WORK / "notebook"
        folder.mkdir()
        (folder / "lease.pdf").write_bytes(make_pdf(LEASE))
        notebook = nbformat.read(SAMPLES / "ask_a_pdf.ipynb", as_version=4)
        nbformat.validate(notebook)
        for cell in notebook.cells:
            self.assertFalse(cell.get("outputs"), "the notebook is kept without outputs")
        NotebookClient(notebook, timeout=120, kernel_name="python3",
                       resources={"metadata": {"path": str(folder)}}).execute()
        shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
        html = [one["data"]["text/html"] for one in shown if "text/html" in one.get("data", {})]
        printed = "".join(one.get("text", "") for one in shown)
        self.assertEqual(len(html), 3)
        self.assertIn("<mark>repairs</mark>", html[0])
        self.assertIn("p. 2", html[0])
        self.assertIn("✗ The tenant may keep pigs.", html[2])
        self.assertRegex(printed, r"lease\.pdf \d+ tokens")
        self.assertIn("p. 2, characters", printed)
        self.assertNotIn("stderr", [one.get("name") for one in shown])


@needs("fastapi", "uvicorn", "httpx")
class Service(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import uvicorn
        sys.path.insert(0, str(SAMPLES))
        import service
        cls.service = service
        cls.server = uvicorn.Server(uvicorn.Config(service.app, port=0, log_level="error"))
        cls.thread = threading.Thread(target=cls.server.run)
        cls.thread.start()
        while not cls.server.started:
            time.sleep(0.02)
        port = cls.server.servers[0].sockets[0].getsockname()[1]
        cls.url = f"http://127.0.0.1:{port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.should_exit = True
        cls.thread.join(30)

    @staticmethod
    def events(response):
        return [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: ")]

    def test_documents(self):
        import httpx
        names = {one["name"] for one in httpx.get(self.url + "/documents").json()}
        self.assertEqual(names, {"towns", "lease.pdf"})

    def test_an_answer_is_streamed(self):
        import httpx
        with httpx.stream("POST", self.url + "/ask", timeout=60,
                          json={"question": QUESTION, "document": "towns"}) as response:
            self.assertEqual(response.status_code, 200)
            self.assertTrue(response.headers["content-type"].startswith("text/event-stream"))
            events = self.events(response)
        pieces = [one["text"] for one in events[:-1]]
        self.assertGreater(len(pieces), 1)
        self.assertEqual("".join(pieces), "Stuxwick")
        self.assertEqual(events[-1]["answer"], "Stuxwick")
        self.assertEqual(events[-1]["passages"][0]["text"], PASSAGE)

    def test_errors(self):
        import httpx
        for json_, status in (({"question": "Who?", "document": "nope"}, 404),
                              ({"question": "Who?"}, 400), ({"question": ""}, 422)):
            answered = httpx.post(self.url + "/ask", json=json_, timeout=60)
            self.assertEqual(answered.status_code, status)

    def test_a_client_that_goes_ends_its_answer(self):
        import httpx
        ended = threading.Event()
        reasons = []
        real = lectern.Session.ask

        def ask(session, question, **options):
            answer = real(session, question, **{**options, **ENDLESS})
            reasons.append(answer.finish_reason)
            ended.set()
            return answer

        with mock.patch.object(lectern.Session, "ask", ask):
            with httpx.stream("POST", self.url + "/ask", timeout=60, json={
                    "question": QUESTION, "document": "towns", "max_tokens": 3000}) as response:
                next(response.iter_lines())
            self.assertTrue(ended.wait(3))
        self.assertEqual(reasons, ["cancelled"])


class Watch(unittest.TestCase):
    UNIT = SAMPLES / "lectern-watch.service"

    def command(self, home):
        """The command that the unit starts, with %h and FOLDER as systemd would put them."""
        text = self.UNIT.read_text().replace("%h", str(home))
        folder = re.search(r"^Environment=FOLDER=(.*)$", text, re.M)[1]
        line = re.search(r"^ExecStart=(.*)$", text, re.M)[1].replace("${FOLDER}", folder)
        return shlex.split(line), pathlib.Path(folder)

    def home(self, name):
        """A home with the virtual environment of the unit, whose `lectern` is this one's."""
        home = WORK / name
        program = self.command(home)[0][0]
        os.makedirs(os.path.dirname(program))
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -m lectern \"$@\"\n")
        os.chmod(program, 0o755)
        return home

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    def test_systemd_accepts_it(self):
        home = self.home("verified")
        for text, accepted in ((self.UNIT.read_text(), True),
                               (self.UNIT.read_text().replace("Nice=", "Niceness="), False)):
            unit = WORK / "lectern-watch.service"
            unit.write_text(text.replace("%h", str(home)))
            done = subprocess.run(["systemd-analyze", "verify", "--user", unit], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                  env={**os.environ, "XDG_RUNTIME_DIR": str(WORK)})
            said = [line for line in done.stdout.splitlines() if "lectern-watch" in line]
            self.assertEqual(not said and done.returncode == 0, accepted, done.stdout)

    def test_what_it_starts(self):
        home = self.home("watched")
        command, folder = self.command(home)
        folder.mkdir(parents=True)
        (folder / "boats.txt").write_text("Ann has seven boats.")
        watched = WORK / "watched-store"
        child = subprocess.Popen(command, env={**os.environ, "LECTERN_STORE": str(watched)},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        try:
            other = lectern.Store(watched)

            def names(wanted):
                for _ in range(600):
                    found = {one.name for one in other.documents() if one.state == "ready"}
                    if found == wanted or child.poll() is not None:
                        break
                    time.sleep(0.1)
                self.assertEqual(found, wanted)

            names({"boats.txt"})
            (folder / "fruit.txt").write_text("Quinces are sold in Osk.")
            names({"boats.txt", "fruit.txt"})
            with other.open("fruit.txt") as session:
                self.assertIn("Osk", session.ask("Where are quinces sold?").passages[0].text)
        finally:
            child.send_signal(getattr(signal, re.search(r"^KillSignal=(\w+)$",
                                                        self.UNIT.read_text(), re.M)[1]))
            said = child.communicate(timeout=30)[0]
        allowed = re.search(r"^SuccessExitStatus=(.*)$", self.UNIT.read_text(), re.M)[1].split()
        self.assertIn(str(child.returncode), allowed, said)


if __name__ == "__main__":
    assert store.documents()
    unittest.main()
