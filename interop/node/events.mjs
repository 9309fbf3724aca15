// Listens to a queue's events and tells of each.
//
//   node events.mjs -redis HOST:PORT -queue orders [-prefix bull] [-bullmq 6|5]
//                   [-from now|STREAM-ID] [-count N] [-also name,name]
//
// Lines: {"event":"ready"}, after which nothing is missed; {"event":"queue","name","payload","streamId"} for
// each event, with the payload as a listener gets it ({} for `drained`, which has none); and
// {"event":"closed","events"} at the end. -from 0-0 reads the stream from its start. -also names events
// of one's own to listen to. It ends after -count events, on SIGTERM, or when its standard input is closed.

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
  const tell = (name, payload, streamId) => {
    if (flags.count > 0 && heard >= flags.count) {
      return; // one read brings many events
    }
    writeLine({ event: 'queue', name, payload, streamId });
    if (++heard === flags.count) {
      resolve('count');
    }
  };
  for (const name of [...NAMES, ...flags.also.split(',').filter(Boolean)]) {
    if (name === 'drained') {
      events.on(name, streamId => tell(name, {}, streamId));
    } else {
      events.on(name, (payload, streamId) => tell(name, payload, streamId));
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

/** The stream's last id now: with it, unlike with `$`, nothing is missed until the first read. */
async function lastId() {
  const redis = new Redis(connectionOptions(flags.redis));
  const [last] = await redis.xrevrange(`${flags.prefix}:${flags.queue}:events`, '+', '-', 'COUNT', 1);
  redis.disconnect();
  return last?.[0] ?? '0-0';
}
