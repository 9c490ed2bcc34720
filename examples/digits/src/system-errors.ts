import { BackendError } from "@backplane/core";
import { FileError } from "./file-error.js";

/** As of a program that SIGPIPE ends. */
const unreadExitCode = 141;

/**
 * From now on an error of the system that the program does not handle, such as a file or a GPU that is not there or a full disk, ends it
 * with one line and 1. If nobody reads its output any more (`pnpm start | head`), it ends without a word and with 141.
 */
export function tellSystemErrors(): void {
  process.on("uncaughtException", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(unreadExitCode);
    const isUnsupported = error instanceof BackendError && error.code === "UNSUPPORTED";
    const isPlain = error instanceof FileError || isUnsupported || error.syscall !== undefined;
    console.error(isPlain ? error.message : error);
    process.exit(1);
  });
}
