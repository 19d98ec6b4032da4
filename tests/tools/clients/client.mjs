// One request of Node's fetch: node client.mjs URL BODY read|cancel
// Prints the status and the body; `cancel` reads the first piece of it and gives up.
const [url, body, mode] = process.argv.slice(2);
const giveUp = new AbortController();
const response = await fetch(url, {
  method: 'POST', body, headers: {'Content-Type': 'application/json'}, signal: giveUp.signal,
});
console.log(response.status);
try {
  for await (const piece of response.body) {
    process.stdout.write(piece);
    if (mode === 'cancel') giveUp.abort();
  }
} catch (error) {
  if (mode !== 'cancel') throw error;
}
