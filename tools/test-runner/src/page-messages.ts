import type { FinishedTest } from "./test-times.js";

/**
 * A message of an entry to the runner: from a page through a function that the runner adds to its window,
 * from a worker through its page, which passes it on.
 */
export type PageMessage =
  | { readonly type: "test"; readonly test: FinishedTest; readonly failure?: PageFailure }
  | { readonly type: "end" }
  | { readonly type: "broken"; readonly message: string };

/** A message of an entry's worker to its page. It has `started` when it holds `WORKER_LOCK`. */
export type WorkerMessage = PageMessage | { readonly type: "started" };

/**
 * The name of the lock that the worker of an entry holds for as long as it lives. The browser releases it
 * however the worker ends, so its page gets it exactly when the worker is gone.
 */
export const WORKER_LOCK = "worker of the entry";

export interface PageFailure {
  readonly titlePath: string[];
  readonly message: string;
  readonly stack: string;
  /** Both are given, as text, when the assertion compared two values. */
  readonly actual?: string;
  readonly expected?: string;
}

export const TELL_RUNNER = "tellTestRunner";

export type TellRunner = (message: PageMessage) => Promise<void>;

/**
 * Returns the function that sends the page's messages to the runner, in order: the end waits for all messages
 * before it.
 */
export function runnerOfPage(): (message: PageMessage) => void {
  const tell = (globalThis as unknown as Record<string, TellRunner>)[TELL_RUNNER]!;
  let sent: Promise<void> = Promise.resolve();
  return (message) => {
    sent = sent.then(() => tell(message));
  };
}
