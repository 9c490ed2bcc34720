import { BackendError } from "@backplane/core";

/** Buffers may exceed the memory; the rest can only be wrong, or too much for a compiler of the driver. */
const VALIDITY = ["validation"] as const;
const BUFFER = ["validation", "out-of-memory"] as const;
const PROGRAM = ["validation", "internal"] as const;

/**
 * Stands between the runtime and its device, and reports errors of the device with the operation that was
 * being recorded. Each call that can fail runs in an error scope of its own, opened and closed at once. So
 * errors of other users of the device are not taken for ours, nor ours for theirs. A scope costs a few
 * microseconds; a batch of commands takes three.
 */
export class Guard {
  /** The device that the runtime must use. */
  readonly device: GPUDevice;
  readonly #target: GPUDevice;
  readonly #report: (error: BackendError) => void;
  readonly #pending = new Set<Promise<void>>();
  /** Scopes that the runtime itself has opened: it looks after the errors in them. */
  readonly #openScopes: GPUErrorFilter[] = [];
  #operation = "init";

  constructor(device: GPUDevice, report: (error: BackendError) => void) {
    this.#target = device;
    this.#report = report;
    this.device = this.#wrap();
  }

  /** The operation being recorded. */
  get operation(): string {
    return this.#operation;
  }

  /** All calls from here on belong to this operation. */
  enter(operation: string): void {
    this.#operation = operation;
  }

  /** As `enter`, for the calls that `body` makes: those of the runtime itself, in the midst of others. */
  within<Result>(operation: string, body: () => Result): Result {
    const outer = this.#operation;
    this.#operation = operation;
    try {
      return body();
    } finally {
      this.#operation = outer;
    }
  }

  /** Makes several calls in one scope, which costs as much as any of them. They may belong to several operations. */
  together(calls: () => void, operations: readonly string[]): void {
    const within = (): void => {
      this.#openScopes.push("validation");
      try {
        calls();
      } finally {
        this.#openScopes.pop();
      }
    };
    this.#scoped(VALIDITY, within, operations);
  }

  /** Resolves when the device has reported on all calls so far. */
  async settled(): Promise<void> {
    if (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  #wrap(): GPUDevice {
    const target = this.#target;
    const { queue } = target;
    const guardedWrite = (...args: Parameters<GPUQueue["writeBuffer"]>): void =>
      this.#scoped(VALIDITY, () => queue.writeBuffer(...args));
    const guardedQueue = overlay(queue, {
      submit: (commands) => this.#scoped(VALIDITY, () => queue.submit(commands)),
      writeBuffer: guardedWrite as GPUQueue["writeBuffer"],
    });
    return overlay(target, {
      queue: guardedQueue,
      createBuffer: (descriptor) => {
        const size = ` of ${descriptor.size} bytes`;
        return this.#scoped(BUFFER, () => target.createBuffer(descriptor), [this.#operation], size);
      },
      createBindGroup: (descriptor) => this.#scoped(VALIDITY, () => target.createBindGroup(descriptor)),
      createBindGroupLayout: (descriptor) =>
        this.#scoped(VALIDITY, () => target.createBindGroupLayout(descriptor)),
      createPipelineLayout: (descriptor) =>
        this.#scoped(VALIDITY, () => target.createPipelineLayout(descriptor)),
      createShaderModule: (descriptor) => this.#scoped(PROGRAM, () => target.createShaderModule(descriptor)),
      createComputePipeline: (descriptor) =>
        this.#scoped(PROGRAM, () => target.createComputePipeline(descriptor)),
      pushErrorScope: (filter) => {
        this.#openScopes.push(filter);
        target.pushErrorScope(filter);
      },
      popErrorScope: () => {
        this.#openScopes.pop();
        const answered = target.popErrorScope();
        // The runtime hears of it before those who wait here.
        this.#await(answered.then(done, done).then(done));
        return answered;
      },
    });
  }

  #scoped<Result>(
    filters: readonly GPUErrorFilter[],
    body: () => Result,
    operations: readonly string[] = [this.#operation],
    object = "",
  ): Result {
    const scopes = filters.filter((filter) => !this.#openScopes.includes(filter));
    for (const filter of scopes) this.#target.pushErrorScope(filter);
    try {
      return body();
    } finally {
      for (const _ of scopes) this.#pop(operations, object);
    }
  }

  #pop(operations: readonly string[], object: string): void {
    const answered = this.#target.popErrorScope().then(
      (error) => {
        if (error !== null) this.#report(faultOf(error, operations, object));
      },
      // The scope is gone with the device, whose loss is reported elsewhere.
      () => {},
    );
    this.#await(answered);
  }

  #await(answer: Promise<void>): void {
    const pending = answer.then(() => {
      this.#pending.delete(pending);
    });
    this.#pending.add(pending);
  }
}

function done(): void {}

/** Returns the device's error, for callers that wait for one of these operations. */
export function faultOf(error: GPUError, operations: readonly string[], object = ""): BackendError {
  const outOfMemory = error.constructor.name === "GPUOutOfMemoryError";
  const said = outOfMemory ? `the device has no memory for a buffer${object}` : "the device reported";
  const [operation] = operations;
  const which = operations.length > 1 ? `one of ${operations.join(", ")}` : (operation ?? "webgpu");
  return new BackendError(
    outOfMemory ? "OUT_OF_MEMORY" : "DEVICE_ERROR",
    `${which}: ${said}: ${error.message}`,
    { cause: error, ...(operations.length === 1 ? { operation: operation! } : {}) },
  );
}

/** Returns the object with some members replaced. Methods of platform objects work only on the original. */
function overlay<Target extends object>(target: Target, replaced: Partial<Target>): Target {
  const members = new Map<PropertyKey, unknown>(Object.entries(replaced));
  return new Proxy(target, {
    get(_, key): unknown {
      if (members.has(key)) return members.get(key);
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
