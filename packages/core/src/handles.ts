import { BackendError } from "./errors.js";

declare const deviceHandle: unique symbol;

/**
 * Names one allocation of one backend. It is an unsigned integer below 2^53: exact as a number, fits a u64,
 * survives JSON. It is never 0 and never reused. There is no arithmetic on handles; a place inside an
 * allocation is `{ handle, byteOffset }`.
 */
export type DeviceHandle = number & { readonly [deviceHandle]: true };

/** A region that starts `byteOffset` bytes into an allocation. Its length follows from its use. */
export interface DeviceSlice {
  readonly handle: DeviceHandle;
  /** Bytes from the start of the allocation; a multiple of the element size if the call works on elements. */
  readonly byteOffset: number;
}

/** The place that an operation reads or writes: a whole allocation from its start, or a slice of one. */
export type Operand = DeviceHandle | DeviceSlice;

/** All handles are at least this large, so a smaller number was meant for something else. */
const leastHandle = 2 ** 32;

interface Serial {
  next: number;
}

/**
 * One counter for all backends of a realm, shared even between two copies of this package, so that a handle of
 * one backend is never live on another. It starts at a random multiple of 2^32. This also refuses handles carried
 * over by mistake from another process or worker. 2^32 handles can be issued before the next such range begins.
 */
const serial: Serial = sharedSerial();

function sharedSerial(): Serial {
  const key = Symbol.for("@backplane/core.handles");
  const realm = globalThis as unknown as Record<symbol, Serial | undefined>;
  realm[key] ??= { next: (1 + Math.floor(Math.random() * 0xffff)) * leastHandle + 1 };
  return realm[key];
}

/** Returns a handle that no backend of this realm has used. For backends not made by `createBackend`. */
export function newHandle(): DeviceHandle {
  return serial.next++ as DeviceHandle;
}

/** The first handle that this copy of the package may have issued. */
const origin = serial.next;

/** The live handles of one backend and their entries. Each method on a single handle takes O(1). */
export class HandleTable<Entry> {
  /** By the distance from `origin`: engines look up small integers several times as fast as other numbers. */
  readonly #entries = new Map<number, Entry>();
  readonly #takesScalar: (operation: string, argument: string) => boolean;
  /** Handles below this one were issued before the device was lost. */
  #lostBelow = 0;
  #ended = 0;

  /** `takesScalar` says whether a scalar may replace a handle; errors then explain how to write one. */
  constructor(takesScalar: (operation: string, argument: string) => boolean = () => false) {
    this.#takesScalar = takesScalar;
  }

  /** Number of live handles. */
  get size(): number {
    return this.#entries.size;
  }

  /** Changes whenever handles end. */
  get ended(): number {
    return this.#ended;
  }

  /** Issues a handle that was never issued before. */
  issue(entry: Entry): DeviceHandle {
    const handle = newHandle();
    this.#entries.set(handle - origin, entry);
    return handle;
  }

  /** Returns the entry of a live handle; undefined for any other value. */
  find(handle: DeviceHandle): Entry | undefined {
    // Texts and objects would become numbers.
    return typeof handle === "number" ? this.#entries.get(handle - origin) : undefined;
  }

  /** Returns the entry of a live handle. Throws `INVALID_HANDLE` for any other value. */
  get(handle: DeviceHandle, operation: string, argument: string): Entry {
    return this.find(handle) ?? this.refuse(handle, operation, argument);
  }

  /** Throws an `INVALID_HANDLE` error that describes what the argument holds instead of a live handle. */
  refuse(operand: unknown, operation: string, argument: string): never {
    const isSlice = typeof operand === "object" && operand !== null && "handle" in operand;
    const complaint = complaintAbout(
      isSlice ? operand.handle : operand,
      this.#lostBelow,
      !isSlice && this.#takesScalar(operation, argument),
    );
    throw new BackendError(
      "INVALID_HANDLE",
      `${operation}: ${argument}${isSlice ? ".handle" : ""} ${complaint}`,
      { operation, argument },
    );
  }

  /** Ends a live handle and returns its entry. Throws `INVALID_HANDLE` for any other value. */
  remove(handle: DeviceHandle, operation: string, argument: string): Entry {
    const entry = this.get(handle, operation, argument);
    this.#entries.delete(handle - origin);
    this.#ended++;
    return entry;
  }

  /** Returns the live handles with their entries, oldest first. */
  *entries(): IterableIterator<[DeviceHandle, Entry]> {
    for (const [distance, entry] of this.#entries) yield [(origin + distance) as DeviceHandle, entry];
  }

  clear(): void {
    this.#ended++;
    this.#entries.clear();
  }

  /** Ends all handles because the device was lost. Later errors about them will say so. */
  lose(): void {
    this.clear();
    this.#lostBelow = serial.next;
  }
}

function complaintAbout(value: unknown, lostBelow: number, takesScalar: boolean): string {
  const allowed = "allowed: a handle from alloc(), or { handle, byteOffset }";
  if (value === undefined) return `is missing; ${allowed}`;
  if (typeof value === "number") {
    if (Number.isSafeInteger(value) && value >= leastHandle) {
      const past = value < lostBelow ? "it dates from before the device was lost" : "it was freed";
      return `${value} is not live on this backend: ${past}, or belongs to another backend`;
    }
    const hint = takesScalar ? `; for a scalar write { scalar: ${value} }` : "";
    return `is the number ${value}, not a device handle: handles come from alloc()${hint}`;
  }
  if (ArrayBuffer.isView(value))
    return `is ${describe(value)}, which is memory of the host: upload() copies it to the device and gives a handle`;
  if (typeof value === "object" && value !== null && "scalar" in value)
    return `is a scalar, which cannot stand here; ${allowed}`;
  return `is ${describe(value)}, not a device handle; ${allowed}`;
}

/** Renders any value briefly for error messages. */
export function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  if (Array.isArray(value)) {
    // Nested lists may be cyclic.
    const entries = value.slice(0, 16).map((entry) => (Array.isArray(entry) ? "[...]" : describe(entry)));
    return `[${entries.join(", ")}${value.length > 16 ? `, ... (${value.length})` : ""}]`;
  }
  if (typeof value === "object" && value !== null) return value.constructor?.name ?? "object";
  return String(value);
}
