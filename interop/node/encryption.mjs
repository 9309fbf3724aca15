// Adds jobs with encrypted data and runs jobs whose data is encrypted.
//
//   node encryption.mjs -redis HOST:PORT -queue orders -to other -codec FILE -kid ID -key BASE64 [-bullmq 6|5]
//
// FILE exports encrypt and decrypt. Each line of standard input, {"name","data"}, is added to the queue `to`. The jobs
// of the queue are run and return {"to"} of their data. Lines written: {"event":"ready"} and, for each job that ran,
// {"event":"ran","name","data"} with the decrypted data. The program ends with its standard input.

import { pathToFileURL } from 'node:url';

import { connectionOptions, readFlags } from './flags.mjs';
import { loadLibrary } from './library.mjs';
import { leave, readLines, writeLine } from './lines.mjs';

const flags = readFlags({
  redis: '127.0.0.1:6379', queue: 'orders', to: 'other', codec: '', kid: '', key: '', bullmq: '6',
});
const { Queue, Worker } = await loadLibrary(flags.bullmq);
const { encrypt, decrypt } = await import(pathToFileURL(flags.codec));
const connection = () => ({ connection: connectionOptions(flags.redis) });
const key = Buffer.from(flags.key, 'base64');

const queue = new Queue(flags.to, connection());
const worker = new Worker(flags.queue, async job => {
  const data = decrypt(job, { [flags.kid]: key });
  writeLine({ event: 'ran', name: job.name, data });
  return { to: data.to };
}, connection());
const members = [queue, worker];
for (const member of members) {
  member.on('error', error => process.stderr.write(`${error?.stack ?? error}\n`));
}
await Promise.all(members.map(member => member.waitUntilReady()));
writeLine({ event: 'ready' });
for await (const { name, data } of readLines()) {
  await queue.add(name, encrypt(name, data, flags.kid, key));
}
await Promise.all(members.map(member => member.close()));
leave();
