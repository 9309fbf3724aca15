// The Node driver of the parity protocol: it reads instructions and writes responses, one JSON object per line.
//
//   node driver.mjs -redis HOST:PORT -prefix bull [-bullmq 6|5]
//
// An instruction is {"id":1,"op":"add","args":{…}}. Its response is {"id":1,"result":…} or
// {"id":1,"error":{"message":"…","code":-2}}. Creating a Queue writes `meta`, so the object that performs an
// operation matters. Processing by hand, `stalled` and `run` create a Worker only. `addFlow`, `addFlowBulk`
// and `flowTree` create a FlowProducer, and `events` a QueueEvents. Every other operation creates the Queue.
//
// In addition to the protocol, `reset` closes every object and resumes the clock, so that the driver is in
// its initial state. An invalid instruction ends the driver with status 2: an error as a response could be
// mistaken for agreement.

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
    writeLine(await respond(id, op, args));
  }
  await session.close();
  leave();
} catch (error) {
  process.stderr.write(`${error instanceof ProtocolError ? error.message : error.stack}\n`);
  process.exit(2);
}

async function respond(id, op, args) {
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
