/**
 * How long a promise may stay open before the suite takes it for one that never settles, in milliseconds. Against
 * hangs only: work that goes on may take as long as the machine needs for it.
 */
export const defaultPatience = 300_000;

/** Thrown where a promise stays open. */
export class Hung extends Error {
  constructor(what: string, milliseconds: number) {
    super(`${what}: its promise is still open after ${milliseconds} ms`);
    this.name = "Hung";
  }
}

const underWay: number[] = [];

/** Does something with this patience. Of what is done at the same time, all have that of the most patient. */
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

/** The outcome of a promise; throws `Hung` where it stays open. */
export async function settled<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  return within(patience(), promise, what);
}

/** As `settled`, for what awaits several of those: it is more patient than they are, so that they say what hangs. */
export async function settledAsWhole<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  return within(4 * patience(), promise, what);
}

/** Whoever awaits a promise outside of a run has the default. */
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
