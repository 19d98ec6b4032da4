'use strict';
// Links to answers: the part of the page's address behind #, which browsers do not send to servers.
// It has a document's or collection's name, the questions of the conversation until the answer, and
// how they were to be answered:
//   #document=NAME&question=...&question=...&budget=auto&compare=1     (or collection=NAME)
// Opened where the conversation has that answer, it is shown; elsewhere the questions are asked
// anew, after a click. Nothing is kept on the server.

const kMostLinked = 20;  // questions of one link

// The questions of a turn's conversation until it, and the turn itself last.
function questionsUntil(conversation, turn) {
  const end = conversation.turns.indexOf(turn) + 1;
  let begin = end - 1;
  while (begin > 0 && !conversation.turns[begin].isFirst) --begin;
  return conversation.turns.slice(begin, end).filter((t) => !t.sentences).map((t) => t.question);
}

// The address of a turn; null: its conversation has too many questions before it.
function linkTo(conversation, turn) {
  const questions = questionsUntil(conversation, turn);
  if (questions.length > kMostLinked) return null;
  const fields = new URLSearchParams();
  if (conversation.collection) fields.set('collection', conversation.collection);
  else fields.set('document', conversation.link);
  for (const question of questions) fields.append('question', question);
  fields.set('budget', turn.budget ?? 'auto');
  if (turn.exact !== null) fields.set('compare', '1');
  return location.href.split('#')[0] + '#' + fields;
}

// {document or collection, questions, budget, isComparing}, or null where the address has no link.
// `budget` is "auto" or a share of the document, also where the address has something else.
function readLink() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const collection = fields.get('collection'), name = fields.get('document');
  if (!collection && !name) return null;
  const budget = Number(fields.get('budget'));
  return {
    collection, document: name,
    questions: fields.getAll('question').map((q) => q.trim()).filter(Boolean).slice(0, kMostLinked),
    budget: budget > 0 && budget <= 1 ? Math.max(0.02, budget) : 'auto',
    isComparing: fields.get('compare') === '1',
  };
}

// The option of the picker that a link names, by a name or an id.
function optionOf(link) {
  return [...$('documents').options].find((o) => link.collection
      ? o.facts.collection === link.collection
      : !o.facts.collection && (o.value === link.document ||
                                o.facts.names.some((n) => n.name === link.document)));
}

// Leaves the link, so that a reload goes on with what was done since.
function forgetLink() {
  if (location.hash) history.replaceState(null, '', location.pathname + location.search);
}

// Waits for a click: any page can lead a browser here, and answers cost time and energy.
function confirmed(questions) {
  const said = questions.map((question) => `“${question}”`).join(', ');
  return new Promise((resolve) => {
    showJob('The link asks ' + said, 'Ask', () => {
      $('job').hidden = true;
      resolve();
    });
  });
}

// Shows the answer that a link leads to, or, after a click, asks its questions as a conversation of
// its own.
async function followLink(link) {
  const option = optionOf(link);
  if (!option) {
    const what = link.collection ? `the collection “${link.collection}”`
        : `“${link.document}”`;
    return keepSaying(`The link is about ${what}, which this server does not have.`);
  }
  $('documents').value = option.value;
  if (!chosen || chosen.id !== option.value) await showDocument();
  const conversation = chosen;
  if (link.questions.length === 0 || conversation.id !== option.value) return;
  const wanted = JSON.stringify(link.questions);
  const isWanted = (t) => !t.sentences && t.receipts.length > 0 &&
      (t.budget ?? 'auto') === link.budget && (t.exact !== null) === link.isComparing &&
      JSON.stringify(questionsUntil(conversation, t)) === wanted;
  const turn = conversation.turns.findLast(isWanted);
  if (turn) {
    goTo(conversation, turn, 0);
    view('answers');
    return keepInView(conversation, turn);
  }
  if (conversation.running) {
    return keepSaying('The link’s question is not asked while another answer is generated. ' +
                      'Open it again afterwards.');
  }
  await confirmed(link.questions);
  if (chosen !== conversation || conversation.running) return;
  $('auto').checked = link.budget === 'auto';
  if (link.budget !== 'auto') $('budget').value = Math.round(100 * link.budget);
  $('compare').checked = link.isComparing;
  showBudget();
  if (conversation.turns.length > 0) beginAnew();
  for (const question of link.questions) {
    await ask(conversation, question);
    if (conversation.turns.at(-1).receipts.length === 0) break;  // it failed
  }
}

addEventListener('hashchange', () => {
  const link = readLink();
  if (link) followLink(link).catch((error) => keepSaying(error.message));
});

// --- copying ------------------------------------------------------------------------------------

// Says on the button that it was done. Browsers give pages without HTTPS no clipboard, but copy a
// selection; where neither works, the text is displayed, to be copied by hand.
async function copy(text, node) {
  let isDone = false;
  try {
    await navigator.clipboard.writeText(text);
    isDone = true;
  } catch {
    const field = element('textarea', text, 'unseen');
    document.body.append(field);
    field.select();
    isDone = document.execCommand('copy');
    field.remove();
    node.focus();
  }
  if (!isDone) return keepSaying(text);
  const before = node.textContent;
  node.textContent = $('spoken').textContent = 'Copied';
  setTimeout(() => {
    if (node.textContent === 'Copied') node.textContent = before;
  }, 2000);
}

// Buttons for what can be done with a turn's answer.
function actionsOf(conversation, turn) {
  const row = element('div', undefined, 'actions');
  if (turn.answer) {
    const node = button('Copy answer', () => copy(turn.answer, node));
    row.append(node);
  }
  const link = linkTo(conversation, turn);
  if (link) {
    const node = button('Copy link', () => copy(link, node));
    node.title = 'A link that asks this again, or shows it where it was asked';
    row.append(node);
  }
  return row;
}
