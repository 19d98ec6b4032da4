'use strict';
// Checks a text that somebody pastes, such as another program's answer, against a document: a turn
// of the conversation that has each sentence with the passages that support it (POST /v1/cite). No
// model is used, and later questions do not refer to it.

const kMostOfSentence = 2;  // passages that are displayed of a sentence that is supported

// The document to check against: the one that is asked or, of a collection, the one that is
// displayed, {id, name}; null: there is none, or it is not indexed.
function documentToCite() {
  const beside = chosen && documentBeside(chosen);
  return beside && /^[0-9a-f]{32}$/.test(beside.id) ? beside : null;
}

// A turn's `sentences`, {text, isSupported, num}: its `evidence` has `num` passages of each, in
// their order. Of a sentence without support only the nearest passage is displayed.
function takeCited(turn, cited, name) {
  turn.evidence = [];
  turn.sentences = cited.sentences.map(({text, supported, evidence}) => {
    const some = evidence.slice(0, supported ? kMostOfSentence : 1);
    turn.evidence.push(...some.map((passage) => ({...passage, document: name})));
    return {text, isSupported: supported, num: some.length};
  });
}

async function cite(conversation, against, text) {
  if (conversation.running) return;
  const turn = {question: `Check a text against ${against.name}`, cited: text, against,
                isFirst: false, answer: '', evidence: [], exact: null, receipts: [], notes: [],
                sentences: [], isWaiting: true};
  conversation.turns.push(turn);
  conversation.running = new AbortController();
  if (conversation === chosen) drawConversation();
  view('answers');
  update();
  save();
  try {
    const response = await call('v1/cite', {
      method: 'POST', signal: conversation.running.signal,
      headers: {'Content-Type': 'application/json'},
      body: JSON.stringify({document: against.id, text, offset_unit: 'utf16'})});
    takeCited(turn, await response.json(), conversation.collection ? against.name : null);
    turn.documents = {[against.name]: against.id};
    $('spoken').textContent = summaryOf(turn);
  } catch (error) {
    fail(turn, error.name === 'AbortError' ? 'Stopped.' : error.message);
    $('spoken').textContent = error.message;
  }
  turn.isWaiting = false;
  conversation.running = null;
  drawTurn(conversation, turn);
  if (turn.evidence.length > 0) goTo(conversation, turn, 0);
  keepInView(conversation, turn);
  save();
  update();
}

function summaryOf(turn) {
  const num = turn.sentences.length, numGood = turn.sentences.filter((s) => s.isSupported).length;
  const all = num === 1 ? 'one sentence' : `${num.toLocaleString()} sentences`;
  return `${numGood.toLocaleString()} of ${all} ${numGood === 1 ? 'has a passage that is' :
      'have passages that are'} likely to support ${numGood === 1 ? 'it' : 'them'}.`;
}

// The parts of a turn below its heading.
function checkedNodes(conversation, turn) {
  if (turn.isWaiting) return [element('p', '', 'answer waiting')];
  if (turn.sentences.length === 0) return [];
  const list = element('ol', undefined, 'sentences');
  let at = 0;
  for (const {text, isSupported, num} of turn.sentences) {
    const item = element('li', undefined, isSupported ? 'supported' : 'unsupported');
    item.append(element('p', text));
    const passages = element('ol', undefined, 'passages');
    for (const end = at + num; at < end; ++at) {
      passages.append(passageNode(conversation, turn, turn.evidence[at], at));
    }
    item.append(element('div', isSupported ? 'Supported by' :
        num > 0 ? 'No passage is likely to support it; the nearest one' :
        'No passage shares its words', 'label'));
    if (num > 0) item.append(passages);
    list.append(item);
  }
  return [element('p', summaryOf(turn), 'quiet'), list];
}

// --- the form -----------------------------------------------------------------------------------

function showCiteForm(isWanted) {
  $('cite-form').hidden = !isWanted;
  $('form').hidden = isWanted;
  $('cite').setAttribute('aria-expanded', String(isWanted));
  view('answers');
  $(isWanted ? 'cited' : 'question').focus();
}

function updateCite() {
  const against = documentToCite();
  $('cite').disabled = !chosen;
  $('cite-submit').disabled = !against || Boolean(chosen.running);
  $('cite-label').textContent = against ? `Text to check against ${against.name}` : 'Text to check';
  $('cite-why').hidden = Boolean(against) || !chosen;
}

$('cite').addEventListener('click', () => showCiteForm($('cite-form').hidden));
$('cite-back').addEventListener('click', () => showCiteForm(false));
$('cite-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const against = documentToCite(), text = $('cited').value;
  if (!text.trim() || !against || chosen.running) return;
  forgetLink();
  cite(chosen, against, text);
});
