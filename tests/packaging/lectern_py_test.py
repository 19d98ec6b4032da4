#!/usr/bin/env python3
"""tools/samples/python/lectern.py: errors, streaming, cancelling, offsets. Needs LD_LIBRARY_PATH,
PYTHONPATH, READER; packaging_test.py runs it."""
import os
import pathlib
import tempfile
import threading
import unittest

import lectern

TEXT = "Ünal has two boats. The Douquouth committee meets in Stuxwick. Ann sings. "


class Lectern(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.engine = lectern.Engine(pathlib.Path(cls.folder.name) / "store", os.environ["READER"])
        cls.stages = []
        cls.report = cls.engine.index(TEXT, name="towns",
                                      on_progress=lambda event: cls.stages.append(event.stage))

    @classmethod
    def tearDownClass(cls):
        cls.engine.close()
        cls.folder.cleanup()

    def test_indexes_with_progress(self):
        self.assertIn("prefill", self.stages)
        self.assertTrue(self.engine.index(TEXT, name="towns")["existed"])
        self.assertEqual([one["name"] for one in self.engine.documents()], ["towns"])

    def test_streams_what_it_answers_and_counts_code_points(self):
        pieces = []
        with self.engine.open("towns") as session:
            answer = session.ask("Where does the Douquouth committee meet?", on_text=pieces.append)
        self.assertEqual("".join(pieces), answer.text)
        self.assertTrue(answer.evidence)
        for passage in answer.evidence:
            self.assertEqual(TEXT[passage.begin:passage.end], passage.text)

    def test_asks_a_collection(self):
        texts = {"towns": TEXT, "fruit": "Ällo. Quinces are sold in Osk on Tuesdays alone."}
        added = self.engine.add("papers", texts)
        self.assertEqual([one["change"] for one in added], ["new", "new"])
        self.assertEqual(self.engine.text("papers", "fruit"), texts["fruit"])
        [mention] = self.engine.mentions("papers", "quinces")
        self.assertEqual(mention["name"], "fruit")
        with self.engine.open_collection("papers") as session:
            answer = session.ask("Where does the Douquouth committee meet?", max_tokens=12)
        self.assertTrue(answer.evidence)
        for passage in answer.evidence:
            self.assertEqual(passage.document, "towns")
            self.assertEqual(TEXT[passage.begin:passage.end], passage.text)
        with self.assertRaises(lectern.Error) as caught:
            self.engine.text("papers", "none")
        self.assertEqual((caught.exception.code, caught.exception.param), ("not_found", "document"))

    def test_errors_are_exceptions(self):
        with self.assertRaises(lectern.Error) as caught:
            self.engine.open("villages")
        self.assertEqual(caught.exception.code, "not_found")
        self.assertIn("villages", str(caught.exception))
        with self.assertRaises(lectern.Error) as caught, self.engine.open("towns") as session:
            session.ask("Who?", kv_budget=7)
        self.assertEqual((caught.exception.code, caught.exception.param),
                         ("invalid_argument", "kv_budget"))
        with self.assertRaises(lectern.Error) as caught:
            self.engine.remove("villages")
        self.assertEqual(caught.exception.code, "not_found")

    def test_what_a_callback_raises_comes_through(self):
        def fail(_):
            raise ZeroDivisionError

        with self.engine.open("towns") as session, self.assertRaises(ZeroDivisionError):
            session.ask("Where does the Douquouth committee meet?", on_text=fail)
        with self.assertRaises(ZeroDivisionError):
            self.engine.index("Another text.", on_progress=fail)

    def test_cancels(self):
        with self.engine.open("towns") as session:
            answer = session.ask("Where does the committee meet?", on_text=lambda _: False)
            self.assertEqual(answer.finish_reason, "cancelled")

            def cancel(_):
                thread = threading.Thread(target=session.cancel)
                thread.start()
                thread.join()

            answer = session.ask("Where does the committee meet?", on_text=cancel)
            self.assertEqual(answer.finish_reason, "cancelled")

    def test_a_closed_handle_is_an_error(self):
        session = self.engine.open("towns")
        session.close()
        with self.assertRaises(lectern.Error) as caught:
            session.ask("Who?")
        self.assertEqual(caught.exception.code, "invalid_handle")


if __name__ == "__main__":
    unittest.main()
