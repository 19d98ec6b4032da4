"""The facts that generated documents can state: invented entities, their attributes, and the wordings.

Everything is divided into what the reader is trained on ("train") and what only evaluations use
("eval"): every name by the checksum of its invented word, every wording by the side of the double
bar that it stands on, every sentence that states nothing by its verb. Nothing here knows of
documents; documents.py puts them together. Standard library only.
"""

import zlib

# ---- invented names and other values -------------------------------------------------------------
# Each of these takes the random source and the split, and returns a string.

ONSETS = "b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh sk st t th tr v w z".split()
VOWELS = "a e i o u a e i o ai ea ou".split()
CODAS = ["", "", "n", "r", "l", "s", "m", "th", "nd", "rk", "x", "ck", "lt"]
TOWN_ENDS = ("by dale ford holm mere stead wick ton ville burg shire haven more field "
             "land").split()


def is_held_out(name):
    """One invented word in eight is never seen in training, whatever its case."""
    return zlib.crc32(name.lower().encode()) % 8 == 0


def invent(r, split, syllables=2, ending=""):
    """An invented word of at most 11 letters, capitalised. Draws until one is of the split."""
    while True:
        word = "".join(
            r.choice(ONSETS) + r.choice(VOWELS)
            + (r.choice(CODAS) if i == syllables - 1 or r.random() < 0.4 else "")
            for i in range(syllables)) + ending
        if len(word) <= 11 and is_held_out(word) == (split == "eval"):
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


def committee(r, split):
    return f"the {invent(r, split)} " + r.choice("committee board panel society club".split())


def word(r, split):
    return invent(r, split).lower()


def year(r, split):
    return str(r.randint(1400, 2090))


def date(r, split):
    return f"{r.randint(1, 28)} {r.choice(MONTHS)}"


def clock_time(r, split):
    return f"{r.randint(0, 23):02}:{r.choice(['00', '15', '30', '45', '10', '40'])}"


def digits(r, split, count=4):
    return "".join(r.choice("0123456789") for _ in range(count))


def label(r, split):
    letters = "ABCDEFGHJKLMNPQRSTUVWXZ"
    return f"{r.choice(letters)}{r.choice(letters)}-{r.randint(100, 999)}"


def amount(low, high, unit):
    return lambda r, split: f"{r.randint(low, high)} {unit}"


def one_of(words):
    return lambda r, split: r.choice(words)


def enumerate_in_words(items):
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def several(value_of):
    """Two or three different values in one sentence: "a, b and c"."""
    def make(r, split):
        items = []
        while len(items) < 2 or (len(items) < 3 and r.random() < 0.5):
            item = value_of(r, split)
            if item not in items:
                items.append(item)
        return enumerate_in_words(items)
    return make


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


# ---- attributes ----------------------------------------------------------------------------------

def wordings(text):
    """"a | b || c" -> {"train": ["a", "b"], "eval": ["c"]}"""
    train, held_out = text.split("||")
    return {"train": [w.strip() for w in train.split("|")],
            "eval": [w.strip() for w in held_out.split("|")]}


def sentence(wording):
    """A wording that does not name the entity is what is said of it."""
    named = "{e}" in wording or "{E}" in wording
    return (wording if named else "{E} " + wording) + "."


class Attribute:
    """One thing that can be said of an entity.

    nouns       names of the attribute, exchangeable
    value_of    makes a value
    statements  {"train": [...], "eval": [...]}; {e} the entity ({E} capitalised), {v} the value
    questions   the same
    target      the domain that a value is an entity of, for questions over two facts, or None
    """

    def __init__(self, nouns, value_of, statements, questions, target=None):
        self.nouns = nouns.split("/")
        self.value_of = value_of
        self.statements = {split: [sentence(w) for w in these]
                           for split, these in wordings(statements).items()}
        self.questions = wordings(questions)
        self.target = target


def person_attribute(nouns, statements, questions):
    return Attribute(nouns, person, statements, questions, "person")


def company_attribute(nouns, statements, questions):
    return Attribute(nouns, company, statements, questions, "company")


A, P, C = Attribute, person_attribute, company_attribute

# name -> (makes an entity, its attributes)
DOMAINS = {
    "person": (person, [
        A("birthplace/home town/place of birth", town,
          "was born in {v} | grew up in {v} | spent a happy childhood in {v} | "
          "first saw the light of day in {v} || comes from {v} | was raised in {v}",
          "Where was {e} born? | In which town did {e} grow up? | Where did {e} spend childhood? | "
          "What town was {e} born in? || Where does {e} come from? | In what place was {e} raised?"),
        A("profession/job/occupation", one_of(JOBS),
          "works as a {v} | is employed as a {v} | has been a {v} for years | trained to be a {v} |"
          " earns a living as a {v} || makes a living as a {v} | is a {v} by trade",
          "What does {e} do for a living? | What job does {e} have? | As what is {e} employed? | "
          "What did {e} train to be? || What does {e} work as? | What is {e} by trade?"),
        A("birth year/year of birth", year,
          "was born in the year {v} | has a birth certificate from {v} | dates from {v} by birth |"
          " was born in {v} || came into the world in {v}",
          "In which year was {e} born? | When was {e} born? | What year is on the birth certificate "
          "of {e}? || What year was {e} born in?"),
        C("employer", "works for {v} | was hired by {v} | is on the payroll of {v} | joined {v} | "
          "signed a contract with {v} || took a post at {v} | serves at {v}",
          "Which company does {e} work for? | Who hired {e}? | On whose payroll is {e}? | "
          "Which company did {e} join? || For whom does {e} work? | Where did {e} take a post?"),
        A("pet", one_of(PETS),
          "owns a {v} | keeps a {v} at home | bought a {v} | walks a {v} every day || "
          "looks after a {v} | shares the house with a {v}",
          "What animal does {e} own? | What pet does {e} keep? | What animal did {e} buy? | "
          "Which animal lives with {e}? || Which animal does {e} look after?"),
        A("instrument", one_of(INSTRUMENTS),
          "plays the {v} | learned to play the {v} | practises the {v} at night | "
          "is known for playing the {v} || performs on the {v} | makes music on the {v}",
          "Which instrument does {e} play? | What does {e} play? | What is {e} known for playing? | "
          "What did {e} learn to play? || What instrument did {e} learn?"),
        A("favourite colour", one_of(COLOURS),
          "likes the colour {v} best | always wears {v} | is fond of the colour {v} | "
          "thinks {v} is the finest colour || prefers the colour {v}",
          "Which colour does {e} like best? | What colour does {e} always wear? | "
          "Of which colour is {e} fond? || What colour does {e} prefer?"),
        A("favourite food", one_of(FOODS),
          "loves to eat {v} | never says no to {v} | has {v} for every meal | "
          "would do anything for {v} || likes eating {v} most",
          "What does {e} love to eat? | What does {e} never say no to? | "
          "What does {e} have for every meal? || Which food does {e} like most?"),
        P("spouse", "is married to {v} | married {v} | shares a home with {v} as a spouse | "
          "{e} and {v} are married || wed {v} | took {v} in marriage",
          "Who is {e} married to? | Whom did {e} marry? | With whom is {e} married? || "
          "Who is the husband or wife of {e}?"),
        A("phone extension/phone number", digits,
          "can be reached at extension {v} | answers the phone on {v} | has the phone number {v} | "
          "gave {v} as a phone number || To call {e}, dial {v} | picks up at extension {v}",
          "At which extension can {e} be reached? | On which number does {e} answer the phone? | "
          "What phone number did {e} give? || Which number reaches {e}?"),
        A("sport/hobby", one_of(SPORTS),
          "practises {v} every week | is keen on {v} | took up {v} as a hobby | "
          "won a cup in {v} || spends weekends on {v} | trains hard in {v}",
          "Which sport does {e} practise? | What is {e} keen on? | What did {e} take up as a hobby? |"
          " In what did {e} win a cup? || What does {e} do on weekends?"),
    ]),
    "structure": (structure, [
        P("designer/architect", "was designed by {v} | owes its shape to {v} | is the work of {v} | "
          "{v} designed {e} | The plans for {e} were made by {v} || was drawn up by {v}",
          "Who designed {e}? | By whom was {e} designed? | To whom does {e} owe its shape? | "
          "Whose work is {e}? | Who made the plans for {e}? || Who was the person who designed {e}?"),
        A("opening year", year,
          "opened in {v} | was opened in the year {v} | has been open since {v} | "
          "was handed over to the public in {v} || welcomed its first visitors in {v}",
          "When did {e} open? | In what year was {e} opened? | Since when has {e} been open? || "
          "In which year did {e} open? | When did {e} welcome its first visitors?"),
        A("height", amount(11, 399, "metres"),
          "is {v} tall | rises to {v} | reaches a height of {v} | measures {v} from top to bottom ||"
          " stands {v} high",
          "How tall is {e}? | To what height does {e} rise? | What height does {e} reach? || "
          "How high is {e}?"),
        A("location", town,
          "is located in {v} | stands in {v} | is one of the sights of {v} | was put up in {v} || "
          "can be found in {v}",
          "Where is {e}? | Where is {e} located? | In which town does {e} stand? | "
          "Where was {e} put up? || Where can {e} be found?"),
        A("building material", one_of(MATERIALS),
          "is made of {v} | was built from {v} | has walls of {v} | is mostly {v} || "
          "consists of {v} | was put together from {v}",
          "What is {e} made of? | From which material was {e} built? | "
          "Of what are the walls of {e}? || What does {e} consist of?"),
        C("owner", "belongs to {v} | is owned by {v} | was bought by {v} | "
          "{v} owns {e} || is the property of {v} | is in the hands of {v}",
          "Who owns {e}? | To whom does {e} belong? | Who bought {e}? || Whose property is {e}?"),
    ]),
    "device": (device, [
        C("manufacturer/maker", "was made by {v} | is produced by {v} | was built by {v} | "
          "bears the name of its maker, {v} | {v} makes {e} || comes from the factory of {v}",
          "Who made {e}? | Which company produces {e}? | By whom was {e} built? || "
          "Who is {e} made by? | From whose factory does {e} come?"),
        A("serial number", digits,
          "carries the serial number {v} | is listed under serial number {v} | "
          "is number {v} in the series | has {v} stamped on it as a serial number || "
          "bears serial number {v}",
          "Which serial number does {e} carry? | Under which serial number is {e} listed? | "
          "What is stamped on {e} as a serial number? || What serial number is on {e}?"),
        A("price", amount(12, 9800, "crowns"),
          "costs {v} | is sold for {v} | was priced at {v} | sells at {v} | "
          "Buyers of {e} pay {v} || can be bought for {v} | sets you back {v}",
          "How much does {e} cost? | For how much is {e} sold? | At what is {e} priced? | "
          "What do buyers of {e} pay? || How much must one pay for {e}?"),
        A("weight", amount(3, 950, "kilos"),
          "weighs {v} | brings {v} to the scales | is {v} in weight | tips the scales at {v} || "
          "has a mass of {v}",
          "How much does {e} weigh? | What does {e} bring to the scales? | "
          "At what does {e} tip the scales? || How heavy is {e}?"),
        A("colour", one_of(COLOURS),
          "is painted {v} | comes in {v} | has a {v} case | was delivered in {v} || "
          "has a {v} finish",
          "What colour is {e}? | What colour does {e} come in? | In what colour was {e} delivered? ||"
          " In which colour is {e} painted?"),
        P("inventor", "was invented by {v} | goes back to an idea of {v} | was first built by {v} | "
          "{v} invented {e} || is the invention of {v}",
          "Who invented {e}? | To whose idea does {e} go back? | Who first built {e}? || "
          "By whom was {e} invented?"),
    ]),
    "depot": (depot, [
        A("access code/entry code", digits,
          "opens with the code {v} | To enter {e}, use the code {v} | has a lock set to {v} | "
          "lets you in with the code {v} || is unlocked by {v}",
          "Which code opens {e}? | What code do I need to enter {e}? | To what is the lock of {e} "
          "set? | Which code lets me into {e}? || How is {e} unlocked?"),
        P("manager/keeper", "is managed by {v} | is looked after by {v} | is kept by {v} | "
          "{v} has the keys of {e} | {v} manages {e} || is run by {v} | is the duty of {v}",
          "Who manages {e}? | Who looks after {e}? | By whom is {e} kept? | "
          "Who has the keys of {e}? || Who runs {e}?"),
        A("password", word,
          "is protected by the password {v} | has the password {v} | asks for the password {v} | "
          "opens for those who say {v} || Say {v} to get into {e}",
          "Which password protects {e}? | What password does {e} ask for? | "
          "What must one say to open {e}? || What must be said to get into {e}?"),
        A("content", one_of(CARGO),
          "is filled with {v} | is used to store {v} | has {v} inside | contains {v} | "
          "There is {v} in {e} || holds {v}",
          "What is stored in {e}? | What is {e} filled with? | What is inside {e}? | "
          "What does {e} contain? || What does {e} hold?"),
        A("label", label,
          "is marked with the label {v} | carries the label {v} | is tagged {v} | "
          "appears on the list as {v} || has {v} written on it",
          "Which label marks {e}? | What label does {e} carry? | How is {e} tagged? || "
          "What is written on {e}?"),
    ]),
    "company": (company, [
        P("founder", "was founded by {v} | was the idea of {v} | goes back to {v} | "
          "{v} founded {e} | {v} set up {e} || was started by {v}",
          "Who founded {e}? | By whom was {e} founded? | Whose idea was {e}? | Who set up {e}? || "
          "Who started {e}?"),
        A("headquarters/main office", town,
          "is based in {v} | has its head office in {v} | is run from {v} | has its seat in {v} || "
          "operates from {v}",
          "Where is {e} based? | In which town is the head office of {e}? | From where is {e} run? | "
          "Where does {e} have its seat? || Where does {e} operate from?"),
        A("founding year", year,
          "was founded in {v} | has been in business since {v} | began in {v} | "
          "looks back to the year {v} || was set up in {v}",
          "When was {e} founded? | In which year was {e} founded? | Since when has {e} been in "
          "business? | When did {e} begin? || When was {e} set up?"),
        A("staff/number of workers", amount(12, 990, "workers"),
          "employs {v} | has a staff of {v} | counts on {v} | pays {v} || gives work to {v}",
          "How many workers does {e} employ? | How large is the staff of {e}? | "
          "How many workers does {e} pay? || How many people work at {e}?"),
        P("director", "is led by {v} | is directed by {v} | has {v} at the top | "
          "{v} directs {e} | {v} is in charge of {e} || is headed by {v}",
          "Who leads {e}? | Who directs {e}? | Who is at the top of {e}? | "
          "Who is in charge of {e}? || Who is the head of {e}?"),
        A("product/main product", one_of(FOODS + CARGO),
          "sells {v} | trades in {v} | made its name with {v} | deals in {v} || "
          "lives on the sale of {v}",
          "What does {e} sell? | In what does {e} trade? | With what did {e} make its name? || "
          "What does {e} live on?"),
    ]),
    "ship": (ship, [
        P("captain", "is commanded by {v} | sails under {v} | has {v} as captain | "
          "{v} commands {e} || obeys captain {v}",
          "Who commands {e}? | Under whom does {e} sail? | Whom does {e} have as captain? || "
          "Who is in command of {e}?"),
        A("home port", town,
          "is registered in {v} | has its home port in {v} | winters in {v} | "
          "sets out from {v} || returns each winter to {v}",
          "Where is {e} registered? | In which town is the home port of {e}? | Where does {e} "
          "winter? | From where does {e} set out? || To which port does {e} return?"),
        A("launch year", year,
          "was launched in {v} | left the yard in {v} | has been at sea since {v} | "
          "was built in {v} || first sailed in {v}",
          "When was {e} launched? | In which year was {e} launched? | When did {e} leave the yard? | "
          "Since when has {e} been at sea? || When did {e} first sail?"),
        A("cargo", one_of(CARGO),
          "carries {v} | is loaded with {v} | brings {v} over the sea | has {v} on board || "
          "transports {v}",
          "What does {e} carry? | What is {e} loaded with? | What does {e} bring over the sea? | "
          "What does {e} have on board? || What does {e} transport?"),
        A("length", amount(12, 240, "metres"),
          "is {v} long | has a length of {v} | measures {v} | stretches over {v} || "
          "extends to {v} from end to end",
          "How long is {e}? | What length does {e} have? | How much does {e} measure? || "
          "What is {e} from end to end?"),
    ]),
    "project": (project, [
        P("leader", "is led by {v} | is in the care of {v} | was given to {v} | {v} leads {e} || "
          "is in the hands of {v}",
          "Who leads {e}? | Who is in charge of {e}? | In whose care is {e}? | "
          "To whom was {e} given? || In whose hands is {e}?"),
        A("budget", amount(100, 9900, "crowns"),
          "may spend {v} | has a budget of {v} | received {v} | is funded with {v} || was granted {v}",
          "How much may {e} spend? | What budget does {e} have? | How much did {e} receive? | "
          "With how much is {e} funded? || How much was {e} granted?"),
        A("deadline", date,
          "must be finished by {v} | ends on {v} | has to be ready on {v} | closes on {v} || "
          "is due on {v}",
          "By when must {e} be finished? | On which date does {e} end? | When does {e} have to be "
          "ready? | When does {e} close? || When is {e} due?"),
        A("code word", word,
          "uses the code word {v} | goes by the code word {v} | is called {v} in secret | "
          "has the code word {v} || answers to the word {v}",
          "Which code word does {e} use? | By what code word does {e} go? | "
          "What is {e} called in secret? || To which word does {e} answer?"),
        C("sponsor", "is paid for by {v} | has {v} as its sponsor | is backed by {v} | "
          "{v} pays for {e} || lives on the money of {v}",
          "Who pays for {e}? | Which company is the sponsor of {e}? | By whom is {e} backed? || "
          "On whose money does {e} live?"),
    ]),
    "book": (book, [
        P("author", "was written by {v} | is a work of {v} | made {v} famous | {v} wrote {e} || "
          "came from the pen of {v}",
          "Who wrote {e}? | By whom was {e} written? | Whom did {e} make famous? || "
          "Who is the writer of {e}?"),
        A("genre", one_of(GENRES),
          "is a {v} | is sold as a {v} | can be read as a {v} | was meant as a {v} || "
          "is classed as a {v}",
          "What kind of book is {e}? | As what is {e} sold? | As what was {e} meant? || "
          "How is {e} classed?"),
        A("length", amount(60, 990, "pages"),
          "has {v} | fills {v} | ends after {v} | is {v} long || runs to {v}",
          "How many pages does {e} have? | How many pages does {e} fill? | "
          "After how many pages does {e} end? || How long is {e}?"),
        A("setting", town,
          "is set in {v} | takes its reader to {v} | tells of life in {v} | has {v} as its scene || "
          "plays in {v}",
          "Where is {e} set? | To which town does {e} take its reader? | "
          "Of life in which town does {e} tell? || Where does {e} play?"),
        C("publisher", "was published by {v} | is printed by {v} | appeared with {v} | "
          "{v} published {e} || was brought out by {v}",
          "Who published {e}? | By whom is {e} printed? | With whom did {e} appear? || "
          "Who brought out {e}?"),
    ]),
    "festival": (festival, [
        A("date", date,
          "takes place on {v} | is held on {v} | begins on {v} | is set for {v} || falls on {v}",
          "When does {e} take place? | On which date is {e} held? | When does {e} begin? | "
          "For when is {e} set? || On which day does {e} fall?"),
        A("starting time", clock_time,
          "starts at {v} | opens its gates at {v} | gets going at {v} | has its first call at {v} ||"
          " kicks off at {v}",
          "At what time does {e} start? | When does {e} open its gates? | "
          "At what time does {e} get going? || When does {e} kick off?"),
        A("host town", town,
          "takes place in {v} | draws people to {v} | is held in the streets of {v} | "
          "has its home in {v} || is hosted by {v}",
          "Where does {e} take place? | To which town does {e} draw people? | "
          "In which town is {e} held? || Which town hosts {e}?"),
        P("winner", "was won by {v} | gave its first prize to {v} | crowned {v} | {v} won {e} || "
          "ended with a victory for {v}",
          "Who won {e}? | To whom did {e} give its first prize? | Whom did {e} crown? || "
          "By whom was {e} won?"),
        A("entry fee", amount(2, 95, "crowns"),
          "Entry to {e} costs {v} | asks {v} at the door | charges {v} | can be seen for {v} || "
          "Visitors of {e} pay {v}",
          "How much does entry to {e} cost? | How much does {e} ask at the door? | "
          "What does {e} charge? || How much do visitors of {e} pay?"),
    ]),
    "village": (village, [
        P("mayor", "is governed by mayor {v} | has {v} as mayor | chose {v} to be mayor | "
          "{v} is mayor of {e} || elected {v} as mayor",
          "Who is the mayor of {e}? | Who governs {e}? | Whom did {e} choose to be mayor? || "
          "Whom did {e} elect as mayor?"),
        A("population", amount(120, 9900, "people"),
          "is home to {v} | has {v} | houses {v} | gives shelter to {v} || counts {v}",
          "How many people live in {e}? | To how many people is {e} home? | "
          "How many people does {e} house? || How many people does {e} count?"),
        A("main export", one_of(FOODS + CARGO),
          "is known for its {v} | exports {v} | sends {v} to market | produces {v} || "
          "earns its money with {v}",
          "What is {e} known for? | What does {e} export? | What does {e} send to market? | "
          "What does {e} produce? || With what does {e} earn its money?"),
        A("river", word,
          "lies on the river {v} | draws water from the river {v} | has a bridge over the river {v} |"
          " was flooded by the river {v} || Past {e} runs the river {v}",
          "On which river does {e} lie? | From which river does {e} draw water? | "
          "Over which river does {e} have a bridge? || Which river runs past {e}?"),
    ]),
    "committee": (committee, [
        P("chair", "is chaired by {v} | made {v} its chair | is presided over by {v} | "
          "{v} chairs {e} || has {v} at its head",
          "Who chairs {e}? | Whom did {e} make its chair? | Who presides over {e}? || "
          "Who is at the head of {e}?"),
        A("members", several(person),
          "has the members {v} | consists of {v} | is made up of {v} | counts {v} as members || "
          "brings together {v}",
          "Who are the members of {e}? | Of whom does {e} consist? | Who makes up {e}? || "
          "Whom does {e} bring together?"),
        A("supplies", several(one_of(FOODS + CARGO)),
          "ordered {v} | keeps {v} in store | asked for {v} | shares out {v} || stocked up on {v}",
          "What did {e} order? | What does {e} keep in store? | What did {e} ask for? || "
          "What did {e} stock up on?"),
        A("meeting day", date,
          "meets on {v} | comes together on {v} | holds its meeting on {v} | sits on {v} || "
          "gathers on {v}",
          "When does {e} meet? | On which date does {e} come together? | "
          "When does {e} hold its meeting? || When does {e} gather?"),
        A("meeting place", town,
          "meets in {v} | holds its meetings in {v} | comes together in {v} | rents a hall in {v} ||"
          " gathers in {v}",
          "In which town does {e} meet? | Where does {e} hold its meetings? | "
          "Where does {e} rent a hall? || Where does {e} gather?"),
    ]),
}

# ---- wordings for any attribute ------------------------------------------------------------------
# {n} is a noun of the attribute. {s} is a sentence of its own, its first letter made small.

STATEMENTS = wordings(
    "The {n} of {e} is {v}. | {E} has the {n} {v}. | For {e}, the {n} is {v}. | {E}'s {n} is {v}. | "
    "It is known that the {n} of {e} is {v}. | As for {e}, the {n} was given as {v}. | "
    "The register says that the {n} of {e} is {v}. | The {n} of {e} was {v}. | "
    "Asked about the {n} of {e}, they said {v}. | When it comes to {e}, the {n} is {v}. | "
    "{v} is the {n} of {e}. | The clerk noted {v} as the {n} of {e}. | "
    "We found {v} to be the {n} of {e}. | "
    "{E}, whose {n} is {v}, was mentioned twice. || "
    "The {n} recorded for {e} was {v}. | In the case of {e}, the {n} is {v}. | "
    "Everyone agrees that {e} has the {n} {v}. | With {v} as its {n}, {e} stands out.")
CORRECTIONS = wordings(
    "The {n} of {e} is not {w} but {v}. | {E} does not have the {n} {w}; the {n} is {v}. | "
    "Some say that the {n} of {e} is {w}, but in truth it is {v}. || "
    "Against all rumours of {w}, the {n} of {e} is {v}.")
ABSENCES = wordings(
    "{E} has no {n}. | No {n} is known for {e}. | There is no {n} for {e}. || "
    "{E} goes without a {n}.")
ADDITIONS = wordings(
    "Another {n} of {e} is {v}. | {E} has a further {n}: {v}. | {V} is also a {n} of {e}. || "
    "An extra {n} for {e} is {v}.")
LEADS = wordings(
    "According to the register, {s} | As everyone knows, {s} | Last year we learned that {s} | "
    "It was noted that {s} | In short, {s} | Note that {s} || "
    "By all accounts, {s} | We can confirm that {s}")
QUESTIONS = wordings(
    "What is the {n} of {e}? | What is {e}'s {n}? | Tell me the {n} of {e}. | "
    "What was the {n} given for {e}? | For {e}, what is the {n}? | Name the {n} of {e}. | "
    "Which {n} does {e} have? | I need the {n} of {e}. || "
    "Can you say what the {n} of {e} is? | State the {n} for {e}. | Regarding {e}, what is the {n}?")
QUESTION_LEADS = wordings(
    "Please tell me: {s} | According to the document, {s} | One question: {s} | I ask: {s} || "
    "Could you look this up: {s} | In this text, {s}")
MULTI_QUESTIONS = wordings(
    "List every {n} of {e}. | Name each {n} of {e}. | What is every {n} of {e}? | "
    "Give all that is named as a {n} of {e}. || Write down each {n} that {e} has.")
INNER = wordings(
    "the {n} of {e} | {e}'s {n} || the one named as {n} of {e}")

NOT_STATED = "The document does not say."
NONE = "none"
