import type { AllocOptions, ComputeBackend, HostBytes } from "./backend.js";
import { BackendError } from "./errors.js";
import { type DeviceHandle, describe } from "./handles.js";
import { upload } from "./host-arrays.js";

/**
 * Allocations that are freed together, on any backend:
 *
 *   const result = withScope(backend, (scope) => {
 *     const hidden = scope.alloc(bytes);
 *     const output = scope.alloc(bytes);
 *     ...
 *     return scope.keep(output);
 *   });
 *
 * or, in languages with `using`: `using scope = openScope(backend)`. A scope owns what is allocated by way of
 * it, and nothing else; so scopes may be open side by side, in asynchronous code too.
 */
export class Scope implements Disposable {
  readonly #backend: ComputeBackend;
  readonly #handles = new Set<DeviceHandle>();
  #isOver = false;

  constructor(backend: ComputeBackend) {
    this.#backend = backend;
  }

  /** `ComputeBackend.alloc`. After `dispose` it throws `DISPOSED`, as all that would add to the scope does. */
  alloc(bytes: number, options?: AllocOptions): DeviceHandle {
    this.#assertOpen("alloc");
    return this.add(this.#backend.alloc(bytes, options));
  }

  /** A new allocation that holds these bytes. */
  upload(source: HostBytes): DeviceHandle {
    this.#assertOpen("upload");
    return this.add(upload(this.#backend, source));
  }

  /** Frees one of the allocations before the others. */
  free(handle: DeviceHandle): void {
    this.#assertOwned("free", handle);
    this.#backend.free(handle);
    this.#handles.delete(handle);
  }

  /** Takes over an allocation that was made elsewhere, such as one that an inner scope has kept. */
  add(handle: DeviceHandle): DeviceHandle {
    this.#assertOpen("add");
    this.#handles.add(handle);
    return handle;
  }

  /** Lets an allocation outlive the scope: the caller frees it. Returns the handle. */
  keep(handle: DeviceHandle): DeviceHandle {
    this.#assertOwned("keep", handle);
    this.#handles.delete(handle);
    return handle;
  }

  /**
   * Frees what the scope owns. Idempotent. What is gone already is passed over: freed by its handle, or taken
   * by a loss or by the end of the backend. While the handles of a `SwitchableBackend` are without a device
   * they cannot be freed: `dispose` does that when it is called again.
   */
  dispose(): void {
    this.#isOver = true;
    let failure: unknown;
    for (const handle of this.#handles)
      try {
        this.#backend.free(handle);
        this.#handles.delete(handle);
      } catch (error) {
        const { code } = error as Partial<BackendError>;
        if (code === "INVALID_HANDLE" || code === "DISPOSED") this.#handles.delete(handle);
        else if (code !== "DEVICE_LOST") failure ??= error;
      }
    if (failure !== undefined) throw failure;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #assertOpen(operation: string): void {
    if (!this.#isOver) return;
    throw new BackendError("DISPOSED", `${operation}: the scope was disposed of`, { operation });
  }

  #assertOwned(operation: string, handle: DeviceHandle): void {
    if (this.#handles.has(handle)) return;
    const message = `${operation}: handle ${describe(handle)} does not belong to this scope`;
    throw new BackendError("INVALID_HANDLE", message, { operation, argument: "handle" });
  }
}

/** A scope of allocations, to be ended with `dispose`. */
export function openScope(backend: ComputeBackend): Scope {
  return new Scope(backend);
}

/**
 * Returns what `body` returns, and then frees what it has allocated in its scope and not kept; where it returns
 * a promise, when that has settled. What it throws goes on to the caller.
 */
export function withScope<Result>(backend: ComputeBackend, body: (scope: Scope) => Result): Result {
  const scope = openScope(backend);
  let result: Result;
  try {
    result = body(scope);
  } catch (error) {
    throw afterDisposal(scope, error);
  }
  if (!isPromise(result)) {
    scope.dispose();
    return result;
  }
  const ended = result.then(
    (value) => {
      scope.dispose();
      return value;
    },
    (error: unknown) => {
      throw afterDisposal(scope, error);
    },
  );
  return ended as Result;
}

/** The error, which is not to be hidden by one of the disposal. */
function afterDisposal(scope: Scope, error: unknown): unknown {
  try {
    scope.dispose();
  } catch {
    // It comes of the same trouble, or is told by onError.
  }
  return error;
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as Partial<PromiseLike<unknown>> | null | undefined)?.then === "function";
}
