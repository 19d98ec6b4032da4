'use strict';
// Everything that comes from a document, a model or a name is inserted as text, never as HTML.

const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem('lectern-token') || '';
let shown = null;     // {id, name, text, paragraphs: [{begin, node}]}
let running = null;   // AbortController of the question that runs

function element(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

// --- the server ---------------------------------------------------------------------------------

async function call(path, options = {}) {
  const headers = {...options.headers};
  if (token) headers.Authorization = 'Bearer ' + token;
  // Relative, so that a proxy may serve the page under a path of its own.
  const response = await fetch('.' + path, {...options, headers});
  if (response.status === 401) {
    await askForToken();
    return call(path, options);
  }
  if (response.ok) return response;
  let message = `${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch { /* no JSON: the status must do */ }
  throw new Error(message);
}

function askForToken() {
  const dialog = $('token-dialog');
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => {
      token = $('token').value;
      sessionStorage.setItem('lectern-token', token);
      resolve();
    };
  });
}

// Calls onEvent(name, data) for every event of a response.
async function readEvents(response, onEvent) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  for (;;) {
    const {value, done} = await reader.read();
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

// --- documents ----------------------------------------------------------------------------------

async function loadDocuments(wanted) {
  const {documents} = await (await call('/v1/documents')).json();
  const ready = documents.filter((d) => d.state === 'ready');
  const select = $('documents');
  select.replaceChildren(...ready.map((d) => {
    const option = element('option', d.name || d.document);
    option.value = d.document;
    option.facts = d;
    return option;
  }));
  select.disabled = ready.length === 0;
  if (ready.length === 0) return showNothing();
  if (wanted) select.value = wanted;
  await showDocument();
}

function showNothing() {
  shown = null;
  $('text').replaceChildren(element('p',
      $('add').hidden ? 'There is no document yet. Index one with index-document, or start the ' +
      'server with --allow-index.' : 'There is no document yet. Drop a text file here, or choose ' +
      '“Add a document…”.', 'empty'));
  $('facts').textContent = '';
}

async function showDocument() {
  const option = $('documents').selectedOptions[0];
  if (!option) return;
  const text = await (await call(`/v1/documents/${option.value}/text`)).text();
  shown = {id: option.value, text, paragraphs: []};
  const nodes = [];
  for (let begin = 0; begin < text.length;) {
    const newline = text.indexOf('\n', begin);
    const end = newline < 0 ? text.length : newline + 1;
    const node = element('p', text.slice(begin, end));
    shown.paragraphs.push({begin, end, node});
    nodes.push(node);
    begin = end;
  }
  $('text').replaceChildren(...nodes);
  $('text').scrollTop = 0;
  $('facts').textContent = `${option.facts.tokens.toLocaleString()} tokens`;
  $('turns').replaceChildren();
  drawStrip([]);
}

// --- passages in the text -----------------------------------------------------------------------

function clearMarks() {
  for (const paragraph of shown.paragraphs) {
    if (paragraph.marked) {
      paragraph.node.textContent = shown.text.slice(paragraph.begin, paragraph.end);
      paragraph.marked = false;
    }
  }
}

// Marks all passages; the one at `current` strongly, and scrolls there.
function markPassages(passages, current) {
  clearMarks();
  const sorted = passages.map((p, i) => ({...p, index: i})).sort((a, b) => a.begin - b.begin);
  let first = null;
  for (const paragraph of shown.paragraphs) {
    const inside = sorted.filter((p) => p.begin < paragraph.end && p.end > paragraph.begin);
    if (inside.length === 0) continue;
    const nodes = [];
    let at = paragraph.begin;
    for (const p of inside) {
      const begin = Math.max(p.begin, at), end = Math.min(p.end, paragraph.end);
      if (end <= begin) continue;
      nodes.push(document.createTextNode(shown.text.slice(at, begin)));
      const mark = element('mark', shown.text.slice(begin, end));
      if (p.index === current) {
        mark.className = 'current';
        first = first || mark;
      }
      nodes.push(mark);
      at = end;
    }
    nodes.push(document.createTextNode(shown.text.slice(at, paragraph.end)));
    paragraph.node.replaceChildren(...nodes);
    paragraph.marked = true;
  }
  if (first) first.scrollIntoView({block: 'center'});
}

// The whole document from top to bottom; how wide and strong a line is, is its passage's mass.
let drawn = [];
function drawStrip(passages) {
  drawn = passages;
  const canvas = $('strip'), context = canvas.getContext('2d');
  canvas.height = canvas.clientHeight || 600;
  const style = getComputedStyle(document.documentElement);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = style.getPropertyValue('--accent');
  const most = Math.max(...passages.map((p) => p.mass), 1e-9);
  for (const p of passages) {
    const top = p.begin / shown.text.length * canvas.height;
    const height = Math.max(3, (p.end - p.begin) / shown.text.length * canvas.height);
    context.globalAlpha = 0.35 + 0.65 * p.mass / most;
    context.fillRect(2, top, (canvas.width - 4) * (0.3 + 0.7 * p.mass / most), height);
  }
  context.globalAlpha = 1;
}

$('strip').addEventListener('click', (event) => {
  if (!shown) return;
  const share = event.offsetY / $('strip').clientHeight;
  $('text').scrollTop = share * $('text').scrollHeight - $('text').clientHeight / 2;
});

// --- asking -------------------------------------------------------------------------------------

const percent = (share) => (100 * share).toFixed(share < 0.1 ? 1 : 0) + ' %';
const milliseconds = (ms) => ms === null || ms === undefined ? '–' : Math.round(ms).toLocaleString() + ' ms';

function showPassages(turn, evidence) {
  turn.passages = evidence;
  const items = evidence.slice(0, 3).map((passage, i) => {
    const button = element('button');
    button.type = 'button';
    const where = passage.page ? `, p. ${passage.page}` : '';
    button.append(element('span', percent(passage.mass) + where + '  ', 'label'),
                  document.createTextNode(passage.text.trim()));
    button.addEventListener('click', () => {
      markPassages(evidence, i);
      drawStrip(evidence);
    });
    const item = element('li');
    item.append(button);
    return item;
  });
  turn.list.replaceChildren(...items);
  markPassages(evidence, -1);
  drawStrip(evidence);
}

function showReceipt(turn, answer) {
  const rows = [
    ['read for the question', percent(answer.kv.read_fraction_prefill)],
    ['read for each token', answer.kv.read_fraction_decode === null ? '–' :
      percent(answer.kv.read_fraction_decode)],
    ['attention missed, estimated', percent(answer.kv.missed_mass_estimate ?? 0)],
    ['first token', milliseconds(answer.timings_ms.first_token)],
    ['each token', milliseconds(answer.timings_ms.per_token)],
    ['together', milliseconds(answer.timings_ms.total)],
  ];
  const list = element('dl');
  for (const [name, value] of rows) list.append(element('dt', name), element('dd', value));
  const details = element('details', undefined, 'receipt');
  details.append(element('summary',
      `read ${percent(answer.kv.read_fraction_prefill)} of the document in ` +
      milliseconds(answer.timings_ms.total)), list);
  turn.receipts.append(details);
  if (answer.note) turn.receipts.append(element('p', answer.note, 'note'));
}

function newTurn(question) {
  const article = element('article', undefined, 'turn');
  const turn = {
    answer: element('p', '', 'answer waiting'),
    exact: element('div'),
    list: element('ol', undefined, 'passages'),
    receipts: element('div'),
  };
  article.append(element('h2', question), turn.answer, turn.exact, turn.list, turn.receipts);
  $('turns').append(article);
  article.scrollIntoView({block: 'end'});
  return turn;
}

async function generate(body, into, onDone, signal) {
  const response = await call('/v1/ask', {
    method: 'POST', signal,
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({...body, stream: true, offset_unit: 'utf16', max_evidence: 16}),
  });
  let failed = null;
  await readEvents(response, (name, data) => {
    if (name === 'text') into.textContent += data.text;
    if (name === 'error') failed = new Error(data.error.message);
    if (name === 'done') onDone(data);
  });
  if (failed) throw failed;
}

async function ask(question) {
  const turn = newTurn(question);
  running = new AbortController();
  const signal = running.signal;
  $('ask').hidden = true;
  $('stop').hidden = false;
  try {
    const budget = Number($('budget').value) / 100;
    await generate({document: shown.id, question, kv_budget: budget}, turn.answer, (answer) => {
      turn.answer.textContent = answer.answer;
      showPassages(turn, answer.evidence);
      showReceipt(turn, answer);
    }, signal);
    if ($('compare').checked && budget < 1) await askExactly(turn, question, signal);
  } catch (error) {
    const stopped = error.name === 'AbortError';
    turn.receipts.append(element('p', stopped ? 'Stopped.' : error.message, stopped ? 'note' : 'error'));
  }
  turn.answer.classList.remove('waiting');
  running = null;
  $('ask').hidden = false;
  $('stop').hidden = true;
}

async function askExactly(turn, question, signal) {
  turn.answer.classList.remove('waiting');
  const exact = element('p', '', 'answer waiting');
  turn.exact.append(element('div', 'exact mode, everything read:', 'label'), exact);
  await generate({document: shown.id, question, exact: true}, exact, (answer) => {
    exact.textContent = answer.answer;
    const same = answer.answer === turn.answer.textContent;
    turn.exact.append(element('div', same ? 'the same answer' : 'another answer', 'label'));
    showReceipt(turn, answer);
  }, signal);
  exact.classList.remove('waiting');
}

$('form').addEventListener('submit', (event) => {
  event.preventDefault();
  const question = $('question').value.trim();
  if (!question || !shown || running) return;
  $('question').value = '';
  ask(question);
});
$('question').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey) {
    event.preventDefault();
    $('form').requestSubmit();
  }
});
$('stop').addEventListener('click', () => running && running.abort());
$('budget').addEventListener('input', () => {
  $('budget-text').textContent = $('budget').value + ' %';
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && running) running.abort();
  if (event.key === '/' && document.activeElement === document.body) {
    event.preventDefault();
    $('question').focus();
  }
});

// --- adding -------------------------------------------------------------------------------------

async function addFile(file) {
  const job = $('job');
  job.hidden = false;
  $('job-text').textContent = `Sending ${file.name}…`;
  $('job-bar').hidden = false;
  $('job-bar').removeAttribute('value');
  $('job-cancel').textContent = 'Cancel';
  try {
    const response = await call('/v1/documents?name=' + encodeURIComponent(file.name), {
      method: 'POST', headers: {'Content-Type': 'application/octet-stream'}, body: file});
    const {id} = await response.json();
    $('job-cancel').onclick = () => call('/v1/jobs/' + id, {method: 'DELETE'});
    const last = await followJob(id, file.name);
    if (last.state === 'failed') throw new Error(last.error.message);
    if (last.state === 'done') await loadDocuments(last.report.document);
    job.hidden = true;
    if (last.warning) keepSaying(`${file.name}: ${last.warning}`);
  } catch (error) {
    keepSaying(error.message);
  }
}

// Until it is closed.
function keepSaying(what) {
  $('job').hidden = false;
  $('job-text').textContent = what;
  $('job-bar').hidden = true;
  $('job-cancel').textContent = 'Close';
  $('job-cancel').onclick = () => { $('job').hidden = true; };
}

async function followJob(id, name) {
  let last = null;
  await readEvents(await call(`/v1/jobs/${id}/events`), (_, job) => {
    last = job;
    const eta = job.eta_seconds === null ? '' : `, about ${Math.ceil(job.eta_seconds)} s left`;
    $('job-text').textContent = `${name}: ${job.stage || job.state}${eta}`;
    if (job.total > 0) $('job-bar').value = job.done / job.total;
  });
  return last;
}

$('add').addEventListener('click', () => $('file').click());
$('file').addEventListener('change', () => {
  if ($('file').files[0]) addFile($('file').files[0]);
  $('file').value = '';
});
function enableAdding() {
  $('add').hidden = false;
  let depth = 0;
  addEventListener('dragenter', () => { ++depth; $('drop').hidden = false; });
  addEventListener('dragleave', () => { if (--depth <= 0) $('drop').hidden = true; });
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => {
    event.preventDefault();
    depth = 0;
    $('drop').hidden = true;
    if (event.dataTransfer.files[0]) addFile(event.dataTransfer.files[0]);
  });
}

$('documents').addEventListener('change', showDocument);
addEventListener('resize', () => shown && drawStrip(drawn));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => shown && drawStrip(drawn));

(async () => {
  try {
    if ((await (await call('/version')).json()).index_allowed) enableAdding();
    await loadDocuments();
    $('question').focus();
  } catch (error) {
    $('text').replaceChildren(element('p', error.message, 'error'));
  }
})();
