#!/usr/bin/env python3
"""The part of the integrations that needs nothing but Python: how notebooks show answers, and what is
said where a framework is missing. Environment: integrations_store.py."""
import dataclasses
import re
import subprocess
import sys
import unittest

from integrations_store import PACKAGE, TOWNS, WORK, lectern, store

REPAIRS = "Who pays for repairs to the roof?"


class Html(unittest.TestCase):
    def test_answer(self):
        with store.open("lease.pdf") as session:
            answer = session.ask(REPAIRS)
        shown = answer._repr_html_()
        self.assertEqual(re.sub("<[^>]*>", "", answer.passages[0]._repr_html_()),
                         "The owner pays for repairs to the roof.p. 2")
        self.assertIn("<mark>repairs</mark>", shown)
        self.assertIn("p. 2", shown)
        self.assertTrue(shown.startswith('<div class="lectern-answer">'))
        self.assertEqual(shown.count("<div"), shown.count("</div>"))

    def test_highlights_are_where_they_should_be(self):
        """Behind characters of several bytes, and of several units in other languages."""
        with store.open("towns") as session:
            answer = session.ask("Who sings songs?")
        marked = [re.findall("<mark>(.*?)</mark>", one._repr_html_()) for one in answer.passages]
        for passage, words in zip(answer.passages, marked):
            self.assertEqual(words, [TOWNS[one.start:one.end] for one in passage.highlights])
        self.assertTrue(any(marked))

    def test_a_document_cannot_run_scripts(self):
        hostile = 'Ann has <script>alert("boats")</script> & seven boats <img src=x>.'
        other = lectern.Store(WORK / "hostile")
        other.index_text(hostile, name="<b>boats</b>")
        with other.open() as session:
            answer = session.ask("Who has seven boats?")
        shown = dataclasses.replace(answer, text=hostile, note=hostile)._repr_html_()
        cited = other.cite("", "Ann has <i>seven</i> boats.")._repr_html_()
        for html in (shown, cited):
            self.assertNotRegex(html, r"<(?!/?(div|mark)\b)")
        self.assertIn("&lt;", shown)
        other.close()

    def test_cited(self):
        shown = store.cite("towns", "The committee meets in Stuxwick. Pigs fly.")._repr_html_()
        self.assertRegex(shown, "✓ The committee meets in Stuxwick.*✗ Pigs fly.")

class WithoutFrameworks(unittest.TestCase):
    """Python without the packages of any virtual environment or system."""
    EXTRAS = {"mcp_server": "mcp", "langchain": "langchain", "llama_index": "llama-index",
              "llm": "llm"}
    PACKAGES = ("mcp", "mcp_types", "langchain_core", "llama_index", "llm")

    def test_the_error_names_the_extra(self):
        settings = (PACKAGE / "pyproject.toml").read_text()
        for module, extra in self.EXTRAS.items():
            with self.subTest(module):
                # A module that is None counts as missing.
                code = (f"import sys\nfor one in {self.PACKAGES}: sys.modules[one] = None\n"
                        f"import lectern.integrations.{module}")
                done = subprocess.run([sys.executable, "-c", code], text=True, timeout=60,
                                      check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"pip install 'lectern[{extra}]'", done.stderr.splitlines()[-1])
                self.assertRegex(settings, rf"(?m)^{extra} = \[")

    def test_the_package_loads_none_of_them(self):
        code = "import sys, lectern; assert not any('integrations' in one for one in sys.modules)"
        subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


if __name__ == "__main__":
    unittest.main()
