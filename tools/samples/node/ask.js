// Indexes a text file and asks about it: node ask.js MODEL STORE FILE QUESTION
'use strict';
const fs = require('fs');
const lectern = require('./build/lectern.node');

async function main(model, store, file, question) {
  const engine = lectern.open(store, model);
  const text = fs.readFileSync(file, 'utf8');
  const report = await lectern.index(engine, text);
  const answer = await lectern.ask(engine, report.document, question);
  console.log(answer.answer);
  for (const passage of answer.evidence) {
    console.log(`[${passage.begin}:${passage.end}] ${text.slice(passage.begin, passage.end)}`);
  }
}

if (process.argv.length !== 6) {
  console.error('node ask.js MODEL STORE FILE QUESTION');
  process.exit(2);
}
main(...process.argv.slice(2)).catch((error) => {
  console.error(`${error.code}: ${error.message}`);
  process.exit(1);
});
