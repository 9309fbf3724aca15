// Serves bull-board, a dashboard for BullMQ, for the queues of a Redis.
//
//   node bull-board.mjs -redis HOST:PORT -queues orders,mails [-prefix bull] [-bullmq 6|5]
//
// Line: {"event":"ready","port"} once it listens on 127.0.0.1. It ends on SIGTERM, or when its standard input
// is closed.

import { createRequire } from 'node:module';
import { connectionOptions, readFlags } from './flags.mjs';
import { loadLibrary } from './library.mjs';
import { leave, writeLine } from './lines.mjs';
import { askedToStop } from './stopping.mjs';

const require = createRequire(import.meta.url);
const { createBullBoard } = require('@bull-board/api');
const { BullMQAdapter } = require('@bull-board/api/bullMQAdapter');
const { ExpressAdapter } = require('@bull-board/express');
const express = require('express');

const flags = readFlags({ redis: '127.0.0.1:6379', prefix: 'bull', queues: 'orders', bullmq: '6' });
const { Queue } = await loadLibrary(flags.bullmq);
const queues = flags.queues.split(',').map(name => new Queue(name, { connection: connectionOptions(flags.redis), prefix: flags.prefix }));

const serverAdapter = new ExpressAdapter();
createBullBoard({ queues: queues.map(queue => new BullMQAdapter(queue)), serverAdapter });
const app = express();
app.use('/', serverAdapter.getRouter());
const server = app.listen(0, '127.0.0.1', () => writeLine({ event: 'ready', port: server.address().port }));

await askedToStop();
server.closeAllConnections();
server.close();
await Promise.all(queues.map(queue => queue.close()));
leave();
