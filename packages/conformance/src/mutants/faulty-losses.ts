import {
  BackendError,
  type ComputeBackend,
  type DriverDescription,
  type DriverEvents,
} from "@backplane/core";
import type { ReferenceMemory } from "../elements.js";
import { ReferenceDriver } from "../reference.js";
import { altered } from "./faulty-backends.js";

interface LossState {
  /** Whether the device is lost now. */
  readonly isLost: boolean;
  /** How often it was lost. */
  readonly losses: number;
}

/** Replaces methods by some that know of losses. */
function losing(alter: (right: ComputeBackend, state: LossState) => Partial<ComputeBackend>): ComputeBackend {
  return altered((right) => {
    let losses = 0;
    right.onLost(() => {
      losses++;
    });
    return alter(right, {
      get isLost() {
        let isLost = false;
        // One that is lost tells a new listener at once.
        right.onLost(() => {
          isLost = true;
        })();
        return isLost;
      },
      get losses() {
        return losses;
      },
    });
  });
}

function isLoss(error: unknown): boolean {
  return (error as BackendError).code === "DEVICE_LOST";
}

/** Keeps freed and lost memory, and clears it for reuse only if it has freed it itself. */
export class SurvivingPoolDriver extends ReferenceDriver {
  readonly #known = new Set<ReferenceMemory>();
  readonly #pool: ReferenceMemory[] = [];

  override async close(): Promise<void> {
    this.#pool.push(...this.#known);
    this.#known.clear();
    await super.close();
  }

  override alloc(bytes: number): ReferenceMemory {
    const at = this.#pool.findIndex((memory) => memory.length === bytes);
    const memory = at < 0 ? super.alloc(bytes) : this.#pool.splice(at, 1)[0]!;
    this.#known.add(memory);
    return memory;
  }

  override free(memory: ReferenceMemory): void {
    this.#known.delete(memory);
    super.free(memory);
  }
}

/** Still counts the allocations of the device that it closes. */
export class ReservingDriver extends ReferenceDriver {
  #before = 0;

  override async close(): Promise<void> {
    this.#before = this.reservedBytes();
    await super.close();
  }

  override reservedBytes(): number {
    return this.#before + super.reservedBytes();
  }
}

/** One device for all backends that are open. */
export class CommonDeviceDriver extends ReferenceDriver {
  static readonly #users = new Set<DriverEvents>();
  #user: DriverEvents | undefined;

  override async open(events: DriverEvents): Promise<DriverDescription> {
    this.#user = events;
    CommonDeviceDriver.#users.add(events);
    return super.open(events);
  }

  override async close(): Promise<void> {
    if (this.#user !== undefined) CommonDeviceDriver.#users.delete(this.#user);
    await super.close();
  }

  override lose(): void {
    for (const user of [...CommonDeviceDriver.#users]) user.lost("it was asked to go");
  }
}

/** Cannot be closed once its device is gone. */
export class StuckDriver extends ReferenceDriver {
  #isLost = false;

  override lose(): void {
    this.#isLost = true;
    super.lose();
  }

  override async close(): Promise<void> {
    if (this.#isLost) throw new Error("the device does not answer");
    await super.close();
  }
}

/** Does not look at the device before it is asked to do something with it. */
export class UnnoticingDriver extends ReferenceDriver {
  override lose(): void {}
}

export function unheard(): ComputeBackend {
  return altered(() => ({ onLost: () => () => {} }));
}

export function heardTwice(): ComputeBackend {
  return altered((right) => ({
    onLost: (listener) =>
      right.onLost((error) => {
        listener(error);
        listener(error);
      }),
  }));
}

export function deafToLatecomers(): ComputeBackend {
  return losing((right, state) => ({
    onLost(listener) {
      let isNew = state.isLost;
      const stop = right.onLost((error) => {
        if (!isNew) listener(error);
      });
      isNew = false;
      return stop;
    },
  }));
}

export function listensForEver(): ComputeBackend {
  return altered((right) => ({
    onLost(listener) {
      right.onLost(listener);
      return () => {};
    },
  }));
}

export function heardOnceInALife(): ComputeBackend {
  return losing((right, state) => ({
    onLost: (listener) =>
      right.onLost((error) => {
        if (state.losses <= 1) listener(error);
      }),
  }));
}

export function madeUpAtLoss(): ComputeBackend {
  return altered((right) => ({
    copyDtoH: (destination, source) =>
      right.copyDtoH(destination, source).catch((error: unknown) => {
        if (!isLoss(error)) throw error;
        new Uint8Array(ArrayBuffer.isView(destination) ? destination.buffer : destination).fill(0);
      }),
  }));
}

export function hangingAtLoss(): ComputeBackend {
  return losing((right, state) => ({
    copyDtoH(destination, source) {
      const read = right.copyDtoH(destination, source);
      if (state.isLost) return read;
      return new Promise((resolve, reject) => {
        read.then(resolve, (error: unknown) => {
          if (!isLoss(error)) reject(error);
        });
      });
    },
  }));
}

/** Like a queue that drops everything after its end. */
export function silentWhileLost(): ComputeBackend {
  return losing((right, state) => ({
    fill(...args) {
      if (!state.isLost) right.fill(...args);
    },
  }));
}

/** Looks at the arguments before it looks at the state. */
export function argumentsFirst(): ComputeBackend {
  return losing((right, state) => ({
    fill(destination, value, count, dtype) {
      if (state.isLost && !(count >= 0))
        throw new BackendError("INVALID_ARGUMENT", "fill: count is negative", { operation: "fill" });
      right.fill(destination, value, count, dtype);
    },
  }));
}

export function speechless(): ComputeBackend {
  return altered((right) => {
    let isLost = false;
    right.onLost(() => {
      isLost = true;
    });
    return {
      get capabilities() {
        if (isLost) throw new BackendError("DEVICE_LOST", "capabilities: the device was lost");
        return right.capabilities;
      },
    };
  });
}

export function lostForEver(): ComputeBackend {
  return losing((right, state) => ({
    init: () =>
      state.isLost
        ? Promise.reject(new BackendError("DEVICE_LOST", "init: the device was lost"))
        : right.init(),
  }));
}

export function unsharedReopening(): ComputeBackend {
  return losing((right, state) => ({
    init: () => (state.losses > 0 ? right.init().then(() => {}) : right.init()),
  }));
}

export function countsLostMemory(): ComputeBackend {
  return altered((right) => {
    let lostBytes = 0;
    let liveBytes = 0;
    right.onLost(() => {
      lostBytes += liveBytes;
      liveBytes = 0;
    });
    return {
      alloc(bytes, options) {
        const handle = right.alloc(bytes, options);
        liveBytes = right.memory().liveBytes;
        return handle;
      },
      memory: () => ({ ...right.memory(), liveBytes: right.memory().liveBytes + lostBytes }),
    };
  });
}

export function freesTheLost(): ComputeBackend {
  return losing((right, state) => ({
    free(handle) {
      try {
        right.free(handle);
      } catch (error) {
        const isStale = (error as BackendError).code === "INVALID_HANDLE";
        if (!isStale || state.losses === 0) throw error;
      }
    },
  }));
}

/** Keeps a fault of the lost device for the next caller that waits. */
export function resentful(): ComputeBackend {
  return losing((right, state) => {
    let reported = 0;
    return {
      async synchronize() {
        await right.synchronize();
        if (reported === state.losses) return;
        reported = state.losses;
        throw new BackendError("DEVICE_ERROR", "synchronize: a kernel failed");
      },
    };
  });
}

/** Takes the late report of the lost device for one of the fresh one. */
export function confused(): ComputeBackend {
  return losing((right, state) => ({
    onError(listener) {
      if (state.losses > 0)
        setTimeout(() => listener(new BackendError("DEVICE_ERROR", "the device was lost")), 10);
      return right.onError(listener);
    },
  }));
}

/** Says that it has opened a fresh device, though nobody wanted it any more. */
export function undead(): ComputeBackend {
  return losing((right, state) => ({
    init: () => (state.isLost ? right.init().catch(() => {}) : right.init()),
  }));
}
