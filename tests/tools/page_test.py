#!/usr/bin/env python3
"""The server's page in a browser: asks, passages, comparing, adding, keyboard, themes, sizes.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
Needs Debian's chromium, chromium-driver and python3-selenium.
"""

import os
import tempfile
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from make_pdf import make_pdf
from server_test import BIN, MODEL, Server

# What would be noticed where a text or a name were inserted as HTML.
SCRIPT = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
TEXT = (f"{SCRIPT}\n" + "Nobody knew why the guard noticed that tall road. " * 60 +
        "\nThe Douquouth committee meets in Stuxwick.\n" +
        "A river was careful, but a hill was bright and wooden. " * 60)
QUESTION = "Where does the Douquouth committee meet?"
FACT = "The Douquouth committee meets in Stuxwick."


def browser():
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-page-")
        cls.server = Server(os.path.join(cls.folder.name, "store"), "--model", MODEL,
                            "--allow-index")
        cls.browser = browser()
        cls.add(SCRIPT.replace("/", "") + ".txt", TEXT)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.server.process.terminate()
        cls.server.process.communicate()
        cls.folder.cleanup()

    @classmethod
    def url(cls):
        return f"http://127.0.0.1:{cls.server.port}/"

    # Through the page's own file field, as a reader would.
    @classmethod
    def add(cls, name, text):
        path = os.path.join(cls.folder.name, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        cls.browser.get(cls.url())
        cls.wait(lambda: cls.find("add").is_displayed())
        cls.find("file").send_keys(path)
        cls.wait(lambda: name in [option.text for option in
                                  cls.browser.find_elements(By.CSS_SELECTOR, "#documents option")])

    @classmethod
    def find(cls, name):
        return cls.browser.find_element(By.ID, name)

    @classmethod
    def wait(cls, condition):
        WebDriverWait(cls.browser, 60).until(lambda _: condition())

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def setUp(self):
        self.browser.set_window_size(1280, 900)
        self.browser.get(self.url())
        self.wait(lambda: self.all("#text p"))

    def tearDown(self):
        self.assertEqual([entry for entry in self.browser.get_log("browser")
                          if entry["level"] == "SEVERE"], [])  # what the CSP stops is one too
        self.assertEqual(self.browser.title, "Lectern")

    def ask(self, question=QUESTION):
        turns = len(self.all(".turn"))
        self.browser.switch_to.active_element.send_keys(question, Keys.ENTER)
        self.wait(lambda: len(self.all(".turn")) == turns + 1 and self.find("ask").is_displayed())
        return self.all(".turn")[-1]

    def strip(self):
        """How many pixels of the strip are drawn, and the colour of the strongest."""
        return self.browser.execute_script(
            "const c = document.getElementById('strip'), d = c.getContext('2d')"
            ".getImageData(0, 0, c.width, c.height).data; let n = 0, best = 0, rgb = '';"
            "for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 0) { ++n;"
            " if (d[i + 3] > best) { best = d[i + 3]; rgb = d.slice(i, i + 3).join(); } }"
            "return [n, rgb]")

    def test_a_pdf_is_added_and_its_passages_say_their_page(self):
        self.add("report.pdf", make_pdf([["The report is about committees."], [FACT], []]))
        self.wait(lambda: "1 of 3 pages have no text" in self.find("job-text").text)
        self.find("job-cancel").click()
        self.assertFalse(self.find("job").is_displayed())
        self.find("documents").send_keys("report.pdf")
        self.wait(lambda: FACT in self.find("text").text)
        self.find("question").click()
        passages = self.ask().find_elements(By.CSS_SELECTOR, ".passages button")
        self.assertRegex(passages[0].text, r"(?s)^\d+ %, p\. 2.*" + FACT)

    def test_text_and_names_are_text(self):
        self.assertIn(SCRIPT, self.find("text").text)
        self.assertEqual(self.all("#text script, #text img, #documents img, .turn img"), [])

    def test_an_answer_shows_where_it_comes_from(self):
        turn = self.ask()
        self.assertEqual(turn.find_element(By.TAG_NAME, "h2").text, QUESTION)
        self.assertTrue(turn.find_element(By.CSS_SELECTOR, ".answer").text)
        passages = turn.find_elements(By.CSS_SELECTOR, ".passages button")
        self.assertIn(FACT, passages[0].text)
        marks = [mark.text for mark in self.all("#text mark")]
        self.assertTrue(any(FACT in mark for mark in marks), marks)
        self.assertEqual(self.all("#text mark.current"), [])
        passages[0].click()
        [current] = self.all("#text mark.current")
        self.assertIn(FACT, current.text)
        self.wait(lambda: self.browser.execute_script(
            "const m = arguments[0].getBoundingClientRect(),"
            " t = document.getElementById('text').getBoundingClientRect();"
            "return m.top >= t.top && m.bottom <= t.bottom", current))
        self.assertGreater(self.strip()[0], 0)

    def test_the_receipt_says_what_was_read(self):
        turn = self.ask()
        summary = turn.find_element(By.TAG_NAME, "summary")
        self.assertRegex(summary.text, r"^read \d+(\.\d)? % of the document in [\d,]+ ms$")
        summary.click()
        self.assertIn("attention missed, estimated", turn.text)

    def test_comparing_with_exact(self):
        self.find("compare").click()
        self.find("question").click()
        turn = self.ask()
        self.assertIn("exact mode, everything read:", turn.text)
        self.assertRegex(turn.text, "(?m)^(the same answer|another answer)$")
        self.assertEqual(len(turn.find_elements(By.TAG_NAME, "summary")), 2)

    def test_the_keyboard_is_enough(self):
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "question")
        self.browser.execute_script("document.activeElement.blur()")
        self.find("text").parent.switch_to.active_element.send_keys("/")
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "question")
        turn = self.ask()
        button = turn.find_element(By.CSS_SELECTOR, ".passages button")
        self.browser.execute_script("arguments[0].focus()", button)
        button.send_keys(Keys.ENTER)
        self.assertEqual(len(self.all("#text mark.current")), 1)

    def test_the_strip_stays_with_the_theme_and_the_size(self):
        self.ask()
        light = self.strip()
        self.assertGreater(light[0], 0)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        try:
            self.wait(lambda: self.strip()[1] != light[1])
            self.assertGreater(self.strip()[0], 0)
            self.browser.set_window_size(1280, 700)
            self.wait(lambda: self.find("strip").size["height"] < 700)
            self.assertGreater(self.strip()[0], 0)
        finally:
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_small_screens_scroll_one_way_and_keep_the_question(self):
        self.browser.set_window_size(500, 800)
        self.ask()
        self.assertLessEqual(*self.browser.execute_script(
            "return [document.documentElement.scrollWidth, innerWidth]"))
        self.assertLessEqual(*self.browser.execute_script(
            "return [document.getElementById('ask').getBoundingClientRect().bottom, innerHeight]"))

    def test_every_control_has_a_name(self):
        tree = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        controls = [node for node in tree if not node["ignored"] and node["role"]["value"] in
                    ("button", "checkbox", "combobox", "slider", "textbox", "img")]
        self.assertGreater(len(controls), 5)
        for node in controls:
            self.assertTrue(node["name"]["value"], node)

    def test_an_error_is_said_and_the_page_goes_on(self):
        self.browser.execute_script("shown.id = '0'.repeat(32)")
        turn = self.ask()
        self.assertTrue(turn.find_element(By.CSS_SELECTOR, ".error").text)
        self.browser.get_log("browser")  # Chromium notes the 404
        self.assertTrue(self.find("ask").is_displayed())


if __name__ == "__main__":
    unittest.main()
