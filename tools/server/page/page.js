'use strict';
// Documents, conversations about them, and the server. The text's display is text.js, that of
// answers markdown.js; cite.js checks texts, link.js has links to answers.
// Everything that comes from a document, a model or a name is inserted as text, never as HTML.
// URLs are relative, so that the page also works below a path of a proxy.

const kMaxTurns = 100;  // of a conversation that survive a reload
const kMostListed = 500;  // documents of a collection
let token = sessionStorage.getItem('lectern-token') || '';
let canIndex = false;
let jobs = 0;          // documents that are being added from here
let chosen = null;     // the conversation about the document that is picked
// By a document's id, or "collection:NAME": {id, name, link, collection, turns, session,
// exactSession, isNew, at, reading, running}. `link` is the name or id that a link has;
// `collection` is the name of one, null for a document. `session` is the server's, null where the
// next question begins one; `isNew`: the next turn begins a conversation; `at` is {turn, passage},
// what is marked; `reading` is {id, name} of a document that was opened from a collection's list,
// null where the marked passage says which is displayed, and {} for the list; `running` is the
// AbortController of the question that is being answered.
const conversations = new Map();

// --- the server ---------------------------------------------------------------------------------

class ServerError extends Error {
  constructor(status, error) {
    super(error.message || `The server answered with the status ${status}.`);
    this.status = status;
    this.param = error.param;
  }
}

const kLost = 'The connection to the server ended before everything had arrived.';
const kAway = 'The server does not answer. Is it still running, and is this device still connected to it?';

async function call(path, options = {}) {
  const headers = {...options.headers};
  if (token) headers.Authorization = 'Bearer ' + token;
  let response;
  try {
    response = await fetch(path, {...options, headers});
  } catch (error) {
    throw error.name === 'AbortError' ? error : new Error(kAway);
  }
  if (response.status === 401) {
    await askForToken();
    return call(path, options);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));  // a proxy's page is no JSON
  throw new ServerError(response.status, body.error || {});
}

let askingForToken = null;  // one dialog, however many calls need the token
function askForToken() {
  askingForToken ||= new Promise((resolve) => {
    const dialog = $('token-dialog');
    dialog.showModal();
    dialog.onclose = () => {
      token = $('token').value;
      sessionStorage.setItem('lectern-token', token);
      askingForToken = null;
      resolve();
    };
  });
  return askingForToken;
}

// Calls onEvent(name, data) for every event of a response.
async function readEvents(response, onEvent) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  for (;;) {
    const {value, done} = await reader.read().catch((error) => {
      throw error.name === 'AbortError' ? error : new Error(kLost);
    });
    if (done) return;
    buffer += value;
    for (let end; (end = buffer.indexOf('\n\n')) >= 0; buffer = buffer.slice(end + 2)) {
      let name = '', data = '';
      for (const line of buffer.slice(0, end).split('\n')) {
        if (line.startsWith('event: ')) name = line.slice(7);
        if (line.startsWith('data: ')) data += line.slice(6);
      }
      if (data) onEvent(name, JSON.parse(data));
    }
  }
}

// --- what survives a reload ---------------------------------------------------------------------

// For this tab alone. Where it does not fit, the oldest turns go.
function save() {
  sessionStorage.setItem('lectern-document', chosen ? chosen.id : '');
  for (const c of conversations.values()) {
    for (let most = kMaxTurns; ; most = Math.floor(most / 2)) {
      const from = Math.max(0, c.turns.length - most);
      const at = c.at && c.at.turn >= from ? {...c.at, turn: c.at.turn - from} : null;
      try {
        sessionStorage.setItem('lectern-about-' + c.id, JSON.stringify({
          turns: c.turns.slice(from).map(({node, live, ...turn}) => turn),
          session: c.session, exactSession: c.exactSession, isNew: c.isNew, at,
          reading: c.reading}));
        break;
      } catch {
        if (most === 0) break;
      }
    }
  }
}

function conversationAbout(id, name, collection) {
  let c = conversations.get(id);
  if (!c) {
    c = {id, collection, turns: [], session: null, exactSession: null, isNew: false, at: null,
         reading: null};
    try {
      Object.assign(c, JSON.parse(sessionStorage.getItem('lectern-about-' + id)));
    } catch { /* another version's: begin anew */ }
    for (const turn of c.turns) {
      if (turn.isWaiting) fail(turn, 'The page was reloaded before the answer was complete.');
      turn.isWaiting = false;
    }
    conversations.set(id, c);
  }
  c.name = name;
  return c;
}

// --- documents ----------------------------------------------------------------------------------

// `wanted` is an id; what a link names is picked before it.
async function loadDocuments(wanted, link) {
  const {documents} = await (await call('v1/documents')).json();
  const ready = documents.filter((d) => d.state === 'ready');
  const collections = await loadCollections(ready.length);
  const select = $('documents');
  const options = ready.map((d) => {
    const option = element('option', d.names.map((n) => n.name).join(', ') || d.document);
    option.value = d.document;
    option.facts = d;
    return option;
  });
  const names = [...ready.map((d) => d.document), ...collections.map((o) => o.value)];
  select.replaceChildren(...options, ...(collections.length === 0 ? [] : [grouped(collections)]));
  select.disabled = names.length === 0;
  const linked = link && optionOf(link);
  select.value = linked ? linked.value : names.includes(wanted) ? wanted : names[0] ?? '';
  if (names.length === 0) {
    showNothing(documents.some((d) => d.state === 'building'));
  } else {
    await showDocument();
  }
}

// Options for the collections. "all" has every document; the server makes it when it is first used.
async function loadCollections(numDocuments) {
  const {collections} = await (await call('v1/collections')).json();
  if (numDocuments > 1 && !collections.some((c) => c.name === 'all')) {
    collections.push({name: 'all', documents: numDocuments, indexed: numDocuments});
  }
  return collections.filter((c) => c.documents > 0).map((c) => {
    const option = element('option', c.name === 'all' ? 'All documents' : c.name);
    option.value = 'collection:' + c.name;
    option.facts = {...c, collection: c.name};
    return option;
  });
}

function grouped(options) {
  const group = element('optgroup');
  group.label = 'Collections';
  group.append(...options);
  return group;
}

function showNothing(isBuilding) {
  shown = chosen = null;
  let why = 'There is no document to ask yet. ' + (canIndex
      ? 'Drop a text, HTML or PDF file here, or choose “Add…”.'
      : 'Index one on the server’s machine (index-document FILE), or start the server with --allow-index to add documents from here.');
  if (jobs > 0 || isBuilding) {
    why = 'The first document is being indexed. It can be asked as soon as that is done.';
    if (jobs === 0) setTimeout(() => chosen || loadDocuments().catch(() => {}), 3000);
  }
  $('text').replaceChildren(element('p', why, 'empty'));
  $('turns').replaceChildren(element('p', why, 'empty'));
  $('facts').textContent = '';
  $('beside').hidden = true;
  drawMap([]);
  update();
}

// The last part of the model's path; "model" alone would say nothing.
function modelName(path) {
  if (/(^|\/)(reader\/model|lectern\/reader)\/?$/.test(path)) return 'the bundled one, which is small';
  const parts = path.split('/').filter(Boolean);
  return parts.slice(parts[parts.length - 1] === 'model' ? -2 : -1).join('/');
}

// The conversation at once, the text when it is there; another document may be picked meanwhile.
async function showDocument() {
  const option = $('documents').selectedOptions[0];
  if (!option) return;
  const {tokens, model, collection, documents, indexed, names} = option.facts;
  chosen = conversationAbout(option.value, option.textContent, collection ?? null);
  chosen.link = names?.[0]?.name ?? option.value;
  shown = null;
  $('facts').textContent = collection
      ? `${documents.toLocaleString()} documents, ${indexed.toLocaleString()} indexed`
      : `${tokens.toLocaleString()} tokens` + (model ? `, model: ${modelName(model)}` : '');
  drawConversation();
  drawMap([]);
  update();
  save();
  await showTextOf(chosen);
}

// The document whose text belongs beside a conversation: the one that it is about, or, of a
// collection, the one of the passage that is looked at; `of` is then the collection's name. `id`
// tells texts apart. The result is null where the list of documents belongs there.
function documentBeside(conversation) {
  if (!conversation.collection) return {id: conversation.id, name: conversation.name};
  if (conversation.reading) {
    const {id, name} = conversation.reading;
    if (!name) return null;
    return {id: id || `${conversation.collection}/${name}`, name, of: conversation.collection};
  }
  const turn = conversation.at && conversation.turns[conversation.at.turn];
  const passage = turn && turn.evidence && turn.evidence[conversation.at.passage];
  if (!passage || !passage.document) return null;
  const name = passage.document;
  return {id: (turn.documents ?? {})[name] ?? `${conversation.collection}/${name}`, name,
          of: conversation.collection};
}

async function showTextOf(conversation) {
  const beside = documentBeside(conversation);
  $('beside').hidden = !conversation.collection || !beside;
  $('beside-name').textContent = beside ? beside.name : '';
  updateCite();
  if (shown && beside && shown.id === beside.id) return showMarks();
  shown = null;
  drawMap([]);
  const say = (text, kind) => $('text').replaceChildren(element('p', text, kind));
  if (!beside) return listDocuments(conversation);
  say('Loading the text…', 'empty');
  const isStillWanted = () => chosen === conversation && documentBeside(conversation)?.id === beside.id;
  try {
    // A document of a collection need not be indexed to be shown.
    const path = beside.of ? `v1/collections/${encodeURIComponent(beside.of)}/text?document=` +
                                 encodeURIComponent(beside.name)
                           : `v1/documents/${encodeURIComponent(beside.id)}/text`;
    const text = await (await call(path)).text();
    if (isStillWanted()) showText(beside.id, beside.name, text);
  } catch (error) {
    if (isStillWanted()) say(error.message, 'error');
  }
}

// The documents of a collection, each of which can be opened, also before it is indexed.
async function listDocuments(conversation) {
  const hint = element('p', 'Ask a question: the document of each passage is shown here.', 'empty');
  $('text').replaceChildren(hint);
  const list = element('ul', undefined, 'documents');
  try {
    const path = 'v1/collections/' + encodeURIComponent(conversation.collection);
    const {documents} = await (await call(path)).json();
    if (chosen !== conversation || documentBeside(conversation)) return;
    for (const {name, document: id} of documents.slice(0, kMostListed)) {
      const item = element('li');
      item.append(button(name, () => {
        conversation.reading = {id, name};
        save();
        for (const turn of conversation.turns) markCurrent(conversation, turn);
        showTextOf(conversation);
        $('text').focus();
      }, ''), ...(id ? [] : [element('span', ' not indexed yet', 'quiet')]));
      list.append(item);
    }
    $('text').replaceChildren(hint, list);
    const more = documents.length - kMostListed;
    if (more > 0) $('text').append(element('p', `and ${more.toLocaleString()} more`, 'empty'));
  } catch (error) {
    $('text').replaceChildren(hint, element('p', error.message, 'error'));
  }
}

function goTo(conversation, turn, passage) {
  conversation.at = {turn: conversation.turns.indexOf(turn), passage};
  conversation.reading = null;
  save();
  for (const other of conversation.turns) markCurrent(conversation, other);
  if (conversation === chosen) showTextOf(conversation);
}

// --- turns --------------------------------------------------------------------------------------

const percent = (share) => (100 * share).toFixed(share < 0.0995 ? 1 : 0) + ' %';
const milliseconds = (ms) => ms === null || ms === undefined ? '–' : Math.round(ms).toLocaleString() + ' ms';
const amount = (share) => share >= 1 ? 'the whole document' : percent(share) + ' of the document';

// A turn is {question, isFirst, answer, exact, budget, evidence, attention, documents,
// isUnsupported, receipts, notes, isWaiting}; `exact` is the answer from the whole document where
// it was asked for, else null; `documents` has the ids of a collection's documents by their names.
// The turn of a text that was checked also has {sentences, cited, against} (cite.js).
function fail(turn, message) {
  turn.notes.push({text: message, isError: true});
}

function receiptOf(answer, name) {
  const {kv, timings_ms: ms, collection} = answer;
  const asked = collection ? collection.asked : [];
  const isByWords = collection && !answer.document;
  const read = isByWords ? 'words alone' : amount(kv.read_fraction_prefill);
  const of = `of ${collection?.count.toLocaleString()} documents`;
  return {
    summary: (name ? name + ': read ' : 'Read ') + `${read} in ${milliseconds(ms.total)}` +
        (!collection ? '' : isByWords ? ` ${of}` : `; asked ${asked.length} ${of}`),
    rows: [
      ...asked.filter((d) => d.passages === 0).map((d) => [
        `Asked: ${d.name}` + (d.new ? ' (indexed now)' : ''),
        (d.chosen ? 'chosen: ' : '') + (d.answer || '–')]),
      ['Read to understand the question', amount(kv.read_fraction_prefill)],
      ['Read for each piece of the answer',
       kv.read_fraction_decode === null ? '–' : amount(kv.read_fraction_decode)],
      ['Predicted difference from an exact answer (KL divergence)',
       kv.divergence === null ? 'not measured' : `${kv.divergence.toPrecision(2)} nats a word piece`],
      ['Attention that fell on unread text (estimate)', percent(kv.missed_mass_estimate ?? 0)],
      ['Until the answer began', milliseconds(ms.first_token)],
      ['Each piece of the answer', milliseconds(ms.per_token)],
      ['In all', milliseconds(ms.total)],
    ],
  };
}

function receiptNode({summary, rows}) {
  const list = element('dl');
  for (const [name, value] of rows) list.append(element('dt', name), element('dd', value));
  const details = element('details', undefined, 'receipt');
  details.append(element('summary', summary), list);
  return details;
}

function passageNode(conversation, turn, passage, i) {
  const sure = passage.score > 0 || passage.mass === undefined ? percent(passage.score) + ' likely' :
      percent(passage.mass) + ' of the attention';
  const from = passage.document ? passage.document + ', ' : '';
  const page = passage.page_label ? `${passage.page_label} (page ${passage.page})` : passage.page;
  const where = from + sure + (page ? `, p. ${page}` : '') + '  ';
  const node = button('', () => {
    view('document');
    goTo(conversation, turn, i);
  }, '');
  node.append(element('span', where, 'label'), ...withWords(passage.text, passage.begin, passage.begin, passage.end, passage.highlights));
  const item = element('li');
  item.append(node);
  return item;
}

function markCurrent(conversation, turn) {
  const isHere = conversation.at && !conversation.reading && conversation.turns[conversation.at.turn] === turn;
  turn.node?.querySelectorAll('.passages button').forEach((node, i) => {
    if (isHere && conversation.at.passage === i) {
      node.setAttribute('aria-current', 'true');
    } else {
      node.removeAttribute('aria-current');
    }
  });
}

const beginning = () => element('p', 'New conversation: what is above is no longer taken into account', 'begins');

// Anew from what the turn has; `live` has the nodes that grow while text comes.
function drawTurn(conversation, turn) {
  turn.node ||= element('article', undefined, 'turn');
  turn.node.replaceChildren(...turnNodes(conversation, turn));
  for (const {text, isError} of turn.notes) {
    turn.node.append(element('p', text[0].toUpperCase() + text.slice(1), isError ? 'error' : 'note'));
  }
  if (!turn.isWaiting && turn.notes.some((n) => n.isError || n.isStopped)) {
    turn.node.append(turn.sentences ?
        button('Check again', () => cite(conversation, turn.against, turn.cited)) :
        button('Ask again', () => ask(conversation, turn.question)));
  }
  if (!turn.isWaiting && turn.receipts.length > 0) turn.node.append(actionsOf(conversation, turn));
  markCurrent(conversation, turn);
}

function turnNodes(conversation, turn) {
  if (turn.sentences) return [element('h2', turn.question), ...checkedNodes(conversation, turn)];
  const wait = (text) => text === '' && turn.isWaiting ? ' waiting' : '';
  const isComparing = turn.exact !== null;
  const answerNode = (text) =>
      showMarkdown(element('div', undefined, 'answer' + wait(text)), text ?? '');
  turn.live = {answer: answerNode(turn.answer), exact: answerNode(turn.exact)};
  const parts = [element('h2', turn.question)];
  if (turn.isFirst) parts.unshift(beginning());
  if (isComparing) parts.push(element('div', 'From the part that was read', 'label'));
  parts.push(turn.live.answer);
  const list = element('ol', undefined, 'passages');
  list.append(...turn.evidence.slice(0, 3).map((p, i) => passageNode(conversation, turn, p, i)));
  if (turn.evidence.length > 0) {
    parts.push(element('div', turn.isUnsupported ?
        'No passage is likely to support it; the nearest ones' : 'Passages that support it',
                       'label'), list);
  }
  const receipts = turn.receipts.map(receiptNode);
  if (receipts[0]) parts.push(receipts[0]);
  if (isComparing) {
    const compared = element('div', undefined, 'compared');
    compared.append(element('div', 'From the whole document', 'label'), turn.live.exact);
    if (receipts[1]) {
      compared.append(element('div', turn.exact === turn.answer ? 'Both answers are the same.' :
        'The two answers differ.', 'label'), receipts[1]);
    }
    parts.push(compared);
  }
  return parts;
}

// The newest turn's question stays in view, and of its answer what fits below.
function keepInView(conversation, turn) {
  if (conversation !== chosen) return;
  const pane = $('turns');
  const bottom = turn.node.offsetTop + turn.node.offsetHeight - pane.clientHeight + 16;
  pane.scrollTop = Math.min(bottom, turn.node.offsetTop - 8);
}

function drawConversation() {
  for (const turn of chosen.turns) drawTurn(chosen, turn);
  $('turns').replaceChildren(...chosen.turns.map((turn) => turn.node));
  if (chosen.turns.length === 0) {
    $('turns').append(element('p', 'Ask something that the document states. The passages that an ' +
      'answer is drawn from are marked in the text; a follow-up question may refer to what was said.', 'empty'));
  } else if (chosen.isNew) {
    $('turns').append(beginning());
    $('turns').scrollTop = $('turns').scrollHeight;
  } else {
    keepInView(chosen, chosen.turns[chosen.turns.length - 1]);
  }
}

// Enables the controls that can be used now.
function update() {
  const isRunning = Boolean(chosen && chosen.running);
  $('ask').disabled = $('question').disabled = !chosen;
  $('ask').hidden = isRunning;
  $('stop').hidden = !isRunning;
  $('question').placeholder = chosen ? `A question about ${chosen.name}` : 'There is no document to ask';
  $('new').disabled = !chosen || isRunning || chosen.isNew || chosen.turns.length === 0;
  $('remove').hidden = !canIndex || !chosen || Boolean(chosen.collection);
  updateCite();
}

// --- asking -------------------------------------------------------------------------------------

// Returns the answer; `grow` gets each piece of its text.
async function generate(body, grow, signal) {
  const response = await call('v1/ask', {
    method: 'POST', signal,
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({...body, stream: true, offset_unit: 'utf16'}),
  });
  let answer = null, failed = null;
  await readEvents(response, (name, data) => {
    if (name === 'indexing') showIndexing(data);
    if (name === 'text') grow(data.text);
    if (name === 'error') failed = new ServerError(0, data.error);
    if (name === 'done') answer = data;
  });
  if (failed) throw failed;
  if (!answer) throw new Error(kLost);
  return answer;
}

// A document of a collection that is read for its first question.
function showIndexing({document: name, stage, done, total, eta_seconds: left}) {
  showJob(`${name} is read for its first question: ${kStages[stage] ?? stage}` +
          (left === null ? '' : `, about ${Math.ceil(left)} s left`), 'Cancel', stop);
  if (total > 0) $('job-bar').value = done / total;
}

// The turns of this conversation that were answered before `turn`.
function answeredBefore(conversation, turn) {
  const before = conversation.turns.slice(0, conversation.turns.indexOf(turn) + 1).reverse();
  const end = before.findIndex((t) => t.isFirst);
  return before.slice(1, end < 0 ? undefined : end + 1).some((t) => t.receipts.length > 0);
}

// In the session that `key` of the conversation names, or a new one. Where the server no longer has
// it, the question is asked without what was said before, and the turn says so.
async function generateInSession(conversation, turn, key, body, grow, signal) {
  const about = conversation.collection ? {collection: conversation.collection}
      : {document: conversation.id};
  const begin = (session) => generate({...about, question: turn.question, ...body,
                                       ...(session ? {session} : {})}, grow, signal);
  let session = turn.isFirst || !conversation[key] ? 'new' : conversation[key];
  for (let tries = 5; ; --tries) {
    try {
      const answer = await begin(session);
      if (session !== conversation[key] && answeredBefore(conversation, turn)) forgot(turn, key);
      conversation[key] = answer.session ?? null;
      return answer;
    } catch (error) {
      if (error.param !== 'session' || tries === 0) throw error;
      if (error.status === 404) {
        session = 'new';  // it was idle for too long, or had to make room
      } else if (error.status === 503) {
        session = null;   // there are as many as the server takes
      } else if (error.status === 409) {
        await new Promise((resolve) => setTimeout(resolve, 300));  // a stopped answer is ending
      } else {
        throw error;
      }
    }
  }
}

function forgot(turn, key) {
  turn.notes.push({text: key === 'session'
      ? 'The server no longer has the earlier questions of this conversation in memory: this answer does not take them into account.'
      : 'The answer from the whole document does not take the earlier questions into account, as they were asked without comparing.'});
}

async function answerTurn(conversation, turn, signal) {
  const budget = turn.budget;
  const isComparing = turn.exact !== null;
  let isToBeDrawn = false;  // pieces that come between two frames are drawn as one
  const grow = (key) => (text) => {
    turn[key] += text;
    if (isToBeDrawn) return;
    isToBeDrawn = true;
    requestAnimationFrame(() => {
      isToBeDrawn = false;
      showMarkdown(turn.live[key], turn[key]);
      keepInView(conversation, turn);
    });
  };
  const take = (answer, key, name) => {
    turn[key] = answer.answer;
    turn.receipts.push(receiptOf(answer, name));
    if (answer.note) turn.notes.push({text: answer.note});
  };
  const answer = await generateInSession(conversation, turn, 'session', {kv_budget: budget},
                                         grow('answer'), signal);
  take(answer, 'answer', isComparing ? 'From a part' : '');
  turn.evidence = answer.evidence;
  turn.attention = answer.attention;
  turn.documents = {};
  for (const asked of answer.collection ? answer.collection.asked : []) {
    turn.documents[asked.name] = asked.document;
  }
  turn.isUnsupported = answer.warnings.includes('no_evidence');
  $('spoken').textContent = 'Answer: ' + showMarkdown(turn.live.answer, turn.answer).innerText;
  goTo(conversation, turn, 0);
  if (!isComparing) return;
  drawTurn(conversation, turn);
  const exact = await generateInSession(conversation, turn, 'exactSession', {exact: true},
                                        grow('exact'), signal);
  take(exact, 'exact', 'From the whole');
}

async function ask(conversation, question) {
  if (conversation.running) return;
  const isComparing = $('compare').checked && ($('auto').checked || Number($('budget').value) < 100);
  const turn = {question, isFirst: conversation.isNew, answer: '', evidence: [],
                budget: $('auto').checked ? 'auto' : Number($('budget').value) / 100,
                exact: isComparing ? '' : null, receipts: [], notes: [], isWaiting: true};
  conversation.isNew = false;
  conversation.turns.push(turn);
  conversation.running = new AbortController();
  if (conversation === chosen) {
    drawConversation();
    view('answers');
  } else {
    drawTurn(conversation, turn);  // a link's next question, while another document is picked
  }
  update();
  save();
  try {
    await answerTurn(conversation, turn, conversation.running.signal);
  } catch (error) {
    if (error.name === 'AbortError') {
      turn.notes.push({text: 'Stopped.', isStopped: true});
    } else {
      fail(turn, error.message);
      $('spoken').textContent = error.message;
    }
  }
  turn.isWaiting = false;
  if (conversation.collection && jobs === 0) $('job').hidden = true;
  conversation.running = null;
  drawTurn(conversation, turn);
  keepInView(conversation, turn);
  save();
  update();
}

// Earlier turns stay in view, and are no longer taken into account.
function beginAnew() {
  for (const key of ['session', 'exactSession']) {
    const id = chosen[key];
    if (id) call('v1/sessions/' + id, {method: 'DELETE'}).catch(() => {});  // else it expires
    chosen[key] = null;
  }
  chosen.isNew = true;
  drawConversation();
  save();
  update();
  view('answers');
  showCiteForm(false);
}

// On a phone one of the two is displayed.
function view(what) {
  $('main').dataset.view = what;
  for (const name of ['answers', 'document']) {
    $('view-' + name).setAttribute('aria-pressed', String(name === what));
  }
  if (what === 'document' && shown) showMarks();
}

$('form').addEventListener('submit', (event) => {
  event.preventDefault();
  const question = $('question').value.trim();
  if (!question || !chosen || chosen.running) return;
  $('question').value = '';
  forgetLink();
  ask(chosen, question);
});
$('question').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $('form').requestSubmit();
  }
});
const stop = () => chosen && chosen.running && chosen.running.abort();
$('stop').addEventListener('click', stop);
$('new').addEventListener('click', () => {
  forgetLink();
  beginAnew();
});
$('view-answers').addEventListener('click', () => view('answers'));
$('view-document').addEventListener('click', () => view('document'));
function showBudget() {
  $('budget-text').textContent = $('auto').checked ? 'chosen for the document' : $('budget').value + ' %';
}
$('budget').addEventListener('input', () => {
  $('auto').checked = false;
  showBudget();
});
$('auto').addEventListener('input', showBudget);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') stop();
  if (event.key === '/' && document.activeElement === document.body) {
    event.preventDefault();
    $('question').focus();
  }
});

// --- adding and removing ------------------------------------------------------------------------

// In the reader's words; other stages may come.
const kStages = {
  waiting: 'waits for other documents', running: 'begins', read: 'the file is read',
  prefill: 'the model reads the text', cluster: 'what it read is put in order',
  calibrate: 'answers are tried', write: 'it is saved',
};

async function addFile(file) {
  const before = chosen;
  ++jobs;
  showJob(`${file.name} is being sent…`, 'Cancel', null);
  try {
    if (!chosen) showNothing(true);
    const response = await call('v1/documents?name=' + encodeURIComponent(file.name), {
      method: 'POST', headers: {'Content-Type': 'application/octet-stream'}, body: file});
    await finishJob((await response.json()).id, file.name, before);
  } catch (error) {
    keepSaying(`${file.name}: ${error.message}`);
  }
  --jobs;
  if (!chosen) await loadDocuments().catch((error) => keepSaying(error.message));
}

// After a reload, too. Whoever reads or asks another document meanwhile is left there.
async function finishJob(id, name, before) {
  sessionStorage.setItem('lectern-job', JSON.stringify({id, name}));
  const last = await followJob(id, name);
  sessionStorage.removeItem('lectern-job');
  if (last.state === 'failed') throw new Error(last.error.message);
  $('job').hidden = true;
  if (last.state === 'done') {
    const isAway = chosen && (chosen !== before || chosen.running);
    await loadDocuments(isAway ? chosen.id : last.report.document);
    if (isAway) keepSaying(`${name} can be asked now.`);
  }
  if (last.warning) keepSaying(`${name}: ${last.warning}`);
}

function showJob(text, choice, onChoice) {
  $('job').hidden = false;
  $('job-text').textContent = text;
  $('job-bar').hidden = choice !== 'Cancel';
  $('job-bar').removeAttribute('value');
  $('job-cancel').textContent = choice;
  $('job-cancel').hidden = onChoice === null;
  $('job-cancel').onclick = onChoice;
}

// Until it is closed.
function keepSaying(what) {
  showJob(what, 'Close', () => { $('job').hidden = true; });
}

async function followJob(id, name) {
  let last = null;
  const cancel = () => call('v1/jobs/' + id, {method: 'DELETE'}).catch((e) => keepSaying(e.message));
  await readEvents(await call(`v1/jobs/${id}/events`), (_, job) => {
    last = job;
    const stage = job.stage || job.state;
    const left = job.eta_seconds === null ? '' : `, about ${Math.ceil(job.eta_seconds)} s left`;
    showJob(`${name}: ${kStages[stage] ?? stage}${left}`, 'Cancel', cancel);
    if (job.total > 0) $('job-bar').value = job.done / job.total;
  });
  if (!last || !['done', 'failed', 'cancelled'].includes(last.state)) throw new Error(kLost);
  return last;
}

async function removeDocument() {
  const dialog = $('remove-dialog'), conversation = chosen;
  $('remove-text').textContent = `Remove “${conversation.name}” and what was indexed of it from the server? ` +
      'The file that it was made from stays. To ask it again, it must be added again.';
  dialog.returnValue = 'keep';
  dialog.showModal();
  await new Promise((resolve) => { dialog.onclose = resolve; });
  if (dialog.returnValue !== 'remove') return;
  if (conversation.running) conversation.running.abort();
  try {
    await call('v1/documents/' + encodeURIComponent(conversation.id), {method: 'DELETE'});
    conversations.delete(conversation.id);
    sessionStorage.removeItem('lectern-about-' + conversation.id);
    chosen = null;
    await loadDocuments();
  } catch (error) {
    keepSaying(`${conversation.name}: ${error.message}`);
  }
}

async function addFiles(files) {
  for (const file of [...files]) await addFile(file);
}

$('add').addEventListener('click', () => $('file').click());
$('remove').addEventListener('click', removeDocument);
$('file').addEventListener('change', () => {
  const files = [...$('file').files];
  $('file').value = '';
  addFiles(files);
});
function enableAdding() {
  canIndex = true;
  $('add').hidden = false;
  let depth = 0;
  addEventListener('dragenter', () => { ++depth; $('drop').hidden = false; });
  addEventListener('dragleave', () => { if (--depth <= 0) $('drop').hidden = true; });
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => {
    event.preventDefault();
    depth = 0;
    $('drop').hidden = true;
    addFiles(event.dataTransfer.files);
  });
  const job = JSON.parse(sessionStorage.getItem('lectern-job'));
  if (!job) return;
  ++jobs;
  finishJob(job.id, job.name, null)
      .catch((error) => {
        sessionStorage.removeItem('lectern-job');
        keepSaying(`${job.name}: ${error.message}`);
      })
      .finally(() => --jobs);
}

$('documents').addEventListener('change', () => {
  forgetLink();
  showDocument();
});
$('beside-list').addEventListener('click', () => {
  chosen.reading = {};
  save();
  for (const turn of chosen.turns) markCurrent(chosen, turn);
  showTextOf(chosen);
});

(async () => {
  $('options').open = matchMedia('(min-width: 48rem)').matches;
  try {
    const wanted = sessionStorage.getItem('lectern-document');
    if ((await (await call('version')).json()).index_allowed) enableAdding();
    const link = readLink();
    await loadDocuments(wanted, link);
    $('question').focus();
    if (link) await followLink(link);
  } catch (error) {
    $('text').replaceChildren(element('p', error.message, 'error'));
    $('turns').replaceChildren(element('p', error.message, 'error'));
  }
})();
