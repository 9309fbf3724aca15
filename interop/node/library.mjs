// Loads the reference library.

/** Imports bullmq 6 (6.7.0) or bullmq 5 (5.81.5), the versions pinned in package.json. */
export async function loadLibrary(line) {
  switch (String(line)) {
    case '6':
      return import('bullmq');
    case '5':
      return import('bullmq5');
    default:
      process.stderr.write(`-bullmq must be 6 or 5, not ${line}\n`);
      process.exit(2);
  }
}
