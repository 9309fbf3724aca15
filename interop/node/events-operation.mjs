// `events`: all events of a queue, as QueueEvents passes them to listeners.

/**
 * Reads the stream from the start to its current last entry, and for `wait` more milliseconds
 * what follows. Returns [[event, payload]]; `drained` has no payload.
 */
export async function readEvents(session, { queue, wait = 0 }) {
  const { prefix } = session.options();
  const stored = await session.client().xrange(`${prefix}:${queue}:events`, '-', '+');
  if (stored.length === 0 && wait === 0) {
    return [];
  }
  const lastId = stored.at(-1)?.[0];
  // Listeners are registered by event name, so the names are read first.
  const names = new Set(stored.map(([, fields]) => fields[fields.indexOf('event') + 1]));

  const reader = new session.bullmq.QueueEvents(queue, {
    ...session.options({ own: true }),
    autorun: false,
    lastEventId: '0-0',
  });
  const heard = [];
  try {
    await new Promise((resolve, reject) => {
      const note = (event, payload, id) => {
        heard.push([event, payload]);
        if (id === lastId) {
          setTimeout(resolve, wait);
        }
      };
      reader.on('error', reject);
      for (const name of names) {
        if (name === 'drained') {
          reader.on(name, id => note(name, {}, id));
        } else {
          reader.on(name, (payload, id) => note(name, payload, id));
        }
      }
      if (lastId === undefined) {
        setTimeout(resolve, wait);
      }
      reader.waitUntilReady().then(() => reader.run()).catch(reject);
    });
  } finally {
    reader.removeAllListeners('error');
    reader.on('error', () => {});
    await reader.close();
  }
  return heard;
}
