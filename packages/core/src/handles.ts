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

/** A power of two. */
const slots = 256;
/** No distance of a handle. */
const empty = -1;

/** The live handles of one backend and their entries. Each method on a single handle takes O(1). */
export class HandleTable<Entry> {
  /**
   * The latest handles, each in the slot of the lowest bits of its distance from `origin`: most allocations live for a few
   * calls, and a map took a third of the time to make and free them. A younger handle drives an older one out, to `#older`.
   */
  readonly #distances = new Array<number>(slots).fill(empty);
  readonly #latest = new Array<Entry | undefined>(slots).fill(undefined);
  /** By the distance, too: engines look up small integers several times as fast as other numbers. */
  readonly #older = new Map<number, Entry>();
  #size = 0;
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
    return this.#size;
  }

  /** Changes whenever handles end. */
  get ended(): number {
    return this.#ended;
  }

  /** Issues a handle that was never issued before. */
  issue(entry: Entry): DeviceHandle {
    const handle = newHandle();
    const distance = handle - origin;
    const slot = distance & (slots - 1);
    const driven = this.#distances[slot]!;
    if (driven !== empty) this.#older.set(driven, this.#latest[slot]!);
    this.#distances[slot] = distance;
    this.#latest[slot] = entry;
    this.#size++;
    return handle;
  }

  /** Returns the entry of a live handle; undefined for any other value. */
  find(handle: DeviceHandle): Entry | undefined {
    // Texts and objects would become numbers.
    if (typeof handle !== "number") return undefined;
    const distance = handle - origin;
    const slot = distance & (slots - 1);
    return this.#distances[slot] === distance ? this.#latest[slot] : this.#older.get(distance);
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
    const distance = handle - origin;
    const slot = distance & (slots - 1);
    if (this.#distances[slot] === distance) {
      this.#distances[slot] = empty;
      this.#latest[slot] = undefined;
    } else this.#older.delete(distance);
    this.#size--;
    this.#ended++;
    return entry;
  }

  /** Returns the live handles with their entries, oldest first. */
  entries(): IterableIterator<[DeviceHandle, Entry]> {
    const all = [...this.#older];
    for (let slot = 0; slot < slots; slot++)
      if (this.#distances[slot] !== empty) all.push([this.#distances[slot]!, this.#latest[slot]!]);
    all.sort(([a], [b]) => a - b);
    return all
      .map(([distance, entry]): [DeviceHandle, Entry] => [(origin + distance) as DeviceHandle, entry])
      .values();
  }

  clear(): void {
    this.#ended++;
    this.#distances.fill(empty);
    this.#latest.fill(undefined);
    this.#older.clear();
    this.#size = 0;
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
