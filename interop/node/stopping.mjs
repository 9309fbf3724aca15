// Reports when a program that runs until it is stopped should end.

import { fstatSync } from 'node:fs';

/**
 * Resolves with the reason on SIGTERM, SIGINT, or when the pipe on standard input is closed, which
 * also happens when the parent process dies. Other kinds of standard input, such as a terminal or
 * /dev/null, are ignored.
 */
export function askedToStop() {
  return new Promise(resolve => {
    process.once('SIGTERM', () => resolve('SIGTERM'));
    process.once('SIGINT', () => resolve('SIGINT'));
    const input = fstatSync(0);
    if (input.isFIFO() || input.isSocket()) {
      process.stdin.once('end', () => resolve('end of input'));
      process.stdin.once('error', () => resolve('end of input'));
      process.stdin.resume();
    }
  });
}
