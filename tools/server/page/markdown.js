'use strict';
// Shows an answer's Markdown. Answers come from a model that read a foreign document, so their text
// is hostile: nodes are made one by one, texts are set as text, and HTML in an answer is displayed
// as it is written. Links lead to http, https and mailto alone, and show their host; pictures are
// links, as loading one would tell its server what was asked.
//
// CommonMark's and GFM's blocks and inlines, except for these, so that plain text stays as it is:
// line breaks are kept, indented lines are no code, lines under a text do not make it a heading,
// entities stay, and a numbered list begins with 0 or 1 or goes on from the one before. Text after
// an opening fence is code while it streams. All loops are linear in the text but for the depth of
// blocks, which is bounded; so is that of nodes, as browsers lay them out recursively.

const kMostDepth = 8;         // of quotes and lists in one another; deeper ones are shown as text
const kMostStyles = 12;       // of emphasis and links in one another; deeper ones have no style
const kMostColumns = 64;      // of a table
// Characters of an answer, about 8,000 tokens. The rest is shown as text: browsers need minutes
// to lay out some texts that are made of tens of thousands of small blocks.
const kMostMarkdown = 32768;
const kMostDestination = 2048;  // characters of a link's address, which is searched for its end
const kMostNumbered = 200;    // items with numbers of their own, for which Chromium is quadratic
const kMostBrackets = 8;      // open in a link's address

const kFence = /^ {0,3}(`{3,}|~{3,})/;
const kRule = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const kHeading = /^ {0,3}(#{1,6})[ \t]+\S/;
const kQuote = /^ {0,3}> ?/;
const kItem = /^( *)([-*+]|(\d{1,9})[.)])( +)(?=\S)/;

// --- blocks -------------------------------------------------------------------------------------

// A tab that begins a line stands for four spaces.
const untab = (line) => line.replace(/^[ \t]+/, (white) => white.replaceAll('\t', '    '));
const indentOf = (line) => line.length - line.trimStart().length;

// The cells of a table's row; null: the line has no bar. Unlike in GFM, a bar in code ends no cell.
function cellsOf(line) {
  const cells = [];
  let cell = '', isCut = false;
  const row = line.trim();
  for (let i = row.startsWith('|') ? 1 : 0; i < row.length; ++i) {
    const tick = row[i] === '`' ? row.indexOf('`', i + 1) : -1;
    if (row[i] === '\\' && row[i + 1] === '|') {
      cell += '|';
      ++i;
    } else if (tick > 0) {
      cell += row.slice(i, tick + 1);
      i = tick;
    } else if (row[i] === '|') {
      cells.push(cell.trim());
      cell = '';
      isCut = true;
    } else {
      cell += row[i];
    }
  }
  if (!isCut && !row.startsWith('|')) return null;
  if (cell.trim() !== '' || !isCut) cells.push(cell.trim());
  return cells;
}

// How a table aligns its columns, where these two lines begin one; else null.
function alignments(line, next) {
  if (next === undefined || !line.includes('|') || !/^[-:| \t]+$/.test(next)) return null;
  const rules = cellsOf(next), cells = cellsOf(line);
  if (!rules || !cells || rules.length !== cells.length || rules.length > kMostColumns) return null;
  if (!rules.every((rule) => /^:?-+:?$/.test(rule))) return null;
  return rules.map((r) => r.endsWith(':') ? (r.startsWith(':') ? 'center' : 'right') : 'left');
}

// The fence of ` or ~ that a line begins a block of code with; null: it begins none.
function fenceOf(line) {
  const mark = kFence.exec(line)?.[1];
  if (!mark) return null;
  const isInline = mark[0] === '`' && line.trimStart().slice(mark.length).includes('`');
  return isInline ? null : mark;
}

// The item that a line begins, {indent, width, number, kind}, or null. `last` is the number that
// the list before ended with, or null inside of a list, which any number goes on.
function itemOf(line, last) {
  const match = kItem.exec(line);
  if (!match || kRule.test(line)) return null;
  const [whole, spaces, marker, digits, gap] = match;
  const number = digits === undefined ? null : Number(digits);
  if (last !== null && number > 1 && number !== last + 1) return null;
  return {indent: spaces.length, number, kind: number === null ? marker : marker.slice(-1),
          width: gap.length > 4 ? whole.length - gap.length + 1 : whole.length};
}

// Whether a line ends the paragraph before it.
function beginsBlock(line, next, depth) {
  if (fenceOf(line) || kHeading.test(line) || kRule.test(line)) return true;
  if (depth < kMostDepth && kQuote.test(line)) return true;
  if (depth < kMostDepth && (itemOf(line, 0)?.indent ?? 4) < 4) return true;
  return alignments(line, next) !== null;
}

// Cuts lines into blocks: {kind, begin, end: lines, ...}. Blocks that hold others have their lines.
function blocksOf(raw, depth) {
  const lines = raw.map(untab), blocks = [];
  let last = 0;  // the number of the list before
  for (let i = 0; i < lines.length;) {
    const line = lines[i], begin = i;
    const add = (block) => blocks.push({...block, begin, end: i});
    const fence = fenceOf(line), item = itemOf(line, last);
    const columns = alignments(line, lines[i + 1]);
    if (line.trim() === '') {
      ++i;
    } else if (fence) {
      const close = new RegExp(`^ {0,3}\\${fence[0]}{${fence.length},}[ \\t]*$`);
      while (++i < lines.length && !close.test(lines[i])) {}
      const most = indentOf(line), code = raw.slice(begin + 1, i);
      ++i;
      add({kind: 'code', text: code.map((l) => l.slice(Math.min(most, indentOf(l)))).join('\n')});
    } else if (kRule.test(line)) {
      ++i;
      add({kind: 'rule'});
    } else if (kHeading.test(line)) {
      ++i;
      const level = kHeading.exec(line)[1].length, text = line.trim().slice(level).trim();
      const end = text.length - (/ #+$/.exec(text.slice(-16))?.[0].length ?? 0);
      add({kind: 'heading', level, text: text.slice(0, end).trimEnd()});
    } else if (columns) {
      const rows = [];
      for (i += 2; i < lines.length && lines[i].trim() !== ''; ++i) {
        if (!lines[i].includes('|')) break;
        rows.push(cellsOf(lines[i]));
      }
      add({kind: 'table', columns, head: cellsOf(line), rows});
    } else if (depth < kMostDepth && kQuote.test(line)) {
      while (i < lines.length && kQuote.test(lines[i])) ++i;
      add({kind: 'quote', lines: lines.slice(begin, i).map((l) => l.replace(kQuote, ''))});
    } else if (depth < kMostDepth && item && item.indent < 4) {
      const items = [];
      i = takeList(raw, lines, i, item, items, depth);
      last = items[items.length - 1].number ?? 0;
      add({kind: 'list', start: item.number, items});
    } else {
      while (++i < lines.length && lines[i].trim() !== '' &&
             !beginsBlock(lines[i], lines[i + 1], depth)) {}
      add({kind: 'paragraph', text: raw.slice(begin, i).join('\n').trimEnd()});
    }
  }
  return blocks;
}

// The items of the list that begins at line i with `first`, each as {number, lines}; returns the
// line after it. Nested items may be indented by two spaces, also below a number, as models do it.
function takeList(raw, lines, i, first, items, depth) {
  let item = first, isBlank = false;
  for (; i < lines.length; ++i) {
    const line = lines[i], indent = indentOf(line);
    if (line.trim() === '') {
      isBlank = true;
      continue;
    }
    const next = itemOf(line, null);
    const isIndented = indent >= item.width || (next && indent >= item.indent + 2);
    const isInside = items.length > 0 && isIndented;
    if (!isInside && next && next.kind === first.kind && next.indent < first.indent + 4) {
      item = next;
      items.push({number: item.number, lines: [line.slice(item.width)]});
    } else if (isInside || (!isBlank && !beginsBlock(line, lines[i + 1], depth))) {
      const most = Math.min(indent, item.width);
      // Code keeps its own tabs where the indent of the item has none.
      const own = /^ *\t/.test(raw[i].slice(0, most)) ? line : raw[i];
      items[items.length - 1].lines.push(...(isBlank ? [''] : []), own.slice(most));
    } else {
      break;
    }
    isBlank = false;
  }
  return i;
}

// --- inlines ------------------------------------------------------------------------------------

const isSpace = (c) => c === undefined || /\s/.test(c);
const isPunctuation = (c) => c !== undefined && /[\p{P}\p{S}]/u.test(c);

// The address as the browser reads it, if it is one that an answer may link to; else null.
function safeLink(address) {
  try {
    const url = new URL(address);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url : null;
  } catch {
    return null;  // relative to this server, whose pages an answer has no reason to open
  }
}

// The address that begins at `at`, after "](", with what may follow it: {url, end}, or null.
function destinationAt(text, at) {
  const part = text.slice(at, at + kMostDestination);
  let end = 0, depth = 0, address;
  if (part[0] === '<') {
    end = part.indexOf('>');
    if (end < 0) return null;
    address = part.slice(1, end++);
  } else {
    for (; end < part.length && !/\s/.test(part[end]); ++end) {
      if (part[end] === '(' && ++depth > kMostBrackets) return null;
      if (part[end] === ')' && depth-- === 0) break;
    }
    address = part.slice(0, end);
  }
  const title = /^\s*(?:"[^"]*"\s*|'[^']*'\s*)?\)/.exec(part.slice(end));
  const url = title && safeLink(address);
  return url ? {url, end: at + end + title[0].length} : null;
}

// Cuts a text into tokens: {text}, {open: tag, url}, {close: tag}, and runs of *, _ and ~ as
// {mark, num, canOpen, canClose, closes, opens}, which pairUp gives their tags.
function tokensOf(text) {
  const tokens = [], brackets = [], runs = [];
  const noTicks = new Set();  // lengths of runs of ` that nothing more closes
  let plain = '';
  const flush = () => {
    if (plain !== '') tokens.push({text: plain});
    plain = '';
  };
  const link = (url, shown) => {
    flush();
    tokens.push({open: 'a', url}, {text: shown}, {close: 'a'});
  };
  for (let i = 0; i < text.length;) {
    const c = text[i];
    if (c === '\\' && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? '')) {
      plain += text[i + 1];
      i += 2;
    } else if (c === '`') {
      let num = 1;
      while (text[i + num] === '`') ++num;
      const ticks = '`'.repeat(num);
      let end = noTicks.has(num) ? -1 : text.indexOf(ticks, i + num);
      while (end >= 0 && text[end + num] === '`') {
        let after = end + num;
        while (text[after] === '`') ++after;
        end = text.indexOf(ticks, after);
      }
      if (end < 0) {
        noTicks.add(num);
        plain += ticks;
        i += num;
      } else {
        flush();
        const code = text.slice(i + num, end);
        const isPadded = code.startsWith(' ') && code.endsWith(' ') && code.trim() !== '';
        tokens.push({open: 'code'}, {text: isPadded ? code.slice(1, -1) : code}, {close: 'code'});
        i = end + num;
      }
    } else if (c === '*' || c === '_' || (c === '~' && text[i + 1] === '~')) {
      flush();
      let num = 1;
      while (text[i + num] === c) ++num;
      const before = text[i - 1], after = text[i + num];
      const isLeft = !isSpace(after) &&
          (!isPunctuation(after) || isSpace(before) || isPunctuation(before));
      const isRight = !isSpace(before) &&
          (!isPunctuation(before) || isSpace(after) || isPunctuation(after));
      const run = {mark: c, num, size: num, closes: [], opens: [],
                   canOpen: isLeft && (c !== '_' || !isRight || isPunctuation(before)),
                   canClose: isRight && (c !== '_' || !isLeft || isPunctuation(after))};
      tokens.push(run);
      runs.push(run);
      i += num;
    } else if (c === '[' || (c === '!' && text[i + 1] === '[')) {
      flush();
      const bracket = {text: c === '!' ? '![' : '['};
      tokens.push(bracket);
      brackets.push({token: bracket, numRuns: runs.length});
      i += bracket.text.length;
    } else if (c === ']' && brackets.length > 0) {
      const {token, numRuns} = brackets.pop();
      const to = text[i + 1] === '(' ? destinationAt(text, i + 2) : null;
      if (to) {
        flush();
        pairUp(runs.splice(numRuns));  // emphasis does not cross the bounds of a link
        Object.assign(token, {text: undefined, open: 'a', url: to.url});
        tokens.push({close: 'a'});
        brackets.length = 0;  // a link holds no other
        i = to.end;
      } else {
        plain += c;
        ++i;
      }
    } else if (c === '<') {
      const end = text.slice(i, i + kMostDestination).indexOf('>');
      const address = text.slice(i + 1, i + Math.max(end, 1));
      const isAddress = /^(https?:\/\/|mailto:)\S+$/i.test(address);
      const url = isAddress && brackets.length === 0 ? safeLink(address) : null;
      if (url) {
        link(url, address);
        i += end + 1;
      } else {
        plain += c;
        ++i;
      }
    } else if ((c === 'h' || c === 'H') && !/\w/.test(text[i - 1] ?? '') &&
               /^https?:\/\//i.test(text.slice(i, i + 8))) {
      const address = /^[^\s<>"`|\]]*/.exec(text.slice(i, i + kMostDestination))[0];
      const end = endOfBareLink(address);
      const url = safeLink(address.slice(0, end));
      if (url && brackets.length === 0) link(url, address.slice(0, end));
      else plain += address.slice(0, end);
      i += end;
    } else {
      plain += c;
      ++i;
    }
  }
  flush();
  pairUp(runs);
  return tokens;
}

// Where the address ends that stands in a text without brackets: before the punctuation of the
// sentence, and a bracket that it does not open itself.
function endOfBareLink(address) {
  let end = address.length, opened = 0;
  for (const c of address) opened += c === '(' ? 1 : c === ')' ? -1 : 0;
  for (; end > 0; --end) {
    if (address[end - 1] === ')' && opened < 0) ++opened;
    else if (!/[.,;:!?*_~'\]]/.test(address[end - 1])) break;
  }
  return end;
}

// Pairs runs of emphasis that open and close (CommonMark, "process emphasis"): each gets its tags.
function pairUp(runs) {
  const open = [];              // indices of runs that may still be closed
  const bottom = new Map();     // by kind of closer: below this index of `open` none fits
  for (const run of runs) {
    const kind = run.mark + run.canOpen + run.size % 3;
    while (run.canClose && run.num > 0) {
      let at = open.length - 1;
      const lowest = bottom.get(kind) ?? 0;
      while (at >= lowest && !fits(open[at], run)) --at;
      if (at < lowest) {
        bottom.set(kind, open.length);
        break;
      }
      const opener = open[at];
      open.length = at + 1;
      for (const [key, low] of bottom) bottom.set(key, Math.min(low, open.length));
      const isTilde = run.mark === '~';
      const num = isTilde || (opener.num >= 2 && run.num >= 2) ? 2 : 1;
      const tag = isTilde ? 'del' : num === 2 ? 'strong' : 'em';
      opener.num -= num;
      run.num -= num;
      opener.opens.unshift(tag);
      run.closes.push(tag);
      if (opener.num < (isTilde ? 2 : 1)) open.pop();
      if (isTilde && run.num < 2) break;
    }
    if (run.canOpen && run.num > (run.mark === '~' ? 1 : 0)) open.push(run);
  }
}

function fits(opener, closer) {
  if (opener.mark !== closer.mark) return false;
  if (opener.mark === '~') return opener.num >= 2 && closer.num >= 2;
  const isMixed = (opener.canClose || closer.canOpen) &&
      (opener.size + closer.size) % 3 === 0 && !(opener.size % 3 === 0 && closer.size % 3 === 0);
  return !isMixed;
}

function appendInlines(parent, text) {
  const path = [parent];
  let skipped = 0;  // elements that are open, but too deep to be made
  const open = (tag, url) => {
    if (path.length > kMostStyles) {
      ++skipped;
      return;
    }
    const node = element(tag);
    if (url) {
      node.href = url.href;
      node.rel = 'noopener noreferrer';
      node.target = '_blank';
      node.title = url.href;
    }
    path[path.length - 1].append(node);
    path.push(node);
  };
  const close = () => {
    if (skipped > 0) {
      --skipped;
      return;
    }
    const node = path.pop();
    // A text may claim to lead elsewhere than it does.
    if (node.tagName !== 'A') return;
    const host = new URL(node.href).host;
    if (host && !node.textContent.includes(host)) node.dataset.host = ` (${host})`;
  };
  const say = (words) => words && path[path.length - 1].append(document.createTextNode(words));
  for (const token of tokensOf(text)) {
    if (token.open) {
      open(token.open, token.url);
    } else if (token.close) {
      close();
    } else if (token.mark) {
      token.closes.forEach(close);
      say(token.mark.repeat(token.num));
      token.opens.forEach((tag) => open(tag));
    } else {
      say(token.text);
    }
  }
  return parent;
}

// --- nodes --------------------------------------------------------------------------------------

function blockNode(block, depth) {
  switch (block.kind) {
    case 'code': {
      const node = element('pre');
      node.tabIndex = 0;  // it scrolls sideways
      node.append(element('code', block.text));
      return node;
    }
    case 'rule':
      return element('hr');
    case 'text':
      return element('p', block.text);
    case 'heading':  // below the question's own, which is an h2
      return appendInlines(element('h' + Math.min(6, block.level + 2)), block.text);
    case 'table':
      return tableNode(block);
    case 'quote': {
      const node = element('blockquote');
      node.append(...blocksOf(block.lines, depth + 1).map((b) => blockNode(b, depth + 1)));
      return node;
    }
    case 'list': {
      const node = element(block.start === null ? 'ul' : 'ol');
      if (block.start !== null) node.start = block.start;
      let expected = block.start ?? 0;
      block.items.forEach(({number, lines}, i) => {
        const item = itemNode(lines, depth + 1);
        // As in CommonMark, 1. 1. 1. counts on; a number that skips some is kept.
        if (number > expected && i < kMostNumbered) item.value = number;
        expected = Math.max(number, expected) + 1;
        node.append(item);
      });
      return node;
    }
    default:
      return appendInlines(element('p'), block.text);
  }
}

function itemNode(lines, depth) {
  const node = element('li');
  blocksOf(lines, depth).forEach((block, i) => {
    if (i === 0 && block.kind === 'paragraph') appendInlines(node, block.text);
    else node.append(blockNode(block, depth));
  });
  return node;
}

function tableNode({columns, head, rows}) {
  const table = element('table'), box = element('div', undefined, 'table');
  const row = (cells, tag) => {
    const node = element('tr');
    cells.forEach((cell, i) => {
      const part = appendInlines(element(tag), cell);
      if (columns[i] && columns[i] !== 'left') part.className = columns[i];
      if (tag === 'th') part.scope = 'col';
      node.append(part);
    });
    return node;
  };
  const top = element('thead'), body = element('tbody');
  top.append(row(head, 'th'));
  body.append(...rows.map((cells) => row(cells, 'td')));
  table.append(top, body);
  box.append(table);
  box.tabIndex = 0;  // it scrolls sideways
  return box;
}

// Shows a text in `node`, whose blocks that have not changed stay as they are: while an answer
// streams, only its last one is made anew, and a selection above it lasts.
function showMarkdown(node, text) {
  const whole = text.replaceAll('\r\n', '\n');
  const newline = whole.length > kMostMarkdown ? whole.lastIndexOf('\n', kMostMarkdown) : -1;
  const end = whole.length <= kMostMarkdown ? whole.length
      : newline > 0 ? newline + 1 : kMostMarkdown;
  const lines = whole.slice(0, end).split('\n');
  const before = node.blocks ?? [];
  const sourceOf = (block) => block.kind === 'text' ? block.text
      : lines.slice(block.begin, block.end).join('\n');
  const blocks = blocksOf(lines, 0);
  if (end < whole.length) blocks.push({kind: 'text', text: whole.slice(end)});
  const after = blocks.map(
      (block) => ({...block, source: block.kind + (block.start ?? '') + sourceOf(block)}));
  let same = 0;
  while (same < after.length && before[same]?.source === after[same].source) ++same;
  while (node.childNodes.length > same) node.lastChild.remove();
  node.append(...after.slice(same).map((block) => blockNode(block, 0)));
  node.blocks = after;
  return node;
}
