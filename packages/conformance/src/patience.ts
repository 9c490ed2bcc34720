/**
 * A promise that stays open for this many milliseconds counts as one that never settles. This only guards
 * against hangs: work that makes progress may take as long as the machine needs.
 */
export const defaultPatience = 300_000;

/** Thrown if a promise stays open. */
export class Hung extends Error {
  constructor(what: string, milliseconds: number) {
    super(`${what}: its promise is still open after ${milliseconds} ms`);
    this.name = "Hung";
  }
}

const underWay: number[] = [];

/** Runs `body` with this patience. If several run at the same time, all have the largest patience among them. */
export async function withPatience<Result>(
  milliseconds: number,
  body: () => Promise<Result>,
): Promise<Result> {
  underWay.push(milliseconds);
  try {
    return await body();
  } finally {
    underWay.splice(underWay.indexOf(milliseconds), 1);
  }
}

/** Returns the outcome of a promise. Throws `Hung` if it stays open. */
export async function settled<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  return within(patience(), promise, what);
}

/**
 * As `settled`, for a promise that awaits several of those. It waits longer than they do, so that they report
 * what hangs.
 */
export async function settledAsWhole<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  return within(4 * patience(), promise, what);
}

/** Outside a run the default applies. */
function patience(): number {
  return underWay.length > 0 ? Math.max(...underWay) : defaultPatience;
}

async function within<Value>(milliseconds: number, promise: Promise<Value>, what: string): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Hung(what, milliseconds)), milliseconds);
  });
  try {
    return await Promise.race([promise, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
