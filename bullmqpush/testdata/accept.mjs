// An endpoint that accepts each job with 202, works on it, and ends it by callbacks. It repeats a callback while Redis can't be
// reached. A receiver must also verify the signature, as the receivers in docs/push.md do.
//
//   PORT=8080 node accept.mjs

import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

async function callBack(address, call, body) {
  for (;;) {
    const response = await fetch(`${address}/${call}`, { method: 'POST', body: JSON.stringify(body) });
    if (response.status === 204) return;
    const problem = await response.json();
    if (response.status !== 503) throw new Error(problem.code); // such as ATTEMPT_ENDED: stop the work
    await sleep(1000 * response.headers.get('retry-after'));
  }
}

async function work(address, data) {
  await callBack(address, 'progress', { doubling: data.n });
  if (data.n < 0) await callBack(address, 'fail', { reason: 'n is negative', unrecoverable: true });
  else await callBack(address, 'complete', { doubled: data.n * 2 });
}

createServer(async (request, response) => {
  const data = JSON.parse(Buffer.concat(await request.toArray()));
  response.writeHead(202).end();
  work(request.headers['bullmq-callback'], data).catch((error) => console.error(error.message));
}).listen(process.env.PORT);
