import { Checks } from "@backplane/core";
import type { NativeBuffer } from "../device/index.js";
import { BUFFER_GRANULARITY, DeviceMemory } from "./memory.js";
import type { ImportOptions } from "./sharing.js";

const checks: Checks = new Checks("importBuffer");

const REQUIRED_USAGE = { STORAGE: 0x80, COPY_SRC: 0x04, COPY_DST: 0x08 } as const;

/** Buffers that others make and destroy, and that have handles. */
export class ForeignBuffers {
  readonly #maxBytes: number;
  readonly #onRelease: (memory: DeviceMemory) => void;
  readonly #live = new Map<GPUBuffer, DeviceMemory>();
  #reservedBytes = 0;
  /** Below the numbers of the pool, so that the two are told apart in cache keys. */
  #nextId = -1;

  /** No buffer above `maxBytes` is used; `onRelease` hears of each that no longer is. */
  constructor(maxBytes: number, onRelease: (memory: DeviceMemory) => void) {
    this.#maxBytes = maxBytes;
    this.#onRelease = onRelease;
  }

  get reservedBytes(): number {
    return this.#reservedBytes;
  }

  /** Throws `INVALID_ARGUMENT` if kernels could not use the buffer. */
  take(
    candidate: NativeBuffer,
    { bytes }: ImportOptions,
    isOurs: (buffer: GPUBuffer) => boolean,
  ): DeviceMemory {
    const buffer = checkBuffer(candidate, this.#maxBytes);
    if (this.#live.has(buffer)) checks.fail("buffer", "has a handle already; allowed: one that has none");
    if (isOurs(buffer))
      checks.fail("buffer", "belongs to this backend; allowed: the handle that it came from");
    if (bytes !== undefined && !(Number.isSafeInteger(bytes) && bytes > 0 && bytes <= buffer.size))
      checks.fail(
        "bytes",
        `is ${String(bytes)}; allowed: whole numbers from 1 to the buffer's ${buffer.size}`,
      );
    const memory = new DeviceMemory(buffer, buffer.size, this.#nextId--);
    memory.bytes = bytes ?? buffer.size;
    this.#live.set(buffer, memory);
    this.#reservedBytes += buffer.size;
    return memory;
  }

  /** Forgets the buffer. Returns false if it is none of these. */
  release(memory: DeviceMemory): boolean {
    if (this.#live.get(memory.buffer) !== memory) return false;
    this.#live.delete(memory.buffer);
    this.#reservedBytes -= memory.capacity;
    // From here on anybody may write to it.
    memory.beforeWrite();
    this.#onRelease(memory);
    return true;
  }
}

function checkBuffer(candidate: unknown, maxBytes: number): GPUBuffer {
  const { size, usage, mapState } = (candidate ?? {}) as Partial<GPUBuffer>;
  if (typeof size !== "number" || typeof usage !== "number")
    checks.fail("buffer", `is ${String(candidate)}; allowed: a GPUBuffer of the backend's device`);
  const missing = Object.entries(REQUIRED_USAGE).filter(([, flag]) => (usage & flag) === 0);
  if (missing.length > 0)
    checks.fail(
      "buffer",
      `lacks the usage ${missing.map(([name]) => name).join(" and ")}; allowed: ${Object.keys(REQUIRED_USAGE).join(" | ")}`,
    );
  // Kernels see buffers in runs of 16 bytes, and would not see the rest.
  if (size === 0 || size % BUFFER_GRANULARITY !== 0)
    checks.fail("buffer", `has ${size} bytes; allowed: multiples of ${BUFFER_GRANULARITY}`);
  if (size > maxBytes) checks.fail("buffer", `has ${size} bytes; allowed: up to ${maxBytes}`);
  if (mapState !== undefined && mapState !== "unmapped")
    checks.fail("buffer", `is ${mapState === "mapped" ? "mapped" : "being mapped"}; allowed: unmapped ones`);
  return candidate as GPUBuffer;
}
