#!/usr/bin/env python3
"""Writes an invented document with facts in it, and questions about the facts.

    generate.py --bytes 12000 --facts 12 --questions 8 --seed 1 --out DIR --name NAME

DIR/NAME.txt is plain prose: facts about invented people, towns, ships, ... between sentences that
state nothing. DIR/NAME.jsonl has one question per line:

    {"question": ..., "answer": ..., "fact": the sentence that states it, "begin": ..., "end": ...}

with the byte range of the fact in the text. The same arguments give the same bytes. The reader
model in this folder was trained on such texts; what it finds easy is the default: every fact
names its entity before the value, in a wording of the training set, and no two entities are made
to look alike (--hard, --value-first and --templates eval change that). Names are split by their
checksum, so that those of --split eval (the default) were never seen in training.

Standard library only.
"""

import argparse
import json
import pathlib
import random
import zlib

# ---- invented names and other values -------------------------------------------------------------
# Each of these takes the random source and the split, and returns a string.

ONSETS = "b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh sk st t th tr v w z".split()
VOWELS = "a e i o u a e i o ai ea ou".split()
CODAS = ["", "", "n", "r", "l", "s", "m", "th", "nd", "rk", "x", "ck", "lt"]
TOWN_ENDS = ("by dale ford holm mere stead wick ton ville burg shire haven more field "
             "land").split()


def invent(r, split, syllables=2, ending=""):
    """A capitalised word of the split: one in eight belongs to eval."""
    while True:
        word = "".join(
            r.choice(ONSETS) + r.choice(VOWELS)
            + (r.choice(CODAS) if i == syllables - 1 or r.random() < 0.4 else "")
            for i in range(syllables)) + ending
        held_out = zlib.crc32(word.encode()) % 8 == 0
        if len(word) <= 11 and held_out == (split == "eval"):
            return word.capitalize()


def person(r, split):
    return invent(r, split, r.choice([1, 2, 2])) + " " + invent(r, split)


def town(r, split):
    return invent(r, split, r.choice([1, 1, 2]), r.choice(TOWN_ENDS) if r.random() < 0.6 else "")


def village(r, split):
    return "the village of " + town(r, split)


def company(r, split):
    kinds = "Labs Works Group Trust Motors Foods Press Systems".split()
    return invent(r, split) + " " + r.choice(kinds)


def structure(r, split):
    kinds = "bridge tower museum library station theatre dam lighthouse chapel".split()
    return "the " + invent(r, split, r.choice([1, 2, 2])) + " " + r.choice(kinds)


def ship(r, split):
    return "the ship " + invent(r, split)


def depot(r, split):
    kind = r.choice("depot locker vault room gate cabin".split())
    if r.random() < 0.6:
        return f"{kind} {r.choice('ABCDEFGHJKLMNPQRSTUVWXZ')}{r.randint(1, 99)}"
    return kind + " " + invent(r, split, 1)


def device(r, split):
    kind = r.choice("pump engine scanner radio drone printer".split())
    number = "" if r.random() < 0.5 else f" {r.randint(2, 99)}"
    return f"the {kind} {invent(r, split, 1)}{number}"


def project(r, split):
    return "Project " + invent(r, split)


def book(r, split):
    return "the novel " + invent(r, split)


def festival(r, split):
    return f"the {invent(r, split)} " + r.choice("festival fair race council regatta".split())


def word(r, split):
    return invent(r, split).lower()


def year(r, split):
    return str(r.randint(1400, 2090))


def date(r, split):
    return f"{r.randint(1, 28)} {r.choice(MONTHS)}"


def digits(r, split):
    return "".join(r.choice("0123456789") for _ in range(4))


def label(r, split):
    letters = "ABCDEFGHJKLMNPQRSTUVWXZ"
    return f"{r.choice(letters)}{r.choice(letters)}-{r.randint(100, 999)}"


def amount(low, high, unit):
    return lambda r, split: f"{r.randint(low, high)} {unit}"


def one_of(words):
    return lambda r, split: r.choice(words)


COLOURS = ("red blue green yellow purple orange silver black white brown golden grey pink crimson "
           "violet").split()
MATERIALS = ("granite steel timber marble brick copper glass concrete iron slate bronze "
             "limestone").split()
JOBS = ("baker pilot surgeon teacher carpenter painter lawyer farmer tailor sailor chemist judge "
        "miner poet nurse").split()
PETS = ("parrot rabbit tortoise spaniel goat pony ferret hedgehog canary lizard donkey "
        "beagle").split()
INSTRUMENTS = "violin flute cello trumpet piano drum harp guitar oboe banjo organ clarinet".split()
FOODS = "rice honey cheese lemons walnuts onions bread salmon olives mushrooms barley plums".split()
CARGO = "coal grain wool salt timber cotton tea sugar marble copper wine spices".split()
SPORTS = ("tennis chess rowing archery fencing cricket boxing cycling sailing judo polo "
          "skating").split()
MONTHS = ("January February March April May June July August September October November "
          "December").split()
GENRES = "mystery comedy tragedy romance satire fable thriller memoir western".split()

# ---- facts ---------------------------------------------------------------------------------------
# What can be said of an entity: nouns / by slashes, the value, statements and questions by bars.
# Wordings after the double bar were not trained on. {e} is the entity, {E} capitalised, {v} the
# value.

DOMAINS = {
    "person": (person, [
        ("birthplace/home town", town,
         "{E} was born in {v}. | {E} grew up in {v}. || {E} comes from {v}.",
         "Where was {e} born? | In which town did {e} grow up? || Where does {e} come from?"),
        ("profession/job", one_of(JOBS),
         "{E} works as a {v}. | {E} is employed as a {v}. || {E} makes a living as a {v}.",
         "What does {e} do for a living? | What job does {e} have? || What does {e} work as?"),
        ("birth year/year of birth", year,
         "{E} was born in the year {v}. || {E} came into the world in {v}.",
         "In which year was {e} born? | When was {e} born? || What year was {e} born in?"),
        ("employer", company,
         "{E} works for {v}. | {E} was hired by {v}. || {E} took a post at {v}.",
         "Which company does {e} work for? | Who hired {e}? || For whom does {e} work?"),
        ("pet", one_of(PETS),
         "{E} owns a {v}. | {E} keeps a {v} at home. || {E} looks after a {v}.",
         "What animal does {e} own? | What pet does {e} keep? || Which animal does {e} look "
         "after?"),
        ("instrument", one_of(INSTRUMENTS),
         "{E} plays the {v}. | {E} learned to play the {v}. || {E} performs on the {v}.",
         "Which instrument does {e} play? | What does {e} play? || What instrument did {e} "
         "learn?"),
        ("favourite colour", one_of(COLOURS),
         "{E} likes the colour {v} best. || {E} prefers the colour {v}.",
         "Which colour does {e} like best? || What colour does {e} prefer?"),
        ("favourite food", one_of(FOODS),
         "{E} loves to eat {v}. || {E} likes eating {v} most.",
         "What does {e} love to eat? || Which food does {e} like most?"),
        ("spouse", person,
         "{E} is married to {v}. | {E} married {v}. || {E} wed {v}.",
         "Who is {e} married to? | Whom did {e} marry? || Who is the husband or wife of {e}?"),
        ("phone extension/phone number", digits,
         "{E} can be reached at extension {v}. || To call {e}, dial {v}.",
         "At which extension can {e} be reached? || Which number reaches {e}?"),
        ("sport/hobby", one_of(SPORTS),
         "{E} practises {v} every week. || {E} spends weekends on {v}.",
         "Which sport does {e} practise? || What does {e} do on weekends?"),
    ]),
    "structure": (structure, [
        ("designer/architect", person,
         "{E} was designed by {v}. | {v} designed {e}. || {E} was drawn up by {v}.",
         "Who designed {e}? | By whom was {e} designed? || Who was the person who designed {e}?"),
        ("opening year", year,
         "{E} opened in {v}. | {E} was opened in the year {v}. || {E} welcomed its first "
         "visitors in {v}.",
         "When did {e} open? | In what year was {e} opened? || In which year did {e} open?"),
        ("height", amount(11, 399, "metres"),
         "{E} is {v} tall. | {E} rises to {v}. || {E} stands {v} high.",
         "How tall is {e}? || How high is {e}?"),
        ("location", town,
         "{E} is located in {v}. | {E} stands in {v}. || {E} can be found in {v}.",
         "Where is {e}? | Where is {e} located? || Where can {e} be found?"),
        ("building material", one_of(MATERIALS),
         "{E} is made of {v}. | {E} was built from {v}. || {E} consists of {v}.",
         "What is {e} made of? | From which material was {e} built? || What does {e} consist of?"),
        ("owner", company,
         "{E} belongs to {v}. | {E} is owned by {v}. || {E} is the property of {v}.",
         "Who owns {e}? | To whom does {e} belong? || Whose property is {e}?"),
    ]),
    "device": (device, [
        ("manufacturer/maker", company,
         "{E} was made by {v}. | {E} is produced by {v}. || {E} comes from the factory of {v}.",
         "Who made {e}? | Which company produces {e}? || Who is {e} made by?"),
        ("serial number", digits,
         "{E} carries the serial number {v}. || {E} bears serial number {v}.",
         "Which serial number does {e} carry? || What serial number is on {e}?"),
        ("price", amount(12, 9800, "crowns"),
         "{E} costs {v}. | {E} is sold for {v}. || {E} can be bought for {v}.",
         "How much does {e} cost? | For how much is {e} sold? || How much must one pay for {e}?"),
        ("weight", amount(3, 950, "kilos"),
         "{E} weighs {v}. || {E} has a mass of {v}.",
         "How much does {e} weigh? || How heavy is {e}?"),
        ("colour", one_of(COLOURS),
         "{E} is painted {v}. || {E} has a {v} finish.",
         "What colour is {e}? || In which colour is {e} painted?"),
        ("inventor", person,
         "{E} was invented by {v}. | {v} invented {e}. || {E} is the invention of {v}.",
         "Who invented {e}? || By whom was {e} invented?"),
    ]),
    "depot": (depot, [
        ("access code/entry code", digits,
         "{E} opens with the code {v}. | To enter {e}, use the code {v}. || {E} is unlocked by"
         " {v}.",
         "Which code opens {e}? | What code do I need to enter {e}? || How is {e} unlocked?"),
        ("manager/keeper", person,
         "{E} is managed by {v}. | {E} is looked after by {v}. || {E} is run by {v}.",
         "Who manages {e}? | Who looks after {e}? || Who runs {e}?"),
        ("password", word,
         "{E} is protected by the password {v}. || Say {v} to get into {e}.",
         "Which password protects {e}? || What must be said to get into {e}?"),
        ("content", one_of(CARGO),
         "{E} is filled with {v}. | {E} is used to store {v}. || {E} holds {v}.",
         "What is stored in {e}? | What is {e} filled with? || What does {e} hold?"),
        ("label", label,
         "{E} is marked with the label {v}. || {E} has {v} written on it.",
         "Which label marks {e}? || What is written on {e}?"),
    ]),
    "company": (company, [
        ("founder", person,
         "{E} was founded by {v}. | {v} founded {e}. || {E} was started by {v}.",
         "Who founded {e}? | By whom was {e} founded? || Who started {e}?"),
        ("headquarters/main office", town,
         "{E} is based in {v}. | {E} has its head office in {v}. || {E} operates from {v}.",
         "Where is {e} based? | In which town is the head office of {e}? || Where does {e} "
         "operate from?"),
        ("founding year", year,
         "{E} was founded in {v}. || {E} was set up in {v}.",
         "When was {e} founded? | In which year was {e} founded? || When was {e} set up?"),
        ("staff/number of workers", amount(12, 990, "workers"),
         "{E} employs {v}. || {E} gives work to {v}.",
         "How many workers does {e} employ? || How many people work at {e}?"),
        ("director", person,
         "{E} is led by {v}. | {E} is directed by {v}. || {E} is headed by {v}.",
         "Who leads {e}? | Who directs {e}? || Who is the head of {e}?"),
    ]),
    "ship": (ship, [
        ("captain", person,
         "{E} is commanded by {v}. | {E} sails under {v}. || {E} obeys captain {v}.",
         "Who commands {e}? | Under whom does {e} sail? || Who is in command of {e}?"),
        ("home port", town,
         "{E} is registered in {v}. || {E} returns each winter to {v}.",
         "Where is {e} registered? || To which port does {e} return?"),
        ("launch year", year,
         "{E} was launched in {v}. || {E} first sailed in {v}.",
         "When was {e} launched? | In which year was {e} launched? || When did {e} first sail?"),
        ("cargo", one_of(CARGO),
         "{E} carries {v}. | {E} is loaded with {v}. || {E} transports {v}.",
         "What does {e} carry? | What is {e} loaded with? || What does {e} transport?"),
    ]),
    "project": (project, [
        ("leader", person,
         "{E} is led by {v}. | {v} leads {e}. || {E} is in the hands of {v}.",
         "Who leads {e}? | Who is in charge of {e}? || In whose hands is {e}?"),
        ("budget", amount(100, 9900, "crowns"),
         "{E} may spend {v}. || {E} was granted {v}.",
         "How much may {e} spend? || How much was {e} granted?"),
        ("deadline", date,
         "{E} must be finished by {v}. | {E} ends on {v}. || {E} is due on {v}.",
         "By when must {e} be finished? | On which date does {e} end? || When is {e} due?"),
        ("code word", word,
         "{E} uses the code word {v}. || {E} answers to the word {v}.",
         "Which code word does {e} use? || To which word does {e} answer?"),
    ]),
    "book": (book, [
        ("author", person,
         "{E} was written by {v}. | {v} wrote {e}. || {E} came from the pen of {v}.",
         "Who wrote {e}? | By whom was {e} written? || Who is the writer of {e}?"),
        ("genre", one_of(GENRES),
         "{E} is a {v}. || {E} is classed as a {v}.",
         "What kind of book is {e}? || How is {e} classed?"),
        ("length", amount(60, 990, "pages"),
         "{E} has {v}. || {E} runs to {v}.",
         "How many pages does {e} have? || How long is {e}?"),
        ("setting", town,
         "{E} is set in {v}. || {E} plays in {v}.",
         "Where is {e} set? || Where does {e} play?"),
    ]),
    "festival": (festival, [
        ("date", date,
         "{E} takes place on {v}. | {E} is held on {v}. || {E} falls on {v}.",
         "When does {e} take place? | On which date is {e} held? || When is {e} held?"),
        ("host town", town,
         "{E} takes place in {v}. || {E} is hosted by {v}.",
         "Where does {e} take place? || Which town hosts {e}?"),
        ("winner", person,
         "{E} was won by {v}. | {v} won {e}. || {E} ended with a victory for {v}.",
         "Who won {e}? || By whom was {e} won?"),
        ("entry fee", amount(2, 95, "crowns"),
         "Entry to {e} costs {v}. || Visitors of {e} pay {v}.",
         "How much does entry to {e} cost? || How much do visitors of {e} pay?"),
    ]),
    "village": (village, [
        ("mayor", person,
         "{E} is governed by mayor {v}. | {v} is mayor of {e}. || {E} elected {v} as mayor.",
         "Who is the mayor of {e}? | Who governs {e}? || Whom did {e} elect as mayor?"),
        ("population", amount(120, 9900, "people"),
         "{E} is home to {v}. || {E} counts {v}.",
         "How many people live in {e}? || How many people does {e} count?"),
        ("main export", one_of(FOODS + CARGO),
         "{E} is known for its {v}. | {E} exports {v}. || {E} earns its money with {v}.",
         "What is {e} known for? | What does {e} export? || With what does {e} earn its money?"),
        ("river", word,
         "{E} lies on the river {v}. || Past {e} runs the river {v}.",
         "On which river does {e} lie? || Which river runs past {e}?"),
    ]),
}

# Wordings for any attribute, {n} its noun. The value-first ones are hard for the reader: it has
# passed the value before it knows whose it is.
STATEMENTS = ("The {n} of {e} is {v}. | {E} has the {n} {v}. | For {e}, the {n} is {v}. | "
              "{E}'s {n} is {v}. | It is known that the {n} of {e} is {v}. | "
              "As for {e}, the {n} was given as {v}. | "
              "The register says that the {n} of {e} is {v}. | The {n} of {e} was {v}. || "
              "The {n} recorded for {e} was {v}. | In the case of {e}, the {n} is {v}. | "
              "Everyone agrees that {e} has the {n} {v}.")
VALUE_FIRST = ["{v} is the {n} of {e}.", "The clerk noted {v} as the {n} of {e}.",
               "We found {v} to be the {n} of {e}."]
QUESTIONS = ("What is the {n} of {e}? | What is {e}'s {n}? | Tell me the {n} of {e}. | "
             "What was the {n} given for {e}? | For {e}, what is the {n}? | "
             "Name the {n} of {e}. || Can you say what the {n} of {e} is? | "
             "State the {n} for {e}. | Regarding {e}, what is its {n}?")


def wordings(table_entry, templates):
    """The wordings of one entry that belong to `templates`, train or eval."""
    train, held_out = table_entry.split(" || ")
    return (train if templates == "train" else held_out).split(" | ")


def capitalise(sentence):
    return sentence[0].upper() + sentence[1:]


def make_fact(r, entity, attribute, options):
    """-> {"fact", "question", "answer"}"""
    nouns, value_of, statements, questions = attribute
    nouns, value = nouns.split("/"), value_of(r, options.split)
    if r.random() < 0.5:
        first = options.templates == "train" and r.random() < options.value_first
        choices = VALUE_FIRST if first else wordings(STATEMENTS, options.templates)
    else:
        choices = wordings(statements, options.templates)
        if options.value_first == 0:
            entity_first = [c for c in choices if c.index("{v}") > c.lower().index("{e}")]
            choices = entity_first or choices
    fact = r.choice(choices).format(n=r.choice(nouns), e=entity, E=capitalise(entity), v=value)
    choices = wordings(QUESTIONS if r.random() < 0.4 else questions, options.templates)
    question = r.choice(choices).format(n=r.choice(nouns), e=entity)
    return {"fact": capitalise(fact), "question": question, "answer": value}


def look_alike(r, entity, other):
    """`entity` with one word of `other` at the same place, if both have several."""
    words, others = entity.split(" "), other.split(" ")
    if len(words) == len(others) > 1:
        place = r.randrange(len(words))
        words[place] = others[place]
    return " ".join(words)


def make_facts(r, count, options):
    """`count` facts, none about the same attribute of the same entity. With chance --hard an
    entity looks like the one before and mostly has the same attributes."""
    facts, seen, before = [], set(), None
    while len(facts) < count:
        if before and r.random() < options.hard:
            domain, other, attributes = before
            make_entity, all_attributes = DOMAINS[domain]
            entity = look_alike(r, make_entity(r, options.split), other)
            if r.random() >= 0.6:
                attributes = r.sample(all_attributes, min(len(all_attributes), r.randint(1, 3)))
        else:
            domain = r.choice(list(DOMAINS))
            make_entity, all_attributes = DOMAINS[domain]
            entity = make_entity(r, options.split)
            how_many = min(options.per_entity, r.choice([1, 1, 2, 2, 3, 4]))
            attributes = r.sample(all_attributes, how_many)
        if entity in seen:
            continue
        seen.add(entity)
        before = (domain, entity, attributes)
        facts += [make_fact(r, entity, attribute, options) for attribute in attributes]
    r.shuffle(facts)
    return facts[:count]


# ---- sentences that state nothing ----------------------------------------------------------------

ADJECTIVES = ("old quiet narrow bright heavy early young distant broken gentle careful strange "
              "warm hollow busy plain tall wooden foreign patient sharp grey simple curious local "
              "empty").split()
NOUNS = ("road market river garden letter window door ladder kettle farmer clerk visitor child "
         "teacher guard merchant boat cart horse basket lamp table wall roof field forest hill "
         "harbour kitchen street orchard bell clock coat rope barrel mill bakery school meadow "
         "fence stone path cloud storm winter morning evening song story newspaper meeting "
         "journey dinner").split()
VERBS = ("crossed watched carried repaired opened closed followed painted cleaned remembered "
         "ignored moved visited described measured admired sold borrowed returned lifted covered "
         "counted dropped noticed kept searched").split()
ADVERBS = ("slowly|often|quietly|again|without a word|before noon|after the rain|in the evening|"
           "near the wall|during the winter|for many years|with great care|every morning|as usual|"
           "once more|by mistake|at the same time|since the last harvest|for no reason|"
           "in spite of the cold|on the way home|under the trees").split("|")
OPENINGS = ("Meanwhile|Later|In those days|By then|Of course|Even so|After a while|On most days|"
            "At first").split("|")
# {o}: thing, {p}: person, {d}: verb, {a}: adverb, {j}: adjective, {i}: opening, {m}: number.
# Names and numbers occur here too, so that neither marks a fact.
FILLERS = [
    (25, "{o} {d} {o} {a}."),
    (15, "{i}, {o} {d} {o}."),
    (10, "There was {o} beside {o}, and {o} {d} it {a}."),
    (10, "{o} was {j}, but {o} was {j} and {j}."),
    (8, "Nobody knew why {o} {d} {o}."),
    (8, "{p} {d} {o} {a}."),
    (4, "About {m} of them {d} {o} {a}."),
    (4, "{i}, {o} was so {j} that nobody {d} it."),
    (4, "{o} and {o} were {j} {a}."),
    (4, "Whoever {d} {o} also {d} {o}."),
    (4, "When {o} was {j}, {o} {d} {o} {a}."),
    (4, "It was said that {o} never {d} {o}."),
]


def filler(r, options):
    template = r.choices([f for _, f in FILLERS], [w for w, _ in FILLERS])[0]

    def thing():
        noun = (r.choice(ADJECTIVES) + " " if r.random() < 0.5 else "") + r.choice(NOUNS)
        article = r.choice(["the", "the", "a", "one", "every", "that"])
        return ("an" if article == "a" and noun[0] in "aeiou" else article) + " " + noun

    parts = {"{o}": thing, "{p}": lambda: person(r, options.split), "{d}": lambda: r.choice(VERBS),
             "{a}": lambda: r.choice(ADVERBS), "{j}": lambda: r.choice(ADJECTIVES),
             "{i}": lambda: r.choice(OPENINGS), "{m}": lambda: str(r.randint(2, 2000))}
    for slot, make in parts.items():
        while slot in template:
            template = template.replace(slot, make(), 1)
    return capitalise(template)


# ---- documents -----------------------------------------------------------------------------------

def make_document(options):
    """-> text, questions. All ASCII, so that characters are bytes."""
    r = random.Random(options.seed)
    facts = make_facts(r, options.facts, options)
    left = options.bytes - sum(len(f["fact"]) + 1 for f in facts)
    fillers = []
    while True:
        # The reader knows a paragraph as a line break before a sentence and its space.
        sentence = ("\n " if r.random() < 0.06 else " ") + filler(r, options)
        left -= len(sentence)
        if left < 0:
            break
        fillers.append(sentence)
    total = len(facts) + len(fillers)
    places = set(r.sample(range(total), len(facts)))
    text, rest, waiting = "", iter(fillers), iter(facts)
    for i in range(total):
        if i not in places:
            text += next(rest)
            continue
        fact = next(waiting)
        text += " " + fact["fact"]
        fact["end"] = len(text)
        fact["begin"] = len(text) - len(fact["fact"])
    skipped = len(text) - len(text.lstrip())
    for fact in facts:
        fact["begin"] -= skipped
        fact["end"] -= skipped
    keys = ("question", "answer", "fact", "begin", "end")
    asked = r.sample(facts, options.questions)
    return text.lstrip(), [{k: fact[k] for k in keys} for fact in asked]


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, required=True, help="at most so long a text")
    parser.add_argument("--facts", type=int, required=True)
    parser.add_argument("--questions", type=int, required=True, help="at most one per fact")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--per-entity", type=int, choices=[1, 2, 3, 4], default=4,
                        help="most facts about one entity (4)")
    parser.add_argument("--hard", type=float, default=0.0,
                        help="chance that an entity looks like the one before (0)")
    parser.add_argument("--value-first", type=float, default=0.0,
                        help="chance of a general wording with the value first (0)")
    parser.add_argument("--split", choices=["train", "eval"], default="eval",
                        help="whose names (eval)")
    parser.add_argument("--templates", choices=["train", "eval"], default="train",
                        help="whose wordings (train)")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--name", required=True)
    options = parser.parse_args(arguments)
    if options.questions > options.facts:
        parser.error("more questions than facts")
    if options.bytes < 100 * options.facts:
        parser.error("no room: 100 bytes per fact are needed")
    return options


def main():
    options = parse()
    text, questions = make_document(options)
    options.out.mkdir(parents=True, exist_ok=True)
    # No line break at the end: every byte of the file is read as part of the document.
    (options.out / f"{options.name}.txt").write_text(text, encoding="ascii", newline="\n")
    with open(options.out / f"{options.name}.jsonl", "w", encoding="ascii", newline="\n") as out:
        for question in questions:
            out.write(json.dumps(question) + "\n")


if __name__ == "__main__":
    main()
