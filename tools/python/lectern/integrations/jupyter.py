"""How a notebook shows an answer, a passage and a cited text: as HTML, with
pages, headings and the words in common. Answer, Passage and CitedText have it as _repr_html_.

Texts are escaped: a document may hold HTML of its own. Colours are translucent, so that they suit
light and dark pages."""
from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ..results import Answer, CitedText, Passage, Range

_PASSAGE = "margin:.4em 0;padding:.2em .8em;border-left:3px solid rgba(128,128,128,.5)"
_SMALL = "opacity:.7;font-size:90%"


def marked(text: str, start: int, highlights: Iterable[Range]) -> str:
    """The text, which begins at `start` of its document, with the highlights in <mark>."""
    shown, at = "", 0
    for one in sorted(highlights, key=lambda one: one.start):
        begin, end = max(at, one.start - start), min(len(text), one.end - start)
        if begin < end:
            shown += escape(text[at:begin]) + f"<mark>{escape(text[begin:end])}</mark>"
            at = end
    return shown + escape(text[at:])


def place_of(passage: Passage) -> str:
    """Where the passage stands: "lease, p. 3, Rent > Repairs"; "" where nothing is known."""
    return ", ".join(filter(None, (passage.document, passage.label and f"p. {passage.label}",
                                   passage.heading)))


def html_of_passage(passage: Passage) -> str:
    place = place_of(passage)
    below = f'<div style="{_SMALL}">{escape(place)}</div>' if place else ""
    return (f'<div style="{_PASSAGE}">{marked(passage.text, passage.start, passage.highlights)}'
            f"{below}</div>")


def html_of_answer(answer: Answer) -> str:
    shown = f'<div style="white-space:pre-wrap">{escape(answer.text)}</div>'
    shown += "".join(map(html_of_passage, answer.passages))
    if answer.note:
        shown += f'<div style="{_SMALL}">{escape(answer.note)}</div>'
    return f'<div class="lectern-answer">{shown}</div>'


def html_of_cited(cited: CitedText) -> str:
    """Each sentence, with a tick or a cross, and its best passage."""
    shown = ""
    for sentence in cited.sentences:
        sign = "✓" if sentence.supported else "✗"
        best = html_of_passage(sentence.passages[0]) if sentence.passages else ""
        shown += f"<div>{sign} {escape(sentence.text)}{best if sentence.supported else ''}</div>"
    return f'<div class="lectern-cited">{shown}</div>'
