#!/usr/bin/env python3
"""The server's page in a browser: conversations, passages, Markdown of answers, links to answers,
texts that are checked, comparing, adding and removing, what survives a reload, a server that is
away, keyboard, themes, sizes, contrast.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
Needs Debian's chromium, chromium-driver and python3-selenium.
"""

import http.client
import http.server
import json
import os
import tempfile
import threading
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from make_pdf import make_pdf
from server_test import BIN, MODEL, Server

# A text that changes the page's title if the page inserts a text or a name as HTML.
SCRIPT = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
TEXT = (f"{SCRIPT}\n" + "Nobody knew why the guard noticed that tall road. " * 60 +
        "\nThe Douquouth committee meets in Stuxwick.\n" +
        "A river was careful, but a hill was bright and wooden. " * 60)
QUESTION = "Where does the Douquouth committee meet?"
FACT = "The Douquouth committee meets in Stuxwick."


MARKDOWN = """# Rent of flat 4

The tenant pays **104 euro** a *month*, as `rent.cc` says:

1. before the third of the month
2. by transfer:
   - to the owner
   - or to ~~nobody~~ the agent

| Flat | Rent | Note |
|---|--:|:-:|
| 4 | 104 € | the `a|b` of [it](https://example.org/rent "title") |
| 5 | 98 € | <script>document.title='broken'</script> |

> The owner repairs the roof.

```cc
if (rent < 104) { pay(); }   // <b>not bold</b>
```

See https://example.org/law, or [write](mailto:a@example.org).
"""

# Answers that try to get HTML, scripts or requests into the page, or to hang it.
HOSTILE = [
    SCRIPT,
    "<div onclick=\"document.title='broken'\">x</div> <a href=javascript:alert(1)>x</a>",
    "[x](javascript:document.title='broken') [x](JaVaScRiPt:alert(1)) [x](data:text/html,x) "
    "[x](vbscript:x) [x](file:///etc/passwd) [x](//example.org) [x](/v1/documents) [x](blob:x)",
    "[x](java\tscript:alert(1)) [x](<javascript:alert(1)>) [x](\\u006aavascript:alert(1)) <javascript:a>",
    "![x](javascript:alert(1)) ![x](data:image/svg+xml,<svg onload=alert(1)>)",
    "```\n" + SCRIPT + "\n```\n`" + SCRIPT + "`\n|" + SCRIPT + "|\n|-|\n|" + SCRIPT + "|",
    "# " + SCRIPT + "\n> " + SCRIPT + "\n- " + SCRIPT + "\n\n**" + SCRIPT + "**",
    "**a *b `c [d](https://e.org", "```\nnever closed", "|a|b|\n|-|-|\n|", "[a](https://e.org \"", "- - - - > 1. # x",
    "__proto__ **constructor** [x](https://e.org/__proto__)",
]
LONG_HOSTILE = ["*", "**a ", "_a*", "`", "[", "![", "[](", "[](<", "[a](b \"", "<", "> ", ">", "- ", "- a\n", "-\t", "1. a\n",
                "|", "a|b\n-|-\n", "~~~a~~~ ", "https://", "# ", "\\", "* *", "[x](https://e.f)", "<b>", " ", "\n", "``` `"]


CODE = "".join(f"def step_{i}(x):\n    if x > {i}:\n        return x    # {i}\n\n" for i in range(40))


class Proxy:
    """Stands before a server, which it serves below a path. Questions wait while `is_open` is not
    set; with `is_cut` their answers end early; where `is_away`, nothing is answered. Where `says` is a
    text, each answer is that one, in pieces of `piece` characters, the first `num_pieces` of which
    come while `is_open` is not set."""

    PATH = "/tools/lectern/"

    def __init__(self, port):
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_cut = self.is_away = False
        self.says, self.piece, self.num_pieces = None, 7, 0
        self.asked = []  # the bodies of the questions
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def pass_on(self):
                if outer.is_away or not self.path.startswith(outer.PATH):
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                is_ask = self.path.endswith("/v1/ask")
                if is_ask:
                    outer.asked.append(json.loads(body))
                if is_ask and outer.says is None:
                    outer.is_open.wait(60)
                upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                headers = {name: value for name, value in self.headers.items()
                           if name.lower() not in ("host", "origin", "connection")}
                upstream.request(self.command, self.path[len(outer.PATH) - 1:], body or None, headers)
                response = upstream.getresponse()
                self.send_response(response.status)
                for name, value in response.getheaders():
                    if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                        self.send_header(name, value)
                self.end_headers()
                try:
                    if is_ask and outer.says is not None:
                        self.say(response.read().decode())
                    while part := response.read1(1 << 16):
                        self.wfile.write(part[:len(part) // 2] if is_ask and outer.is_cut else part)
                        if is_ask and outer.is_cut:
                            break
                except OSError:
                    pass  # the browser left
                upstream.close()

            # The events of an answer with another text.
            def say(self, events):
                send = lambda name, data: self.wfile.write(
                    f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
                pieces = [outer.says[i:i + outer.piece]
                          for i in range(0, len(outer.says), outer.piece)]
                for i, piece in enumerate(pieces):
                    if i == outer.num_pieces:
                        outer.is_open.wait(60)
                    send("text", {"text": piece})
                for event in events.split("\n\n"):
                    if event.startswith("event: done"):
                        answer = json.loads(event.split("data: ", 1)[1])
                        send("done", {**answer, "answer": outer.says})

            do_GET = do_POST = do_DELETE = pass_on

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}{self.PATH}"

    def close(self):
        self.is_open.set()
        self.http.shutdown()
        self.http.server_close()


# Finds faults in everything that is displayed: texts of less than 4.5:1 (3:1 where they are large) to what is
# behind them, controls whose bounds have less than 3:1, targets of less than 24 pixels.
FAULTS = """
const number = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
const light = ([r, g, b]) => { const f = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 :
  ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const behind = (node) => { for (let n = node; n; n = n.parentElement) {
  const c = number(getComputedStyle(n).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
const faults = [], seen = (n) => n.checkVisibility({checkVisibilityCSS: true}) && n.getClientRects().length > 0 &&
  !n.closest('.unseen, .skip, option, noscript');
const named = (n) => n.tagName + '#' + n.id + '.' + n.className + ' ' + n.textContent.slice(0, 30);
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const node = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !seen(node)) continue;
  const style = getComputedStyle(node), r = ratio(number(style.color), behind(node));
  if (r < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) faults.push(['text', r.toFixed(2), named(node)]);
}
const hint = document.getElementById('question');
const r = ratio(number(getComputedStyle(hint, '::placeholder').color), behind(hint));
if (seen(hint) && r < 4.5) faults.push(['placeholder', r.toFixed(2)]);
for (const node of document.querySelectorAll('button, select, textarea, mark')) {
  if (!seen(node)) continue;
  const style = getComputedStyle(node), outside = behind(node.parentElement);
  const side = node.tagName === 'MARK' ? style.borderBottomColor : style.borderTopColor;
  const r = ratio(number(side), outside);
  if (r < 3) faults.push(['bounds', r.toFixed(2), named(node)]);
}
for (const node of document.querySelectorAll('button, select, textarea, input, summary, #strip, .documents button')) {
  if (!seen(node)) continue;
  const {width, height} = node.getBoundingClientRect();
  if (width < 24 || height < 24) faults.push(['size', width + ' x ' + height, named(node)]);
}
return faults;
"""


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
        cls.name = SCRIPT.replace("/", "") + ".txt"
        cls.add(cls.name, TEXT)

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
        cls.wait(lambda: name in cls.names())

    @classmethod
    def names(cls):
        """Names of the documents that can be picked."""
        return cls.browser.execute_script(
            "return [...document.getElementById('documents').options].map((o) => o.textContent)")

    @classmethod
    def find(cls, name):
        return cls.browser.find_element(By.ID, name)

    @classmethod
    def wait(cls, condition):
        WebDriverWait(cls.browser, 60).until(lambda _: condition())

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def setUp(self):
        self.size(1280, 900)
        self.browser.get(self.url())
        self.browser.execute_script("sessionStorage.clear()")
        self.open(self.url())
        self.pick(self.name)
        self.find("question").click()

    def open(self, url):
        self.browser.get(url)
        self.wait(lambda: self.all("#text p:not(.empty), #text pre"))

    def size(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})

    def theme(self, name):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": name}]})
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.setEmulatedMedia", {"features": []})

    def pick(self, name):
        """Another document, whose text is then displayed."""
        self.browser.execute_script(
            "const s = document.getElementById('documents');"
            "s.value = [...s.options].find((o) => o.textContent === arguments[0]).value;"
            "s.dispatchEvent(new Event('change'))", name)
        self.wait(lambda: self.browser.execute_script(
            "return shown !== null && shown.id === document.getElementById('documents').value"))

    def is_in_view(self, node, pane):
        """Wholly, of a pane and of the window."""
        return self.browser.execute_script(
            "const n = arguments[0].getBoundingClientRect(),"
            " p = document.getElementById(arguments[1]).getBoundingClientRect();"
            "return n.height > 0 && n.top >= Math.max(p.top, 0) - 1 &&"
            " n.bottom <= Math.min(p.bottom, innerHeight) + 1", node, pane)

    def proxy(self):
        proxy = Proxy(self.server.port)
        self.addCleanup(proxy.close)
        self.open(proxy.url)
        self.pick(self.name)
        self.find("question").click()
        return proxy

    def forget_log(self):
        """Drops Chromium's log where answers that are errors are expected."""
        self.browser.get_log("browser")

    def tearDown(self):
        self.assertEqual([entry for entry in self.browser.get_log("browser")
                          if entry["level"] == "SEVERE"], [])  # what the CSP stops is one too
        self.assertEqual(self.browser.title, "Lectern")

    def ask(self, question=QUESTION):
        self.begin(question)
        self.wait(lambda: self.find("ask").is_displayed())
        return self.all(".turn")[-1]

    def begin(self, question=QUESTION):
        turns = len(self.all(".turn"))
        self.find("question").send_keys(question, Keys.ENTER)
        self.wait(lambda: len(self.all(".turn")) == turns + 1)

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
        self.wait(lambda: "page 3 has no text" in self.find("job-text").text)
        self.find("job-cancel").click()
        self.assertFalse(self.find("job").is_displayed())
        self.pick("report.pdf")
        self.assertIn(FACT, self.find("text").text)
        self.find("question").click()
        passages = self.ask().find_elements(By.CSS_SELECTOR, ".passages button")
        self.assertRegex(passages[0].text, r"(?s)^\d+ % likely, p\. 2.*" + FACT)

    def test_text_and_names_are_text(self):
        self.assertIn(SCRIPT, self.find("text").text)
        self.assertEqual(self.all("#text script, #text img, #documents img, .turn img"), [])

    def test_an_answer_shows_where_it_comes_from(self):
        turn = self.ask()
        self.assertEqual(turn.find_element(By.TAG_NAME, "h2").text, QUESTION)
        self.assertTrue(turn.find_element(By.CSS_SELECTOR, ".answer").text)
        passages = turn.find_elements(By.CSS_SELECTOR, ".passages button")
        self.assertIn(FACT, passages[0].text)
        self.assertIn("% likely", passages[0].text)
        self.assertTrue(passages[0].find_elements(By.TAG_NAME, "b"))  # words that are shared
        self.assertIn("Passages that support it", turn.text)
        marks = [mark.text for mark in self.all("#text mark")]
        self.assertTrue(any(FACT in mark for mark in marks), marks)
        [current] = self.all("#text mark.current")  # the best passage, at once
        self.assertIn(FACT, current.text)
        self.wait(lambda: self.is_in_view(current, "text"))
        self.browser.execute_script("document.getElementById('text').scrollTop = 0")
        self.assertFalse(self.is_in_view(current, "text"))
        passages[0].click()
        [current] = self.all("#text mark.current")
        self.wait(lambda: self.is_in_view(current, "text"))
        self.assertGreater(self.strip()[0], 0)
        self.assertEqual(self.find("map-label").text, "Where the answer looked")

    def words(self, selector):
        return self.browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((n) => n.textContent)", selector)

    def show(self, markdown):
        """An answer's Markdown as the page shows it: names of elements, text, milliseconds."""
        return self.browser.execute_script(
            "const start = performance.now(), node = document.createElement('div');"
            "showMarkdown(node, arguments[0]);"
            "node.className = 'answer'; document.getElementById('turns').replaceChildren(node);"
            "void node.offsetHeight; const ms = performance.now() - start; let depth = 0; for (const n of node.querySelectorAll('*'))"
            " { let d = 0; for (let p = n; p !== node; p = p.parentElement) ++d; depth = Math.max(depth, d); }"
            "return {html: node.innerHTML.slice(0, 10000), text: node.textContent.slice(0, 10000), ms, depth,"
            " names: [...new Set([...node.querySelectorAll('*')].map((n) => n.localName))],"
            " attributes: [...new Set([...node.querySelectorAll('*')].flatMap((n) => n.getAttributeNames()))],"
            " links: [...node.querySelectorAll('a')].map((n) => n.href).slice(0, 100)}", markdown)

    def test_markdown_of_an_answer_is_shown(self):
        proxy = self.proxy()
        proxy.says = MARKDOWN
        answer = self.ask().find_element(By.CSS_SELECTOR, ".answer")
        self.assertEqual(self.words(".answer h3"), ["Rent of flat 4"])
        self.assertEqual(self.words(".answer strong"), ["104 euro"])
        self.assertEqual(self.words(".answer em"), ["month"])
        self.assertEqual(self.words(".answer del"), ["nobody"])
        self.assertEqual(self.words(".answer ol > li > ul > li"),
                         ["to the owner", "or to nobody the agent"])
        self.assertEqual(self.words(".answer th"), ["Flat", "Rent", "Note"])
        self.assertEqual(self.words(".answer blockquote"), ["The owner repairs the roof."])
        self.assertEqual(self.words(".answer pre code"),
                         ["if (rent < 104) { pay(); }   // <b>not bold</b>"])
        self.assertIn("<script>document.title='broken'</script>", answer.text)
        links = answer.find_elements(By.TAG_NAME, "a")
        self.assertEqual([link.get_attribute("href") for link in links],
                         ["https://example.org/rent", "https://example.org/law", "mailto:a@example.org"])
        for link in links:
            self.assertIn("noopener", link.get_attribute("rel"))
        self.assertEqual(links[0].get_attribute("data-host"), " (example.org)")
        self.assertIsNone(links[1].get_attribute("data-host"))  # its text says where it leads
        spoken = self.browser.execute_script("return document.getElementById('spoken').textContent")
        self.assertIn("Rent of flat 4", spoken)
        self.assertNotIn("**", spoken)
        self.open(proxy.url)  # a reload shows it so, too
        self.assertEqual(self.words(".answer h3"), ["Rent of flat 4"])

    def test_markdown_is_shown_while_it_streams(self):
        proxy = self.proxy()
        proxy.says, proxy.num_pieces = MARKDOWN, MARKDOWN.index("by transfer") // 7
        proxy.is_open.clear()
        self.begin()
        self.wait(lambda: self.words(".answer li"))
        self.assertEqual(self.words(".answer h3"), ["Rent of flat 4"])
        self.assertEqual(self.words(".answer pre"), [])  # comes later
        proxy.is_open.set()
        self.wait(lambda: self.find("ask").is_displayed())
        self.assertEqual(len(self.words(".answer pre")), 1)

    def test_blocks_that_are_complete_stay_while_text_comes(self):
        kept = self.browser.execute_script("""
            const text = arguments[0], node = document.createElement('div'), firsts = new Set();
            for (let end = 20; end < text.length; end += 3) {
              showMarkdown(node, text.slice(0, end));
              firsts.add(node.firstChild);
            }
            showMarkdown(node, text);
            const whole = showMarkdown(document.createElement('div'), text);
            return [firsts.size, node.innerHTML === whole.innerHTML]""", MARKDOWN)
        self.assertEqual(kept, [1, True])

    def test_plain_text_stays_as_it_is(self):
        for text in ("Stuxwick", "2 * 3 * 4 = 24", "snake_case_name and __init__.py", "a < b && b > c",
                     "1984. It was a cold day.", "12. M\u00e4rz 1990", "C:\\Users\\x", "Dear A,\nthe rent is 5 %.",
                     "#1 of 5", "x | y", "5 ~ 6 ~~ 7", "[1] see p. 4", "100 - 5\n  - no", "&amp; &lt;", "Yes!\n    indented"):
            shown = self.show(text)
            is_bold = "__init__" in text  # CommonMark's rule
            if not is_bold and "- no" not in text:
                self.assertEqual((shown["text"], shown["names"]), (text, ["p"]), text)

    def test_hostile_answers_are_text(self):
        for text in HOSTILE:
            shown = self.show(text)
            self.assertLessEqual(set(shown["names"]), {
                "p", "a", "code", "pre", "strong", "em", "h3", "ul", "ol", "li", "blockquote", "div",
                "table", "thead", "tbody", "tr", "th", "td", "hr"}, text)
            self.assertLessEqual(set(shown["attributes"]), {
                "href", "rel", "target", "title", "data-host", "tabindex", "class", "scope", "start", "value"})
            for link in shown["links"]:
                self.assertRegex(link, r"^https://e\.org/")
            if SCRIPT in text:
                self.assertIn(SCRIPT, shown["text"])
        self.assertEqual(self.show("[x](javascript:alert(1))")["text"], "[x](javascript:alert(1))")
        self.assertIn("src=x onerror", self.show("<img src=x onerror=alert(1)>")["text"])

    def test_long_hostile_answers_neither_hang_nor_nest(self):
        for part in LONG_HOSTILE:
            shown = self.show((part * 200000)[:200000])
            self.assertLess(shown["ms"], 8000, part)
            self.assertLess(shown["depth"], 60, part)
        for text in ("> " * 500 + "x", "- " * 500 + "x", "*a **b " * 500 + "x" + "** c*" * 500):
            shown = self.show(text)
            self.assertLess(shown["depth"], 60)
            self.assertIn("x", shown["text"])

    def test_words_that_carried_a_passage_stand_out_in_the_text(self):
        self.ask()
        self.assertIn("Douquouth", self.words("#text mark.current b"))
        self.assertIn("Douquouth", self.words(".passages b"))
        self.assertEqual("".join(self.words("#text p, #text pre")), TEXT)  # nothing is lost or doubled

    def copied(self, turn, label="Copy link"):
        """The text that a button copies."""
        self.browser.execute_script(
            "navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        [node] = [b for b in turn.find_elements(By.CSS_SELECTOR, ".actions button") if b.text == label]
        node.click()
        self.wait(lambda: node.text == "Copied")
        return self.browser.execute_script("return copied")

    def test_a_link_shows_the_answer_or_asks_again(self):
        proxy = self.proxy()
        self.browser.execute_script("const share = document.getElementById('budget'); share.value = 40;"
                                    "share.dispatchEvent(new Event('input'))")
        self.ask("Who said so?")
        link = self.copied(self.ask())
        self.assertTrue(link.startswith(proxy.url + "#document="), link)
        self.assertEqual(len(proxy.asked), 2)
        self.assertIn("Stuxwick", self.copied(self.all(".turn")[-1], "Copy answer"))
        # In this tab it is there, and is shown.
        self.open(self.url())
        self.browser.get("about:blank")
        self.open(link)
        self.wait(lambda: self.all("#text mark.current"))
        self.assertEqual((len(self.all(".turn")), len(proxy.asked)), (2, 2))
        # Without what this tab has, both questions are asked after a click, by the link's options.
        self.browser.execute_script("sessionStorage.clear()")
        self.browser.get("about:blank")
        self.open(link)
        self.wait(lambda: self.find("job").is_displayed())
        self.assertIn("Who said so?", self.find("job-text").text)
        self.assertIn(QUESTION, self.find("job-text").text)
        self.assertEqual(len(proxy.asked), 2)
        self.find("job-cancel").click()
        self.wait(lambda: len(proxy.asked) == 4 and self.find("ask").is_displayed())
        self.assertEqual([ask["question"] for ask in proxy.asked[2:]], ["Who said so?", QUESTION])
        self.assertEqual([ask["kv_budget"] for ask in proxy.asked[2:]], [0.4, 0.4])
        self.assertEqual(proxy.asked[2]["session"], "new")
        self.assertIn(FACT, self.all(".turn")[-1].text)
        # A reload asks no more, and after another question the address is the page's again.
        self.open(link)
        self.assertEqual(len(proxy.asked), 4)
        self.ask("Who said so?")
        self.assertEqual(self.browser.current_url, proxy.url)

    def test_a_link_to_what_is_not_there_says_so(self):
        self.browser.execute_script(
            "location.hash = '#document=' + encodeURIComponent(arguments[0]) + '&question=x'", SCRIPT)
        self.wait(lambda: self.find("job").is_displayed())
        self.assertIn(SCRIPT, self.find("job-text").text)
        self.assertIn("does not have", self.find("job-text").text)
        self.assertEqual(self.all(".turn"), [])
        self.browser.execute_script("location.hash = '#collection=none&budget=-5&question=x'")
        self.wait(lambda: "collection “none”" in self.find("job-text").text)
        self.browser.execute_script("location.hash = '#%%%&=&budget=x'")
        self.assertEqual(self.all(".turn"), [])

    def check_text(self, text):
        if self.find("form").is_displayed():
            self.find("cite").click()
        self.find("cited").clear()
        self.find("cited").send_keys(text)
        turns = len(self.all(".turn"))
        self.find("cite-submit").click()
        self.wait(lambda: len(self.all(".turn")) == turns + 1 and self.all(".turn")[-1].find_elements(
            By.CSS_SELECTOR, ".sentences, .error"))
        return self.all(".turn")[-1]

    def test_a_text_is_checked_sentence_by_sentence(self):
        turn = self.check_text("The Douquouth committee meets in Stuxwick. Zebras xylophone quietly? "
                               "A river was careful, but a hill was bright and wooden.")
        sentences = turn.find_elements(By.CSS_SELECTOR, ".sentences > li")
        self.assertEqual([s.get_attribute("class") for s in sentences][:2],
                         ["supported", "unsupported"])
        self.assertIn("Supported by", sentences[0].text)
        self.assertIn(FACT, sentences[0].find_element(By.CSS_SELECTOR, ".passages button").text)
        self.assertRegex(sentences[1].text, "No passage (is likely|shares)")
        self.assertRegex(turn.text, r"\d of 3 sentences ha(s|ve)")
        [current] = self.all("#text mark.current")
        self.assertIn(FACT, current.text)
        self.browser.execute_script("document.getElementById('text').scrollTop = 0")
        last = sentences[2].find_elements(By.CSS_SELECTOR, ".passages button")[-1]
        last.click()
        self.assertEqual(last.get_attribute("aria-current"), "true")
        self.assertIn("hill", self.all("#text mark.current")[0].text)
        self.open(self.url())  # it survives a reload, and questions go on
        self.assertEqual(len(self.all(".sentences > li")), 3)
        self.assertTrue(self.find("question").is_displayed())
        self.assertIn(FACT, self.ask().text)
        self.assertNotIn("no longer has", self.all(".turn")[-1].text)
        self.assertEqual(self.browser.execute_script(
            "return questionsUntil(chosen, chosen.turns[1])"), [QUESTION])  # no part of a link

    def test_a_text_that_is_checked_is_text_and_refusals_are_said(self):
        turn = self.check_text(SCRIPT + " is here.")
        self.assertIn("document.title='broken'", turn.text)
        self.assertEqual(self.all(".turn script, .turn img"), [])
        self.browser.execute_script("document.getElementById('cited').value = 'Yes. '.repeat(1100)")
        self.find("cite-submit").click()
        self.wait(lambda: self.all(".turn .error"))
        self.assertIn("1,000 sentences", self.all(".turn .error")[0].text)
        self.forget_log()
        self.find("cite-back").click()
        self.assertTrue(self.find("question").is_displayed())

    def test_the_receipt_says_what_was_read(self):
        turn = self.ask()
        summary = turn.find_element(By.TAG_NAME, "summary")
        self.assertRegex(summary.text, r"^Read (\d+(\.\d)? % of the|the whole) document in [\d,]+ ms$")
        summary.click()
        self.assertIn("Attention that fell on unread text", turn.text)
        self.assertNotRegex(turn.text, r"(?i)prefill|decode|first token")

    def test_a_comparison_labels_both_answers_and_receipts(self):
        self.find("compare").click()
        turn = self.ask()
        self.assertRegex(turn.text, r"(?s)From the part that was read\n.*From the whole document\n")
        self.assertRegex(turn.text, r"(?m)^(Both answers are the same|The two answers differ)\.$")
        receipts = [s.text for s in turn.find_elements(By.TAG_NAME, "summary")]
        self.assertEqual(len(receipts), 2)
        self.assertRegex(receipts[0], r"^From a part: read (\d+(\.\d)? % of the|the whole) document in ")
        self.assertRegex(receipts[1], r"^From the whole: read the whole document in ")

    def test_turns_are_a_conversation_until_a_new_one_is_begun(self):
        sessions = lambda: self.server.metric("lectern_sessions ")
        before = sessions()
        self.assertFalse(self.find("new").is_enabled())
        self.ask()
        self.ask("And who said so?")
        self.assertEqual(sessions(), before + 1)  # the second followed up on the first
        first = self.browser.execute_script("return chosen.session")
        self.assertTrue(first)
        self.find("new").click()
        self.assertFalse(self.find("new").is_enabled())
        self.assertIn("New conversation", self.find("turns").text)
        self.ask()
        self.assertEqual(len(self.all(".turn")), 3)  # what was said can still be read
        self.assertNotIn(self.browser.execute_script("return chosen.session"), (first, None))
        self.wait(lambda: sessions() == before + 1)  # the first one is ended

    def test_a_session_that_the_server_ended_is_begun_anew_and_said(self):
        self.ask()
        session = self.browser.execute_script("return chosen.session")
        self.assertEqual(self.server.call("DELETE", f"/v1/sessions/{session}")[0], 200)
        turn = self.ask()
        self.forget_log()
        self.assertIn("no longer has the earlier questions", turn.text)
        self.assertIn("Stuxwick", turn.find_element(By.CSS_SELECTOR, ".answer").text)
        self.assertNotIn("no longer has", self.ask().text)

    def test_an_answer_stays_with_its_document(self):
        self.add("other.txt", "Nothing is said here of it. " * 40)
        proxy = self.proxy()
        proxy.is_open.clear()
        self.begin()
        self.pick("other.txt")
        self.assertEqual(self.all(".turn"), [])
        self.assertTrue(self.find("ask").is_displayed())  # this one is free
        proxy.is_open.set()
        self.wait(lambda: self.browser.execute_script(
            "return [...conversations.values()].every((c) => !c.running)"))
        self.assertEqual(self.all("#text mark"), [])
        self.assertFalse(self.find("map").is_displayed())
        self.pick(self.name)
        [turn] = self.all(".turn")
        self.assertIn("Stuxwick", turn.find_element(By.CSS_SELECTOR, ".answer").text)
        self.assertIn(FACT, self.all("#text mark.current")[0].text)

    def test_passages_of_a_text_that_has_changed_are_not_marked(self):
        self.ask()
        self.assertTrue(self.all("#text mark"))
        self.browser.execute_script("showText(shown.id, 'x', 'Another text. ' + shown.text)")
        self.assertEqual(self.all("#text mark"), [])

    def test_a_reload_loses_nothing(self):
        self.add("second.txt", "The mayor of Lund is Ada Brok. " + "A hill was bright. " * 60)
        self.pick("second.txt")
        self.ask("Who is the mayor of Lund?")
        turns, marks = self.find("turns").text, [m.text for m in self.all("#text mark")]
        session = self.browser.execute_script("return chosen.session")
        self.open(self.url())
        self.assertEqual(self.find("turns").text, turns)
        self.assertEqual([m.text for m in self.all("#text mark")], marks)
        self.assertTrue(self.all("#text mark.current"))
        self.assertEqual(self.browser.execute_script("return chosen.name"), "second.txt")
        self.ask("And who was it before?")
        self.assertEqual(self.browser.execute_script("return chosen.session"), session)

    def test_a_reload_while_an_answer_comes_says_so(self):
        proxy = self.proxy()
        proxy.is_open.clear()
        self.begin()
        self.open(proxy.url)
        self.assertIn("was reloaded before the answer was complete", self.all(".turn")[0].text)
        proxy.is_open.set()
        self.all(".turn button")[-1].click()  # Ask again
        self.wait(lambda: len(self.all(".turn")) == 2 and self.find("ask").is_displayed())
        self.assertIn("Stuxwick", self.all(".turn")[1].text)

    def test_it_works_below_a_path_of_a_proxy(self):
        proxy = self.proxy()
        self.assertIn(FACT, self.ask().text)
        self.assertTrue(self.browser.current_url.startswith(proxy.url))

    def test_a_server_that_is_away_is_said_so(self):
        proxy = self.proxy()
        proxy.is_away = True
        error = self.ask().find_element(By.CSS_SELECTOR, ".error").text
        self.assertIn("The server does not answer", error)
        self.assertNotIn("fetch", error)
        proxy.is_away, proxy.is_cut = False, True
        self.assertIn("connection to the server ended before everything had arrived",
                      self.ask().find_element(By.CSS_SELECTOR, ".error").text)
        proxy.is_cut = False
        self.assertIn(FACT, self.ask().text)
        self.forget_log()

    def test_the_newest_answer_is_in_view(self):
        for width, height in ((1400, 900), (400, 800)):
            self.size(width, height)
            for _ in range(4):
                turn = self.ask()
                self.assertTrue(self.is_in_view(turn.find_element(By.CSS_SELECTOR, ".answer"), "turns"))
                self.assertTrue(self.is_in_view(turn.find_element(By.TAG_NAME, "h2"), "turns"))

    def test_a_phone_has_the_whole_height_for_answers_or_the_document(self):
        self.size(400, 800)
        self.open(self.url())
        turn = self.ask()
        self.assertGreater(self.find("turns").size["height"], 480)
        self.assertFalse(self.find("text").is_displayed())
        turn.find_element(By.CSS_SELECTOR, ".passages button").click()
        [current] = self.all("#text mark.current")
        self.wait(lambda: self.is_in_view(current, "text"))
        self.assertGreater(self.find("text").size["height"], 600)
        self.assertFalse(self.find("turns").is_displayed())
        self.find("view-answers").click()
        self.assertTrue(self.find("turns").is_displayed())

    def test_little_height_scrolls(self):
        self.size(640, 320)  # a phone on its side
        self.ask()
        self.browser.execute_script("scrollTo(0, document.documentElement.scrollHeight)")
        self.assertTrue(self.is_in_view(self.find("ask"), "form"))

    def test_code_and_tables_keep_their_columns(self):
        self.add("steps.py", CODE)
        self.pick("steps.py")
        self.assertEqual(self.all("#text p"), [])
        self.assertEqual("".join(self.browser.execute_script(
            "return [...document.querySelectorAll('#text pre')].map((n) => n.textContent)")), CODE)
        font = lambda node: node.value_of_css_property("font-family")
        self.assertIn("mono", font(self.all("#text pre")[0]))
        self.add("mixed.md", "Prose that is long. " * 30 + "\n\n```\na   b\nc d\n```\nMore prose.\n" +
                 "name     price\nvalve    45\n" + "And the end of it.\n" * 12)
        self.pick("mixed.md")
        self.assertEqual([node.text for node in self.all("#text pre")],
                         ["```\na   b\nc d\n```", "name     price\nvalve    45"])

    def test_a_document_is_removed_after_a_confirmation(self):
        self.add("gone.txt", "It goes. " * 30)
        self.pick("gone.txt")
        self.find("remove").click()
        self.wait(lambda: self.find("remove-dialog").is_displayed())
        self.assertIn("gone.txt", self.find("remove-text").text)
        self.browser.switch_to.active_element.send_keys(Keys.ENTER)  # the harmless choice is the first
        self.wait(lambda: not self.find("remove-dialog").is_displayed())
        self.assertIn("gone.txt", self.names())
        self.find("remove").click()
        self.find("remove-dialog").find_element(By.CSS_SELECTOR, "[value=remove]").click()
        self.wait(lambda: "gone.txt" not in self.names())
        self.wait(lambda: self.all("#text p:not(.empty)"))

    def test_a_document_with_two_names_is_listed_by_both(self):
        self.add("one.txt", "The same text. " * 30)
        with open(os.path.join(self.folder.name, "two.txt"), "w", encoding="utf-8") as file:
            file.write("The same text. " * 30)
        self.find("file").send_keys(file.name)
        self.wait(lambda: "one.txt, two.txt" in self.names())

    def test_a_collection_shows_the_document_of_each_passage(self):
        self.add("bridge.txt", "Tolvin bridge was built by Mara.\n")
        self.addCleanup(self.pick, self.name)  # the page opens with what was picked last
        self.browser.execute_script(
            "const s = document.getElementById('documents');"
            "s.value = [...s.options].find((o) => o.textContent === 'All documents').value;"
            "s.dispatchEvent(new Event('change'))")
        self.wait(lambda: "documents" in self.find("facts").text)
        self.assertRegex(self.find("facts").text, r"^\d+ documents, \d+ indexed$")
        self.assertIn("Ask a question", self.find("text").text)
        # Its documents are listed, and can be opened and checked against before a question is asked.
        self.find("cite").click()
        self.assertFalse(self.find("cite-submit").is_enabled())
        self.assertTrue(self.find("cite-why").is_displayed())
        self.wait(lambda: self.all("#text .documents button"))
        [entry] = [b for b in self.all("#text .documents button") if b.text == "bridge.txt"]
        entry.click()
        self.wait(lambda: "Tolvin bridge" in self.find("text").text)
        self.assertEqual(self.find("beside-name").text, "bridge.txt")
        turn = self.check_text("Mara built Tolvin bridge.")
        self.assertIn("bridge.txt, ", turn.text)
        self.assertIn("Tolvin", self.all("#text mark.current")[0].text)
        self.find("beside-list").click()
        self.wait(lambda: self.all("#text .documents button"))
        self.find("cite-back").click()
        self.assertFalse(self.find("remove").is_displayed())
        passages = self.ask().find_elements(By.CSS_SELECTOR, ".passages button")
        self.assertIn(FACT, passages[0].text)
        self.assertTrue(passages[0].text.startswith(self.name + ", "), passages[0].text)
        self.wait(lambda: self.all("#text mark.current"))
        self.assertIn(FACT, self.all("#text mark.current")[0].text)
        summary = self.all(".turn .receipt summary")[-1].text
        self.assertRegex(summary, r"; asked \d of \d+ documents$")
        # Another document answers the next question, and its text takes the place.
        passages = self.ask("Who built Tolvin bridge?").find_elements(By.CSS_SELECTOR,
                                                                      ".passages button")
        self.assertTrue(passages[0].text.startswith("bridge.txt, "), passages[0].text)
        self.wait(lambda: "Tolvin bridge" in self.find("text").text)
        # The first turn's passage brings its document back, also after a reload.
        self.all(".turn")[1].find_elements(By.CSS_SELECTOR, ".passages button")[0].click()
        self.wait(lambda: FACT in self.find("text").text)
        self.open(self.url())
        self.assertIn(FACT, self.find("text").text)
        self.assertEqual(len(self.all(".turn")), 3)
        self.assertEqual(self.find("beside-name").text, self.name)
        link = self.copied(self.all(".turn")[1])
        self.assertIn("#collection=all&question=", link)

    def test_without_a_document_nothing_can_be_asked_and_the_way_is_said(self):
        for flags, way in ((["--allow-index"], "choose “Add…”"), ([], "--allow-index")):
            with tempfile.TemporaryDirectory(prefix="lectern-page-") as folder:
                server = Server(os.path.join(folder, "store"), "--model", MODEL, *flags)
                self.browser.get(f"http://127.0.0.1:{server.port}/")
                self.wait(lambda: self.all("#turns .empty"))
                self.assertIn(way, self.find("turns").text)
                for name in ("ask", "question", "new"):
                    self.assertFalse(self.find(name).is_enabled(), name)
                self.assertFalse(self.find("remove").is_displayed())
                if flags:  # while the first one is indexed, that is said
                    path = os.path.join(folder, "first.txt")
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(TEXT)
                    self.browser.execute_script(
                        "window.said = []; new MutationObserver(() => said.push("
                        "document.getElementById('text').textContent)).observe("
                        "document.getElementById('text'), {childList: true})")
                    self.find("file").send_keys(path)
                    self.wait(lambda: self.find("ask").is_enabled())
                    said = self.browser.execute_script("return said")
                    self.assertIn("The first document is being indexed", said[0])
                    self.assertFalse([text for text in said if "There is no document" in text])
                self.assertEqual(server.stop()[0], 0)

    def test_the_model_is_named(self):
        self.assertRegex(self.find("facts").text, r"^[\d,]+ tokens, model: the bundled one, which is small$")

    def test_warnings_look_unlike_answers(self):
        # A share that somebody chooses takes the place of the automatic one.
        self.assertTrue(self.find("auto").is_selected())
        self.browser.execute_script("const share = document.getElementById('budget'); share.value = 10;"
                                    "share.dispatchEvent(new Event('input'))")
        self.assertFalse(self.find("auto").is_selected())
        turn = self.ask("How many committees are there?")
        note = turn.find_element(By.CSS_SELECTOR, ".note")
        answer = turn.find_element(By.CSS_SELECTOR, ".answer")
        style = lambda node, name: node.value_of_css_property(name)
        self.assertNotEqual(style(note, "background-color"), style(answer, "background-color"))
        self.assertEqual(style(note, "border-left-width"), "4px")

    def test_contrast_and_sizes_are_those_of_wcag_2_2_aa(self):
        self.find("compare").click()
        self.ask()
        self.ask("How many committees are there?")
        self.check_text(FACT + " Zebras xylophone quietly.")
        self.browser.execute_script(
            "const node = document.createElement('div'); node.className = 'answer';"
            "document.querySelector('.turn').append(showMarkdown(node, arguments[0]));"
            "document.getElementById('cite-form').hidden = document.getElementById('form').hidden = false",
            MARKDOWN)
        self.browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = true)")
        for theme in ("light", "dark"):
            self.theme(theme)
            for size in ((1400, 900), (400, 800)):
                self.size(*size)
                for shown in ("answers", "document"):
                    self.browser.execute_script("view(arguments[0])", shown)
                    self.assertEqual(self.browser.execute_script(FAULTS), [], (theme, size, shown))
            self.browser.execute_script("view('answers'); keepSaying('Something.'); document.getElementById('remove').click()")
            self.assertEqual(self.browser.execute_script(FAULTS), [], theme)
            self.browser.execute_script("document.getElementById('remove-dialog').close('keep')")

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
            self.size(1280, 700)
            self.wait(lambda: self.find("strip").size["height"] < 700)
            self.assertGreater(self.strip()[0], 0)
        finally:
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_small_screens_scroll_one_way_and_keep_the_question(self):
        self.size(500, 800)
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
        self.browser.execute_script("chosen.id = '0'.repeat(32)")
        turn = self.ask()
        self.assertTrue(turn.find_element(By.CSS_SELECTOR, ".error").text)
        self.browser.get_log("browser")  # Chromium notes the 404
        self.assertTrue(self.find("ask").is_displayed())


if __name__ == "__main__":
    unittest.main()
