// Listens to a queue's events and prints each.
//
//   node events.mjs -redis HOST:PORT -queue orders [-prefix bull] [-bullmq 6|5]
//                   [-from now|STREAM-ID] [-count N] [-also name,name]
//
// Lines: {"event":"ready"} when no further event can be missed; {"event":"queue","name","payload","streamId"}
// for each event with the payload of a listener ({} for `drained`, which has none); and
// {"event":"closed","events"} at the end. -from 0-0 reads the stream from its start. -also names custom
// events to listen for. The program ends after -count events, on SIGTERM, or when its standard input is
// closed.

import { Redis } from 'ioredis';

import { connectionOptions, readFlags } from './flags.mjs';
import { loadLibrary } from './library.mjs';
import { leave, writeLine } from './lines.mjs';
import { askedToStop } from './stopping.mjs';

const NAMES = [
  'active', 'added', 'cleaned', 'completed', 'debounced', 'deduplicated', 'delayed', 'drained', 'duplicated',
  'failed', 'paused', 'progress', 'removed', 'resumed', 'retries-exhausted', 'stalled', 'waiting',
  'waiting-children',
];

const flags = readFlags({
  redis: '127.0.0.1:6379', prefix: 'bull', queue: 'orders', bullmq: '6', from: 'now', count: 0, also: '',
});
const { QueueEvents } = await loadLibrary(flags.bullmq);

const events = new QueueEvents(flags.queue, {
  connection: connectionOptions(flags.redis),
  prefix: flags.prefix,
  autorun: false,
  lastEventId: flags.from === 'now' ? await lastId() : flags.from,
});

let heard = 0;
const counted = new Promise(resolve => {
  const print = (name, payload, streamId) => {
    if (flags.count > 0 && heard >= flags.count) {
      return; // one read returns many events
    }
    writeLine({ event: 'queue', name, payload, streamId });
    if (++heard === flags.count) {
      resolve('count');
    }
  };
  for (const name of [...NAMES, ...flags.also.split(',').filter(Boolean)]) {
    if (name === 'drained') {
      events.on(name, streamId => print(name, {}, streamId));
    } else {
      events.on(name, (payload, streamId) => print(name, payload, streamId));
    }
  }
});
events.on('error', error => process.stderr.write(`${error.stack}\n`));

await events.waitUntilReady();
events.run().catch(error => process.stderr.write(`${error.stack}\n`));
writeLine({ event: 'ready' });
await Promise.race([counted, askedToStop()]);
await events.close();
writeLine({ event: 'closed', events: heard });
leave();

/** Returns the stream's last id. Unlike with `$`, no event is missed before the first read. */
async function lastId() {
  const redis = new Redis(connectionOptions(flags.redis));
  const [last] = await redis.xrevrange(`${flags.prefix}:${flags.queue}:events`, '+', '-', 'COUNT', 1);
  redis.disconnect();
  return last?.[0] ?? '0-0';
}
