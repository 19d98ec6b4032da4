'use strict';
// The text of the document that is displayed, the passages marked in it, and the map beside it.
// Loaded before page.js, which says when.

const $ = (id) => document.getElementById(id);
let shown = null;  // {id, text, paragraphs: [{begin, end, node}]}: the text that is displayed

function element(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function button(text, onClick, className = 'plain') {
  const node = element('button', text, className);
  node.type = 'button';
  node.addEventListener('click', onClick);
  return node;
}

// --- lines and code ----------------------------------------------------------------------------------

const kCodeNames = /\.(c|cc|cpp|cs|css|csv|diff|f90|go|h|hpp|ini|java|js|json|kt|log|patch|pl|ps1|py|r|rb|rs|sh|sql|swift|tex|toml|ts|tsv|xml|ya?ml)$/i;
const kCodeLine = /^(\t| {4,})\S|\S( {3,}|\t)\S|^\s*\|.*\|\s*$/;
const kLinesOfBlock = 200;  // so that what is off the screen need not be laid out

// Its lines, those of code or tables together, as their columns must be kept.
function cut(name, text) {
  const lines = [];
  let isFenced = false, numCode = 0, numFull = 0;
  for (let begin = 0; begin < text.length;) {
    const newline = text.indexOf('\n', begin);
    const end = newline < 0 ? text.length : newline + 1;
    const line = text.slice(begin, end).trimEnd();
    const isFence = /^\s*(```|~~~)/.test(line);
    const isCode = isFence || isFenced || kCodeLine.test(line);
    numCode += isCode && !isFence && !isFenced;
    if (isFence) isFenced = !isFenced;
    numFull += line !== '';
    lines.push({begin, end, isCode, isBlank: line === '', num: 1});
    begin = end;
  }
  const isAllCode = kCodeNames.test(name) || numCode > numFull / 3;
  const parts = [];
  for (const line of lines) {
    const last = parts[parts.length - 1];
    line.isCode ||= isAllCode || (line.isBlank && last !== undefined && last.isCode);
    if (last && last.isCode && line.isCode && last.num < kLinesOfBlock) {
      last.end = line.end;
      ++last.num;
    } else {
      parts.push(line);
    }
  }
  return parts;
}

function showText(id, name, text) {
  shown = {id, text, paragraphs: cut(name, text)};
  for (const part of shown.paragraphs) {
    part.node = element(part.isCode ? 'pre' : 'p', text.slice(part.begin, part.end));
  }
  $('text').replaceChildren(...shown.paragraphs.map((part) => part.node));
  $('text').scrollTop = 0;
  showMarks();
}

// --- passages in the text -----------------------------------------------------------------------

function clearMarks() {
  for (const paragraph of shown.paragraphs) {
    if (paragraph.node.classList.contains('marked')) {
      paragraph.node.textContent = shown.text.slice(paragraph.begin, paragraph.end);
      paragraph.node.classList.remove('marked');
    }
  }
}

// The text from `begin` to `end` as nodes, in which the words at `words` stand out: those that the
// passage shares with question or answer. All offsets count from `origin`, where `text` begins.
function withWords(text, origin, begin, end, words) {
  const nodes = [];
  let at = begin;
  const part = (from, to) => text.slice(from - origin, to - origin);
  for (const word of words ?? []) {
    const from = Math.max(word.begin, at), to = Math.min(word.end, end);
    if (to <= from) continue;
    nodes.push(document.createTextNode(part(at, from)), element('b', part(from, to)));
    at = to;
  }
  nodes.push(document.createTextNode(part(at, end)));
  return nodes;
}

// Marks all passages; the one at `current` strongly. Its mark is returned.
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
      const mark = element('mark');
      mark.append(...withWords(shown.text, 0, begin, end, p.highlights));
      if (p.index === current) {
        mark.className = 'current';
        first = first || mark;
      }
      nodes.push(mark);
      at = end;
    }
    nodes.push(document.createTextNode(shown.text.slice(at, paragraph.end)));
    paragraph.node.replaceChildren(...nodes);
    paragraph.node.classList.add('marked');
  }
  return first;
}

// Marks what the conversation's last answer, or the passage that was clicked, has; only in the text
// that these passages were taken from.
function showMarks() {
  const beside = chosen && documentBeside(chosen);
  if (!shown || !beside || shown.id !== beside.id) return;
  const turn = chosen.at && chosen.turns[chosen.at.turn];
  const ofText = (p) => !p.document || p.document === beside.name;
  const passages = ((turn && turn.evidence) || []).filter(ofText).filter(isInText);
  const wanted = turn && !chosen.reading && turn.evidence && turn.evidence[chosen.at.passage];
  const mark = markPassages(passages, passages.indexOf(wanted));
  // Attention comes without its text: it is of this text if the passages are.
  const isSame = turn && turn.attention && passages.length === turn.evidence.length;
  drawMap(isSame ? turn.attention : []);
  if (!mark) return;
  const scroll = (frames) => {  // what comes into view has its true height a frame later
    mark.scrollIntoView({block: 'center', inline: 'nearest'});
    if (frames > 0 && mark.isConnected) requestAnimationFrame(() => scroll(frames - 1));
  };
  scroll(3);
}

const isInText = (p) => shown.text.slice(p.begin, p.end) === p.text;

// The whole document from top to bottom; how wide and strong a line is, is its passage's mass.
let drawn = [];
function drawMap(passages) {
  drawn = passages;
  $('map').hidden = passages.length === 0;
  if (passages.length === 0) return;
  const canvas = $('strip'), context = canvas.getContext('2d');
  canvas.height = canvas.clientHeight || 600;
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--accent');
  const most = Math.max(...passages.map((p) => p.mass), 1e-9);
  for (const p of passages) {
    const top = p.begin / shown.text.length * canvas.height;
    const height = Math.max(3, (p.end - p.begin) / shown.text.length * canvas.height);
    context.globalAlpha = 0.5 + 0.5 * p.mass / most;
    context.fillRect(2, Math.min(top, canvas.height - height),
                     (canvas.width - 4) * (0.3 + 0.7 * p.mass / most), height);
  }
  context.globalAlpha = 1;
}

$('strip').addEventListener('click', (event) => {
  if (!shown) return;
  const share = event.offsetY / $('strip').clientHeight;
  $('text').scrollTop = share * $('text').scrollHeight - $('text').clientHeight / 2;
});

addEventListener('resize', () => shown && drawMap(drawn));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => shown && drawMap(drawn));
