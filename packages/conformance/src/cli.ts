#!/usr/bin/env node
import { exitCodes, main } from "./cli/main.js";

/**
 * After Ctrl-C the program waits this many milliseconds for the case under way. This only guards against
 * hangs; a second Ctrl-C ends it at once.
 */
const patienceMilliseconds = 120_000;

/**
 * Whatever a backend leaves running, such as threads, must not keep the program from ending. This only guards
 * against hangs.
 */
const lingerMilliseconds = 10_000;

const stopping = new AbortController();

process.on("SIGINT", () => {
  if (stopping.signal.aborted) process.exit(exitCodes.interrupted);
  process.stderr.write("\nending after the case under way; Ctrl-C again ends at once\n");
  stopping.abort();
  setTimeout(() => {
    process.stderr.write("the case under way does not end\n");
    process.exit(exitCodes.interrupted);
  }, patienceMilliseconds).unref();
});

// A fault of the backend that nobody awaits must not look like the end of the run.
process.on("unhandledRejection", (error) => {
  process.stderr.write(`a promise was rejected that nobody handles: ${String(error)}\n`);
  process.exitCode = exitCodes.broken;
});

// It is no fault of the backend if nobody reads on, as after "| head". 141 is as of a program that SIGPIPE ends.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  isThrough = true;
  if (error.code === "EPIPE") process.exit(141);
  process.stderr.write(`standard output: ${error.message}\n`);
  process.exit(exitCodes.usage);
});

let law: string | undefined;
let isThrough = false;

// A backend that ends the process must not look as if it kept the laws, whatever exit code it chose.
process.on("exit", () => {
  if (isThrough || stopping.signal.aborted) return;
  process.stderr.write(
    `the process was ended ${law === undefined ? "before the first law" : `after the law ${law} had begun`}, by the backend or its runtime\n`,
  );
  process.exitCode = exitCodes.broken;
});

const code = await main(process.argv.slice(2), {
  output: process.stdout,
  errors: process.stderr,
  signal: stopping.signal,
  onLaw(started) {
    law = started;
  },
});
isThrough = true;
// An exit code set above stays.
if (process.exitCode === undefined || code !== exitCodes.kept) process.exitCode = code;
setTimeout(() => {
  process.stderr.write("the backend keeps the process alive after dispose()\n");
  process.exit();
}, lingerMilliseconds).unref();
