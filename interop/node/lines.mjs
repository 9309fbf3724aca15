// JSON lines: one value a line on standard input and standard output.

import { createInterface } from 'node:readline';

// Standard output belongs to the protocol alone, whatever a library wants to print.
console.log = console.info = console.debug = console.error;

/** Writes one value as a line. */
export function writeLine(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** Yields the values of standard input, line by line, until it ends or the signal is given. */
export async function* readLines({ signal } = {}) {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity, signal })) {
    if (line.trim() !== '') {
      yield JSON.parse(line);
    }
  }
}

/** Ends the program once what was written has been taken: process.exit alone would drop it. */
export function leave(status = 0) {
  process.stdout.end(() => process.exit(status));
}
