"""Documents with facts in them, and questions about the facts.

make_document() draws a document of one task:

    facts      facts of facts.py in several registers (prose, manual, catalogue, table, letters,
               minutes) between sentences that state nothing; questions of the kinds `fact`,
               `two_hop`, `multi_value`, `list`, `negative` and `refusal`
    needle     "special magic numbers" (RULER, arXiv 2404.06654: single, multi-key, multi-value and
               multi-query needles); questions of the kind `needle`
    variable   chains of assignments (RULER's variable tracking); `variable`
    words      a list of words of which some occur often (RULER's common words); `words`

A document is a list of pieces of text whose concatenation is the document; a question knows the
pieces that answer it, with the byte range of the statement in each. All text is ASCII, so that
characters are bytes. Standard library only.
"""

import dataclasses

import facts as F

KINDS = ("fact", "two_hop", "multi_value", "list", "negative", "refusal", "needle", "variable",
         "words")
REGISTERS = ("prose", "catalogue", "manual", "table", "letter", "minutes")


@dataclasses.dataclass
class Options:
    """How documents are drawn."""
    split: str = "train"        # names and sentences that state nothing: train or eval
    wordings: str = "train"     # statements and questions: train or eval
    hard: float = 0.5           # chance that an entity is made to look like the one before
    linked: float = 0.3         # chance that a value is an entity with facts of its own
    extras: float = 0.1         # share of statements with a second value, a correction, an absence
    refusals: float = 0.12      # questions without an answer, per fact
    per_entity: int = 4         # most facts of an entity
    blocks: float = 0.35        # chance that an entity's facts stand together in a register
    registers: tuple = REGISTERS
    simple: bool = False        # one plain sentence a fact, its entity before its value


@dataclasses.dataclass
class Piece:
    text: str
    statements: list = dataclasses.field(default_factory=list)   # of Statement


@dataclasses.dataclass
class Statement:
    begin: int                  # byte range in the piece
    end: int
    piece: int = -1             # its place in the document


@dataclasses.dataclass
class Question:
    text: str
    answers: list               # of (value, Statement): the answer joins the values in text order
    kind: str
    fixed: str = ""             # the answer where it is not a value of the document
    entity: str = ""
    via: tuple = None           # (value, Statement) that leads to the entity which answers

    def answer(self):
        """The answer as the reader should give it."""
        if self.fixed:
            return self.fixed
        ordered = sorted(self.answers, key=lambda a: (a[1].piece, a[1].begin))
        return ", ".join(value for value, _ in ordered)


@dataclasses.dataclass
class Fact:
    entity: str
    domain: str
    attribute: F.Attribute
    value: str
    statement: Statement = None


@dataclasses.dataclass
class Document:
    pieces: list
    questions: list

    def text(self):
        return "".join(piece.text for piece in self.pieces)

    def byte_ranges(self, question):
        """Where the question's statements stand in text()."""
        starts = [0]
        for piece in self.pieces:
            starts.append(starts[-1] + len(piece.text))
        return [(starts[s.piece] + s.begin, starts[s.piece] + s.end)
                for _, s in sorted(question.answers, key=lambda a: (a[1].piece, a[1].begin))]


def capitalise(text):
    return text[0].upper() + text[1:]


def fill(template, r, entity, attribute, **values):
    """A template with its names filled in, as a sentence. Draws one of the nouns of the
    attribute."""
    values = {"e": entity, "E": capitalise(entity), "n": r.choice(attribute.nouns), **values}
    return capitalise(template.format(**values))


def led(r, leads, template, chance):
    """The template with a lead before it, so that it no longer begins a sentence."""
    if r.random() >= chance:
        return template
    inner = template.replace("{E}", "{e}")
    if not inner.startswith("{"):
        inner = inner[0].lower() + inner[1:]
    return r.choice(leads).replace("{s}", inner)


# ---- facts ---------------------------------------------------------------------------------------

def look_alike(r, entity, other):
    """`entity` with one word of `other` at the same place, if both have several."""
    words, others = entity.split(" "), other.split(" ")
    if len(words) == len(others) > 1:
        place = r.randrange(len(words))
        words[place] = others[place]
    return " ".join(words)


def make_facts(r, count, o):
    """-> [[Fact, ...], ...]: the facts of each entity, `count` of them or a few more. No two are
    about the same attribute of the same entity."""
    groups, used, before, linked = [], set(), None, []
    total = 0
    while total < count:
        if linked and r.random() < 0.7:
            domain, entity = linked.pop()
            make, every = F.DOMAINS[domain]
            chosen = r.sample(every, min(len(every), o.per_entity, r.choice([1, 2, 3])))
        elif before and r.random() < o.hard:
            domain, other, chosen = before
            make, every = F.DOMAINS[domain]
            entity = look_alike(r, make(r, o.split), other)
            if r.random() >= 0.6:
                chosen = r.sample(every, min(len(every), o.per_entity, r.randint(1, 3)))
        else:
            domain = r.choice(list(F.DOMAINS))
            make, every = F.DOMAINS[domain]
            entity = make(r, o.split)
            chosen = r.sample(every, min(len(every), o.per_entity, r.choice([1, 1, 2, 2, 3, 4])))
        if entity in used:
            continue
        used.add(entity)
        before = (domain, entity, chosen)
        group = []
        for attribute in chosen:
            value = attribute.value_of(r, o.split)
            if attribute.target and value not in used and r.random() < o.linked:
                linked.append((attribute.target, value))
            group.append(Fact(entity, domain, attribute, value))
        groups.append(group)
        total += len(group)
    return groups


def statement_of(r, fact, o):
    """A sentence that states the fact."""
    a = fact.attribute
    choices = (F.STATEMENTS if r.random() < 0.35 else a.statements)[o.wordings]
    if o.simple:
        choices = [c for c in choices if c.find("{v}") > c.lower().find("{e}")] or choices
    template = led(r, F.LEADS[o.wordings], r.choice(choices), 0.0 if o.simple else 0.1)
    return fill(template, r, fact.entity, a, v=fact.value)


def question_of(r, fact, o, entity=None):
    """A question about the fact's attribute, of `entity` instead of the fact's where it is
    given."""
    a = fact.attribute
    choices = F.QUESTIONS if r.random() < 0.35 else a.questions
    template = led(r, F.QUESTION_LEADS[o.wordings], r.choice(choices[o.wordings]), 0.1)
    return fill(template, r, entity or fact.entity, a)


def state(fact, text, begin, end):
    """Sets and returns where in its piece the fact is stated."""
    fact.statement = Statement(begin, end)
    return fact.statement


def sentence_piece(r, fact, text):
    return Piece(text, [state(fact, text, 0, len(text))])


def join(lines, separator):
    """-> Piece of (text, fact or None) lines; each fact's statement is its line."""
    piece = Piece("")
    for text, fact in lines:
        if piece.text:
            piece.text += separator
        if fact:
            begin = len(piece.text)
            piece.statements.append(state(fact, text, begin, begin + len(text)))
        piece.text += text
    return piece


def prose_pieces(r, group, o):
    """Sentences for the facts of one entity, some of them shared by two facts."""
    pieces, rest = [], list(group)
    while rest:
        fact = rest.pop()
        if rest and not o.simple and r.random() < 0.2:
            own = [s for s in fact.attribute.statements[o.wordings] if s.startswith("{E} ")]
            more = [s for s in rest[-1].attribute.statements[o.wordings] if s.startswith("{E} ")]
            if own and more:
                other = rest.pop()
                first = fill(r.choice(own), r, fact.entity, fact.attribute, v=fact.value)
                second = r.choice(more).format(E="{E}", v=other.value)[len("{E} "):]
                if fact.domain != "person" and r.random() < 0.4:
                    text = first + " It " + second
                else:
                    text = first[:-1] + " and " + second
                piece = Piece(text, [state(fact, text, 0, len(text)),
                                     state(other, text, 0, len(text))])
                pieces.append(piece)
                continue
        pieces.append(sentence_piece(r, fact, statement_of(r, fact, o)))
    return pieces


def block_piece(r, group, register, o):
    """All facts of one entity in one piece, in the manner of a register."""
    entity = capitalise(group[0].entity)
    noun = lambda f: r.choice(f.attribute.nouns)
    if register == "manual":
        bullet = r.choice(["- ", "* ", ""])
        lines = [("\n\n" + "#" * r.choice([1, 2, 3]) + " " + entity, None)]
        lines += [(bullet + capitalise(noun(f)) + ": " + f.value, f) for f in group]
        return join(lines, "\n")
    if register == "catalogue":
        lines = [(capitalise(noun(f)) + ": " + f.value, f) for f in group]
        piece = join(lines, "; ")
        lead = "\n" + entity + r.choice([". ", ": ", " - "])
        for s in piece.statements:
            s.begin, s.end = s.begin + len(lead), s.end + len(lead)
        piece.text = lead + piece.text + "."
        return piece
    if register == "letter":
        who = r.choice(["Dear Sir,", "Dear Madam,", "Dear " + F.person(r, o.split) + ","])
        lines = [("\n\n" + who + " you ask about " + group[0].entity + ".", None)]
        lines += [(statement_of(r, f, o), f) for f in group]
        lines += [("Yours, " + F.person(r, o.split), None)]
        return join(lines, " ")
    assert register == "minutes"
    number = r.randint(1, 20)
    lines = []
    for i, f in enumerate(group):
        statements = f.attribute.statements[o.wordings]
        template = r.choice(statements).replace("{E}", "{e}")
        template = template if template.startswith("{") else template[0].lower() + template[1:]
        said = template.format(e=f.entity, v=f.value)
        who = r.choice(["The chair", "The clerk", F.person(r, o.split)])
        how = r.choice(["reported that", "told the meeting that", "noted that"])
        lines.append((f"{number + i}. {who} {how} {said}", f))
    piece = join(lines, "\n")
    shift_separator(piece, "\n")
    return piece


def table_piece(r, groups):
    """Entities of one domain as rows; a column for each attribute that one of them has."""
    columns = []
    for f in (f for group in groups for f in group):
        if f.attribute not in columns:
            columns.append(f.attribute)
    head = [r.choice(["name", "entry", "item"])] + [r.choice(c.nouns) for c in columns]
    piece = Piece("\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for group in groups:
        piece.text += "\n"
        begin = len(piece.text)
        values = {id(f.attribute): f.value for f in group}
        cells = [group[0].entity] + [values.get(id(c), "-") for c in columns]
        piece.text += "| " + " | ".join(cells) + " |"
        piece.statements += [state(f, piece.text, begin, len(piece.text)) for f in group]
    return piece


def fact_pieces(r, count, o):
    """-> pieces that state facts, questions about them."""
    groups = make_facts(r, count, o)
    pieces, questions = [], []
    known = {}                                   # entity -> its attributes
    for group in groups:
        known.setdefault(group[0].entity, []).extend(f.attribute for f in group)
    i = 0
    while i < len(groups):
        group = groups[i]
        i += 1
        register = "prose"
        if r.random() < o.blocks:
            register = r.choice(o.registers)
        if register == "table":
            rows = [group]
            while i < len(groups) and groups[i][0].domain == group[0].domain and len(rows) < 5:
                rows.append(groups[i])
                i += 1
            pieces.append(table_piece(r, rows))
            plain = [f for row in rows for f in row]
        elif register != "prose":
            pieces.append(block_piece(r, group, register, o))
            plain = group
        else:
            plain = prose_group(r, group, o, known, pieces, questions)
        for fact in plain:
            kind = "list" if " and " in fact.value else "fact"
            questions.append(Question(question_of(r, fact, o), [(fact.value, fact.statement)], kind,
                                      entity=fact.entity))
    add_two_hop(r, groups, o, questions)
    add_refusals(r, groups, known, o, questions)
    return pieces, questions


def prose_group(r, group, o, known, pieces, questions):
    """Sentences for a group; questions of the unusual ones. -> the facts that are plain."""
    plain = []
    for fact in group:
        if r.random() >= o.extras:
            plain.append(fact)
            continue
        a, form = fact.attribute, r.choice(["second", "second", "correction", "absence"])
        other = a.value_of(r, o.split)
        ask = lambda: question_of(r, fact, o)
        if form == "absence":
            fact.value = None                    # leads nowhere, see add_two_hop
            text = fill(r.choice(F.ABSENCES[o.wordings]), r, fact.entity, a)
            pieces.append(sentence_piece(r, fact, text))
            questions.append(Question(ask(), [(F.NONE, fact.statement)], "negative", F.NONE,
                                      fact.entity))
        elif other == fact.value or " and " in fact.value:
            plain.append(fact)
        elif form == "correction":
            text = fill(r.choice(F.CORRECTIONS[o.wordings]), r, fact.entity, a, v=fact.value,
                        w=other)
            pieces.append(sentence_piece(r, fact, text))
            questions.append(Question(ask(), [(fact.value, fact.statement)], "negative",
                                      entity=fact.entity))
        else:
            pieces.append(sentence_piece(r, fact, statement_of(r, fact, o)))
            text = fill(r.choice(F.ADDITIONS[o.wordings]), r, fact.entity, a, v=other,
                        V=capitalise(other))
            addition = Fact(fact.entity, fact.domain, a, other)
            pieces.append(sentence_piece(r, addition, text))
            asked = fill(r.choice(F.MULTI_QUESTIONS[o.wordings]), r, fact.entity, a)
            questions.append(Question(asked, [(fact.value, fact.statement),
                                              (other, addition.statement)], "multi_value",
                                      entity=fact.entity))
            fact.value = None                    # no longer the only one
    pieces += prose_pieces(r, plain, o)
    return plain


def add_two_hop(r, groups, o, questions):
    """Appends questions about an entity by way of a fact whose value it is. Facts without a value
    (None) lead nowhere."""
    by_entity = {group[0].entity: group for group in groups}
    for fact in (f for group in groups for f in group):
        if not fact.attribute.target or fact.value not in by_entity:
            continue
        for last in by_entity[fact.value]:
            if last.value is None:
                continue
            inner = r.choice(F.INNER[o.wordings]).format(n=r.choice(fact.attribute.nouns),
                                                         e=fact.entity)
            questions.append(Question(question_of(r, last, o, inner),
                                      [(last.value, last.statement)], "two_hop",
                                      entity=fact.entity, via=(fact.value, fact.statement)))


def add_refusals(r, groups, known, o, questions):
    """Questions that the document does not answer: of an entity in it, an attribute that it does
    not have; or of an entity that only looks like one in it, an attribute which that one has."""
    count = sum(len(group) for group in groups)
    wanted = sum(r.random() < o.refusals for _ in range(count))
    for _ in range(wanted):
        group = r.choice(groups)
        entity, domain = group[0].entity, group[0].domain
        make, every = F.DOMAINS[domain]
        missing = [a for a in every if a not in known[entity]]
        if missing and r.random() < 0.5:
            attribute = r.choice(missing)
        else:
            attribute = r.choice(group).attribute
            entity = look_alike(r, make(r, o.split), entity)
            if entity in known:
                continue
        asked = question_of(r, Fact(entity, domain, attribute, ""), o)
        questions.append(Question(asked, [], "refusal", F.NOT_STATED, entity))


# ---- RULER's tasks -------------------------------------------------------------------------------

KEYS = ("amber basil cedar delta ember fern grove hazel ivory jasper karst lotus maple nectar onyx "
        "pearl quartz raven sage topaz umber velvet willow yarrow zephyr").split()


def needle_pieces(r, count, o):
    """-> pieces with `count` numbers or a few more, questions about all keys, all in one mode."""
    mode = r.choice(["multikey", "multikey", "multivalue", "multiquery"])
    pieces, by_key = [], {}
    while len(pieces) < count:
        if r.random() < 0.6:
            key = F.invent(r, o.split, 1).lower() + "-" + r.choice(KEYS)
        else:
            key = F.word(r, o.split)
        if key in by_key:
            continue
        for _ in range(r.choice([2, 3]) if mode == "multivalue" else 1):
            value = F.digits(r, o.split, 5)
            text = f"One of the special magic numbers for {key} is: {value}."
            statement = Statement(0, len(text))
            pieces.append(Piece(text, [statement]))
            by_key.setdefault(key, []).append((value, statement))
    questions, keys = [], list(by_key)
    for key in keys:
        if mode == "multivalue":
            text = f"What are all the special magic numbers for {key} mentioned in the text?"
            answers = by_key[key]
        elif mode == "multiquery" and len(keys) > 1:
            other = r.choice([k for k in keys if k != key])
            text = f"What are the special magic numbers for {key} and {other}?"
            answers = by_key[key] + by_key[other]
        else:
            text = f"What is the special magic number for {key} mentioned in the text?"
            answers = by_key[key]
        questions.append(Question(text, answers, "needle", entity=key))
    return pieces, questions


def variable_pieces(r, count, o):
    """-> pieces with `count` assignments or up to three more, a question for each chain."""
    pieces, questions, names = [], [], set()
    while len(pieces) < count:
        chain, value = [], F.digits(r, o.split, 5)
        answers, length = [], r.choice([2, 3, 4])
        while len(chain) < length:
            name = "".join(r.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(3))
            if name in names:
                continue
            names.add(name)
            text = f"VAR {name} = " + (f"VAR {chain[-1]}." if chain else f"{value}.")
            chain.append(name)
            statement = Statement(0, len(text))
            pieces.append(Piece(text, [statement]))
            answers.append((name, statement))
        questions.append(Question(f"Which variables have the value {value}?", answers, "variable",
                                  entity=value))
    return pieces, questions


def words_pieces(r, count, o):
    """Lists of words; three words of the document are on every list, the others on one."""
    common = [F.word(r, o.split) for _ in range(3)]
    pieces, statements = [], []
    for _ in range(max(3, count)):
        listed = list(common)                    # in the same order everywhere
        for _ in range(3):
            listed.insert(r.randint(0, len(listed)), F.word(r, o.split))
        text = "Words: " + ", ".join(listed) + "."
        statements.append(Statement(0, len(text)))
        pieces.append(Piece(text, [statements[-1]]))
    question = Question("Which three words are on every list?",
                        [(w, s) for w, s in zip(common, statements)], "words", ", ".join(common),
                        "")
    return pieces, [question]


MAKERS = {"facts": fact_pieces, "needle": needle_pieces, "variable": variable_pieces,
          "words": words_pieces}

# ---- sentences that state nothing ----------------------------------------------------------------

ADJECTIVES = ("old quiet narrow bright heavy early young distant broken gentle careful strange "
              "warm hollow busy plain tall wooden foreign patient sharp grey simple curious local "
              "empty").split()
NOUNS = ("road market river garden letter window door ladder kettle farmer clerk visitor child "
         "teacher guard merchant boat cart horse basket lamp table wall roof field forest hill "
         "harbour kitchen street orchard bell clock coat rope barrel mill bakery school meadow "
         "fence stone path cloud storm winter morning evening song story newspaper meeting "
         "journey dinner").split()
VERBS = {"train": ("crossed watched carried repaired opened closed followed painted cleaned "
                   "remembered ignored moved visited described measured admired sold borrowed "
                   "returned lifted covered").split(),
         "eval": "counted dropped noticed kept searched".split()}
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
    (10, "{p} {d} {o} {a}."),
    (4, "About {m} of them {d} {o} {a}."),
    (4, "{i}, {o} was so {j} that nobody {d} it."),
    (4, "{o} and {o} were {j} {a}."),
    (4, "Whoever {d} {o} also {d} {o}."),
    (4, "When {o} was {j}, {o} {d} {o} {a}."),
    (4, "It was said that {o} never {d} {o}."),
    (3, "In the year {y}, {p} {d} {o}."),
]


def filler(r, split):
    """A sentence that states nothing."""
    template = r.choices([f for _, f in FILLERS], [w for w, _ in FILLERS])[0]

    def thing():
        noun = (r.choice(ADJECTIVES) + " " if r.random() < 0.5 else "") + r.choice(NOUNS)
        article = r.choice(["the", "the", "a", "one", "every", "that"])
        return ("an" if article == "a" and noun[0] in "aeiou" else article) + " " + noun

    parts = {"{o}": thing, "{p}": lambda: F.person(r, split), "{d}": lambda: r.choice(VERBS[split]),
             "{a}": lambda: r.choice(ADVERBS), "{j}": lambda: r.choice(ADJECTIVES),
             "{i}": lambda: r.choice(OPENINGS), "{m}": lambda: str(r.randint(2, 2000)),
             "{y}": lambda: F.year(r, split)}
    for slot, make in parts.items():
        while slot in template:
            template = template.replace(slot, make(), 1)
    return capitalise(template)


# ---- documents -----------------------------------------------------------------------------------

def make_document(r, size, count, o, task="facts", measure=len, other_filler=None):
    """-> Document of about `size` (as `measure` sees its pieces) with `count` facts or needles;
    fewer where they do not fit. The last sentence passes `size`; a statement never does.

    other_filler: takes the random source and returns a sentence to use instead of a made one, or
    None."""
    pieces, questions = MAKERS[task](r, count, o)
    left, kept = size, []
    for piece in pieces:
        if not piece.text.startswith("\n"):
            piece.text = separator(r) + piece.text
            shift = len(piece.text) - len(piece.text.lstrip())
            for s in piece.statements:
                s.begin, s.end = s.begin + shift, s.end + shift
        left -= measure(piece.text)
        if left < 0 and kept:
            break
        kept.append(piece)
    fillers = []
    while left > 0:
        text = separator(r) + ((other_filler and other_filler(r)) or filler(r, o.split))
        fillers.append(Piece(text))
        left -= measure(text)
    r.shuffle(kept)
    count = len(kept) + len(fillers)
    # The last piece, which may pass the size, is not a statement if there is another.
    free = count - 1 if fillers else count
    slots = set(r.sample(range(free), len(kept)))
    ordered, ended = [], False
    for i in range(count):
        piece = kept.pop() if i in slots else fillers.pop()
        block = piece.text.startswith("\n") and len(piece.statements) > 0
        if ended and piece.text.startswith(" "):       # after a heading, a row or a list
            shift_separator(piece, "\n\n")
        ended = block
        for s in piece.statements:
            s.piece = i
        ordered.append(piece)
    shift_separator(ordered[0], "")
    present = [q for q in questions
               if all(s.piece >= 0 for _, s in q.answers)
               and (q.via is None or q.via[1].piece >= 0)]
    r.shuffle(present)
    return Document(ordered, present)


def separator(r):
    """A blank, mostly; else a line break or an empty line."""
    return r.choices([" ", "\n", "\n\n"], [90, 3, 7])[0]


def shift_separator(piece, separator):
    """Puts `separator` in the place of the white space before a piece, and moves its statements
    along."""
    body = piece.text.lstrip(" \n")
    shift = len(separator) - (len(piece.text) - len(body))
    piece.text = separator + body
    for s in piece.statements:
        s.begin, s.end = s.begin + shift, s.end + shift
