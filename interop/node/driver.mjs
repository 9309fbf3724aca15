// The Node driver of the parity protocol: instructions in, answers out, one JSON object a line.
//
//   node driver.mjs -redis HOST:PORT -prefix bull [-bullmq 6|5]
//
// An instruction is {"id":1,"op":"add","args":{…}}, its answer {"id":1,"result":…} or
// {"id":1,"error":{"message":"…","code":-2}}. Which object of the library carries an operation
// out shows on the wire, because making a Queue writes `meta`: processing by hand, `stalled` and
// `run` make a Worker only, `addFlow`, `addFlowBulk` and `flowTree` a FlowProducer, `events` a
// QueueEvents; every other operation makes the Queue.
//
// Beyond the protocol, `reset` closes every object and lets the clock run, so that what follows
// finds the driver as if newly started. An instruction that can't be understood ends the driver
// with status 2: answered as an error, it could count as agreement.

import { setClock } from './clock.mjs';
import { connectionOptions, readFlags } from './flags.mjs';
import { loadLibrary } from './library.mjs';
import { leave, readLines, writeLine } from './lines.mjs';
import { carryOut } from './operations.mjs';
import { ProtocolError, Session } from './session.mjs';

const flags = readFlags({ redis: '127.0.0.1:6379', prefix: 'bull', bullmq: '6' });
const bullmq = await loadLibrary(flags.bullmq);
const newSession = () =>
  new Session({ bullmq, connection: connectionOptions(flags.redis), prefix: flags.prefix });

let session = newSession();
try {
  for await (const { id, op, args } of readLines()) {
    if (op === 'close') {
      await session.close();
      writeLine({ id, result: null });
      break;
    }
    if (op === 'reset') {
      await session.close();
      setClock();
      session = newSession();
      writeLine({ id, result: null });
      continue;
    }
    writeLine(await answer(id, op, args));
  }
  await session.close();
  leave();
} catch (error) {
  process.stderr.write(`${error instanceof ProtocolError ? error.message : error.stack}\n`);
  process.exit(2);
}

async function answer(id, op, args) {
  try {
    return { id, result: await carryOut(session, op, args) };
  } catch (error) {
    if (error instanceof ProtocolError) {
      throw error;
    }
    const { message, code } = error;
    return { id, error: typeof code === 'number' ? { message, code } : { message } };
  }
}
