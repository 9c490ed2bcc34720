/** How an entry runs, as its name says: `NAME.js`, `NAME.not-isolated.js`, `NAME.worker.js`, or with both words. */
export interface EntryForm {
  /** Without isolation there is no `SharedArrayBuffer`. */
  readonly isIsolated: boolean;
  /** In a dedicated module worker, not in the page itself. */
  readonly inWorker: boolean;
}

export function entryForm(entry: string): EntryForm {
  const words = entry.split("/").at(-1)!.split(".").slice(1, -1);
  return { isIsolated: !words.includes("not-isolated"), inWorker: words.includes("worker") };
}

/**
 * Below this path the server has all files once more, for modules that run in workers. Import maps do not
 * apply there, so each import names the address to which the import map of a page would lead.
 */
export const WORKER_ROOT = "/in-worker";
