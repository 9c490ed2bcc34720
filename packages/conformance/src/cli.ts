#!/usr/bin/env node
import { exitCodes, main } from "./cli/main.js";

/** A case under way is waited for this long after Ctrl-C. Against hangs only: pressed again, it ends at once. */
const patienceMilliseconds = 120_000;

/** What a backend leaves running, such as threads, may not keep the program from ending. Against hangs only. */
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

// A fault of the backend that nobody waits for must not pass for the end of the run.
process.on("unhandledRejection", (error) => {
  process.stderr.write(`a promise was rejected that nobody handles: ${String(error)}\n`);
  process.exitCode = exitCodes.broken;
});

const code = await main(process.argv.slice(2), {
  output: process.stdout,
  errors: process.stderr,
  signal: stopping.signal,
});
// What was noted above stands.
if (process.exitCode === undefined || code !== exitCodes.kept) process.exitCode = code;
setTimeout(() => {
  process.stderr.write("the backend keeps the process alive after dispose()\n");
  process.exit();
}, lingerMilliseconds).unref();
