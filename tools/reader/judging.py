"""Which questions judge an adapter, and whether an answer to one is right."""

import hashlib
import re


def is_held_out(package):
    """One package in eleven: no question about them is trained on."""
    return hashlib.sha256(package.encode()).digest()[0] % 11 == 0


def is_refusal(answer):
    return answer.lower().startswith("the document does not")


def is_right(question, answer):
    """Whether an answer is right: a fact, if an accepted string is in it; a question that the text does
    not answer, if it is a refusal. Case does not count."""
    if question["kind"] == "absent":
        return is_refusal(answer)
    said = answer.lower()
    for accepted in question["answers"]:
        accepted = accepted.lower()
        # One letter or digit stands in many words.
        if accepted in said and (len(accepted) > 1 or re.search(rf"\b{re.escape(accepted)}\b", said)):
            return True
    return False
