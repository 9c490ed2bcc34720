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
 * or, in languages with `using`: `using scope = openScope(backend)`. A scope owns only what was allocated
 * through it or added to it. Scopes may therefore be open side by side, also in asynchronous code.
 */
export class Scope implements Disposable {
  readonly #backend: ComputeBackend;
  readonly #handles = new Set<DeviceHandle>();
  #isOver = false;

  constructor(backend: ComputeBackend) {
    this.#backend = backend;
  }

  /** `ComputeBackend.alloc`. Like every method that adds to the scope, it throws `DISPOSED` after `dispose`. */
  alloc(bytes: number, options?: AllocOptions): DeviceHandle {
    this.#assertOpen("alloc");
    return this.add(this.#backend.alloc(bytes, options));
  }

  /** Returns a new allocation with the bytes of `source`. */
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

  /** Takes over an allocation made elsewhere, such as one that an inner scope has kept. Returns the handle. */
  add(handle: DeviceHandle): DeviceHandle {
    this.#assertOpen("add");
    this.#handles.add(handle);
    return handle;
  }

  /** Lets an allocation outlive the scope: the caller must free it. Returns the handle. */
  keep(handle: DeviceHandle): DeviceHandle {
    this.#assertOwned("keep", handle);
    this.#handles.delete(handle);
    return handle;
  }

  /**
   * Frees the allocations that the scope owns. Idempotent. Skips those that are already gone: freed by their
   * handle, lost with the device, or ended with the backend. A `SwitchableBackend` cannot free its handles
   * while it has no device; a second `dispose` then frees them.
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

/** Returns a new scope of allocations. End it with `dispose`. */
export function openScope(backend: ComputeBackend): Scope {
  return new Scope(backend);
}

/**
 * Returns the result of `body`, then frees the allocations of its scope that it did not keep. If the result
 * is a promise, frees them when it settles. Errors of `body` reach the caller.
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

/** Returns `error`, so that an error of the disposal does not hide it. */
function afterDisposal(scope: Scope, error: unknown): unknown {
  try {
    scope.dispose();
  } catch {
    // It has the same cause, or onError reports it.
  }
  return error;
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as Partial<PromiseLike<unknown>> | null | undefined)?.then === "function";
}
