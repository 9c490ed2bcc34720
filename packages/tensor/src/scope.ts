import { described, refuse } from "./errors.js";

/** Frees what objects without a scope held, when nobody can use them any more. */
const net = new FinalizationRegistry<() => void>((release) => release());

/** Something that ends with a scope. Tensors are the one kind. */
export abstract class Scoped implements Disposable {
  #owner: Members | undefined;
  #isDisposed = false;

  get isDisposed(): boolean {
    return this.#isDisposed;
  }

  /** Gives up what the object holds. Idempotent. */
  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    if (this.#owner === undefined) net.unregister(this);
    this.#owner = undefined;
    this.release();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /**
   * Takes the object out of its scope: it lives until `dispose`. If nobody calls that, the garbage collector frees it at
   * some time after its last use, which may be late. Returns the object.
   */
  keep(): this {
    if (!this.#isDisposed && this.#owner !== undefined) {
      this.#owner = undefined;
      this.guard();
    }
    return this;
  }

  /** Adds a new object to the scope in use. */
  protected enter(): void {
    this.#owner = current;
    if (current === undefined) this.guard();
    else current.push(this);
  }

  /** To be called when what `releaser` returns changes. */
  protected guard(): void {
    if (this.#owner !== undefined) return;
    net.unregister(this);
    net.register(this, this.releaser(), this);
  }

  /** Returns a function that frees what the object holds, and does not hold the object itself. */
  protected abstract releaser(): () => void;

  protected abstract release(): void;

  static move(object: Scoped, from: Members, to: Members | undefined): void {
    if (object.#owner !== from) return;
    object.#owner = to;
    if (to === undefined) object.guard();
    else to.push(object);
  }

  static end(members: Members): void {
    // In order, so that memory returns to the pool as it will be asked for in the next step.
    for (let i = 0; i < members.length; i++) if (members[i]!.#owner === members) members[i]!.dispose();
  }
}

type Members = Scoped[];

let current: Members | undefined;

/**
 * Runs a function and frees the tensors that were made meanwhile, except those in its result: a tensor, or arrays, plain
 * objects and maps that hold some. These belong to the scope around, if there is one.
 *
 *   const loss = scope(() => model.forward(x).sub(y).square().mean());
 *
 * The function must not be asynchronous: after an `await` the scope would be that of other code. Read results
 * outside. Throws `INVALID_ARGUMENT` if it returns a promise.
 */
export function scope<Result>(body: () => Result): Result {
  if (typeof body !== "function") refuse("scope", "body", `is ${described(body)}; allowed: a function`);
  const outer = current;
  const members: Members = [];
  current = members;
  try {
    const result = body();
    if (typeof (result as Partial<PromiseLike<unknown>> | null | undefined)?.then === "function") {
      // Nobody else will see a failure of it.
      (result as PromiseLike<unknown>).then(undefined, () => {});
      refuse(
        "scope",
        "body",
        "returns a promise; allowed: functions that end before they return (await outside)",
      );
    }
    moveAll(result, members, outer);
    return result;
  } finally {
    current = outer;
    Scoped.end(members);
  }
}

function moveAll(result: unknown, from: Members, to: Members | undefined, seen = new Set<object>()): void {
  if (typeof result !== "object" || result === null) return;
  if (result instanceof Scoped) {
    Scoped.move(result, from, to);
    return;
  }
  // A result may hold itself.
  if (seen.has(result)) return;
  seen.add(result);
  if (Array.isArray(result)) for (const entry of result) moveAll(entry, from, to, seen);
  else if (result instanceof Map) for (const entry of result.values()) moveAll(entry, from, to, seen);
  else if (Object.getPrototypeOf(result) === Object.prototype)
    for (const entry of Object.values(result)) moveAll(entry, from, to, seen);
}
