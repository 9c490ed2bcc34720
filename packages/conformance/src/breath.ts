/** The event loop gets a turn after this many milliseconds. */
const breath = 25;

let last = performance.now();

/**
 * Lets other tasks run now and then. A backend that computes at once would otherwise keep timers, signals and
 * the screen waiting from the first case to the last.
 */
export async function breathe(): Promise<void> {
  if (performance.now() - last < breath) return;
  await nextTask();
  last = performance.now();
}

/** Prefers other ways to a timer: in a background tab, timers wait for a second. */
function nextTask(): Promise<void> {
  if (typeof setImmediate === "function") return new Promise((resolve) => setImmediate(resolve));
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}
