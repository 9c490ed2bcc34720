import {
  BackendError,
  type ComputeBackend,
  costOf,
  type DeviceHandle,
  type HostBytes,
  type MemoryStatistics,
  type Operand,
  type Operation,
  type OperationName,
  operationNames,
  operations,
} from "@backplane/core";
import { createReferenceBackend } from "../reference.js";

/** A reference backend with some of its methods replaced. */
export function altered(alter: (right: ComputeBackend) => Partial<ComputeBackend>): ComputeBackend {
  const right = createReferenceBackend();
  const wrong = alter(right);
  return new Proxy(right, {
    get(target, key: keyof ComputeBackend) {
      const value: unknown = key in wrong ? wrong[key] : target[key];
      return typeof value === "function" ? value.bind(key in wrong ? wrong : target) : value;
    },
  });
}

/** The last operand that a call has, by itself or in a list: an output. */
function outputIn(name: OperationName, args: Readonly<Record<string, unknown>>): Operand {
  const { operands } = operations[name] as Operation;
  return operands.flatMap((operand) => args[operand] ?? []).at(-1) as Operand;
}

/** Hands out the numbers of freed handles again. */
export function reusingHandles(): ComputeBackend {
  const inner = new Map<number, DeviceHandle>();
  const spare: number[] = [];
  return altered((right) => {
    const translate = (operand: Operand): Operand => {
      if (typeof operand === "number") return inner.get(operand) ?? operand;
      if (operand === null || typeof operand !== "object" || !("handle" in operand)) return operand;
      return { ...operand, handle: inner.get(operand.handle) ?? operand.handle };
    };
    const operation = (name: OperationName) => (args: object) => {
      const translated = { ...args } as Record<string, unknown>;
      for (const operand of operations[name].operands as readonly string[]) {
        const held = translated[operand] as Operand | readonly Operand[];
        translated[operand] = Array.isArray(held) ? held.map(translate) : translate(held as Operand);
      }
      (right[name] as (args: unknown) => void)(translated);
    };
    return {
      alloc(bytes, options) {
        const handle = right.alloc(bytes, options);
        const shown = spare.pop() ?? handle;
        inner.set(shown, handle);
        return shown as DeviceHandle;
      },
      free(handle) {
        right.free(inner.get(handle) ?? handle);
        inner.delete(handle);
        spare.push(handle);
      },
      native: (handle) => right.native(handle === undefined ? handle : (translate(handle) as DeviceHandle)),
      copyHtoD: (destination, source) => right.copyHtoD(translate(destination), source),
      copyDtoH: (destination, source) => right.copyDtoH(destination, translate(source)),
      copyDtoD: (destination, source, bytes) =>
        right.copyDtoD(translate(destination), translate(source), bytes),
      fill: (destination, ...rest) => right.fill(translate(destination), ...rest),
      ...(Object.fromEntries(operationNames.map((name) => [name, operation(name)])) as object),
    };
  });
}

export function doubleFree(): ComputeBackend {
  return altered((right) => ({
    free(handle) {
      try {
        right.free(handle);
      } catch (error) {
        const isStale = (error as BackendError).code === "INVALID_HANDLE" && Number.isSafeInteger(handle);
        if (!isStale) throw error;
      }
    },
  }));
}

export function leakyStatistics(): ComputeBackend {
  let liveBytes = 0;
  return altered((right) => ({
    alloc(bytes, options) {
      liveBytes += bytes > 0 && bytes < 2 ** 30 ? bytes : 0;
      return right.alloc(bytes, options);
    },
    memory: (): MemoryStatistics => ({ ...right.memory(), liveBytes }),
  }));
}

/** Reports the present memory as the peak. */
export function forgetfulPeak(): ComputeBackend {
  return altered((right) => ({
    memory: (): MemoryStatistics => ({ ...right.memory(), peakBytes: right.memory().liveBytes }),
  }));
}

/** All allocations of 0 bytes are one. */
export function oneEmpty(): ComputeBackend {
  let empty: DeviceHandle | undefined;
  return altered((right) => ({
    alloc(bytes, options) {
      if (bytes !== 0) return right.alloc(bytes, options);
      empty ??= right.alloc(0);
      return empty;
    },
  }));
}

/** Has a table of allocations that does not grow. */
export function smallTable(): ComputeBackend {
  return altered((right) => ({
    alloc(bytes, options) {
      if (right.memory().liveAllocations < 512) return right.alloc(bytes, options);
      throw new BackendError("OUT_OF_MEMORY", "alloc: the table is full", { operation: "alloc" });
    },
  }));
}

/** Passes host bytes on to something that takes no shared memory. */
export function unshared(): ComputeBackend {
  const isShared = (host: HostBytes) =>
    typeof SharedArrayBuffer !== "undefined" &&
    (ArrayBuffer.isView(host) ? host.buffer : host) instanceof SharedArrayBuffer;
  return altered((right) => ({
    copyHtoD(destination, source) {
      if (isShared(source)) throw new TypeError("The provided view is shared");
      right.copyHtoD(destination, source);
    },
  }));
}

/** Lists element types whether any operation takes them or not. */
export function boastful(): ComputeBackend {
  return altered((right) => ({
    supports: (operation, question) =>
      (question?.dtype ?? "f32") === "f32" && right.supports(operation, question),
  }));
}

export function hangingReads(): ComputeBackend {
  let disposed = false;
  return altered((right) => ({
    dispose() {
      disposed = true;
      return right.dispose();
    },
    copyDtoH(destination, source) {
      const read = right.copyDtoH(destination, source);
      if (disposed) return read;
      return new Promise((resolve, reject) => {
        read.then(resolve, (error: BackendError) => {
          if (error.code !== "DISPOSED") reject(error);
        });
      });
    },
  }));
}

/** When dispose cuts off a read, resolves it with made-up data. */
export function madeUpReads(): ComputeBackend {
  let disposed = false;
  return altered((right) => ({
    dispose() {
      disposed = true;
      return right.dispose();
    },
    copyDtoH(destination, source) {
      const read = right.copyDtoH(destination, source);
      return disposed
        ? read
        : read.catch((error: BackendError) => {
            if (error.code !== "DISPOSED") throw error;
            new Uint8Array(ArrayBuffer.isView(destination) ? destination.buffer : destination).fill(0);
          });
    },
  }));
}

/** Checks its arguments only when some of the work is done. */
export function lateChecks(): ComputeBackend {
  return altered((right) => {
    const first = (output: Operand, call: () => void) => {
      try {
        call();
      } catch (error) {
        if ((error as BackendError).operation !== "native") {
          try {
            right.fill(output, 0xa5, 1, "u8");
          } catch {
            // Nothing could be done before the error either.
          }
        }
        throw error;
      }
    };
    const operation = (name: OperationName) => (args: Record<string, unknown>) => {
      const output = outputIn(name, args);
      first(output, () => (right[name] as (args: unknown) => void)(args));
    };
    return {
      copyHtoD: (destination, source) => first(destination, () => right.copyHtoD(destination, source)),
      copyDtoD: (destination, source, bytes) =>
        first(destination, () => right.copyDtoD(destination, source, bytes)),
      ...(Object.fromEntries(operationNames.map((name) => [name, operation(name)])) as object),
    };
  });
}

/** Takes the known names from an object of arguments or options, and ignores all others. */
export function carefree(): ComputeBackend {
  return altered((right) => {
    const operation = (name: OperationName) => (args: object) => {
      const call = (known: object) => (right[name] as (args: unknown) => void)(known);
      try {
        call(args);
      } catch (error) {
        const { argument = "", message } = error as BackendError;
        if (!message.includes(`${argument} is unknown`)) throw error;
        call(Object.fromEntries(Object.entries(args).filter(([given]) => given !== argument)));
      }
    };
    return {
      alloc: (bytes, options) =>
        right.alloc(bytes, options?.zero === undefined ? {} : { zero: options.zero }),
      ...(Object.fromEntries(operationNames.map((name) => [name, operation(name)])) as object),
    };
  });
}

/** Looks for the arguments that must be there, and only then for names that it does not know. */
export function missesFirst(): ComputeBackend {
  return altered((right) => {
    const operation = (name: OperationName) => (args: Readonly<Record<string, unknown>>) => {
      const { names, operands, arguments: table } = operations[name] as Operation;
      const missing = operands.find((one) => !("otherwise" in table[one]!) && args[one] === undefined);
      if (missing !== undefined) throw new BackendError("INVALID_HANDLE", `${name}: ${missing} is missing`);
      costOf(
        name,
        Object.fromEntries(Object.entries(args).filter(([given]) => names.includes(given))) as never,
      );
      (right[name] as (args: unknown) => void)(args);
    };
    return Object.fromEntries(operationNames.map((name) => [name, operation(name)]));
  });
}

/** Passes on copies of arguments, with own properties only. */
export function spreading(): ComputeBackend {
  return altered((right) => {
    const operation = (name: OperationName) => (args: object) => {
      (right[name] as (args: unknown) => void)({ ...args });
    };
    return Object.fromEntries(operationNames.map((name) => [name, operation(name)]));
  });
}

/** Launches one workgroup although there should be none. */
export function alwaysSomething(): ComputeBackend {
  return altered((right) => {
    const operation = (name: OperationName) => (args: Record<string, unknown>) => {
      (right[name] as (args: unknown) => void)(args);
      const output = outputIn(name, args);
      if (Object.values(args).flat().includes(0)) right.fill(output, 0xa5, 1, "u8");
    };
    return Object.fromEntries(operationNames.map((name) => [name, operation(name)]));
  });
}

/** Throws bare errors, as a backend does that lets the errors of its libraries through. */
export function untypedErrors(): ComputeBackend {
  return altered((right) => ({
    unary(args) {
      try {
        right.unary(args);
      } catch (error) {
        throw new RangeError((error as Error).message);
      }
    },
  }));
}

/** Every call of `init` opens the device. */
export function reopening(): ComputeBackend {
  return altered((right) => ({ init: async () => right.init() }));
}

/** Continues as if nothing had happened. */
export function immortal(): ComputeBackend {
  let statistics: MemoryStatistics | undefined;
  return altered((right) => ({
    dispose() {
      statistics = right.memory();
      return right.dispose();
    },
    memory: () => statistics ?? right.memory(),
  }));
}

/** Takes every handle of the program for its own. */
export function promiscuous(): ComputeBackend {
  return altered((right) => {
    let some: DeviceHandle | undefined;
    return {
      alloc(bytes, options) {
        some = right.alloc(bytes, options);
        return some;
      },
      fill(destination, ...rest) {
        try {
          right.fill(destination, ...rest);
        } catch (error) {
          const isForeign =
            (error as BackendError).code === "INVALID_HANDLE" && (destination as number) > 2 ** 32;
          if (!isForeign || some === undefined) throw error;
          right.fill(some, ...rest);
        }
      },
    };
  });
}

/** Accepts any size, and fails only when the memory is used. */
export function boundless(): ComputeBackend {
  return altered((right) => ({
    alloc(bytes, options) {
      try {
        return right.alloc(bytes, options);
      } catch (error) {
        if ((error as BackendError).code !== "OUT_OF_MEMORY") throw error;
        return right.alloc(1);
      }
    },
  }));
}

export function stuckAfterRefusal(): ComputeBackend {
  let stuck = false;
  return altered((right) => ({
    alloc(bytes, options) {
      if (stuck) throw new BackendError("OUT_OF_MEMORY", "alloc: the heap is in a bad state");
      try {
        return right.alloc(bytes, options);
      } catch (error) {
        stuck = (error as BackendError).code === "OUT_OF_MEMORY";
        throw error;
      }
    },
  }));
}
