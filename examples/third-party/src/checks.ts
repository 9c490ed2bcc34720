import { BackendError, type FloatType, type HostBytes, type Operand } from "@backplane/core";
import type { Version } from "./graph.js";

/** The entry of a live handle: the newest version of its bytes. */
export interface Allocation {
  readonly bytes: number;
  version: Version;
}

/** `byteLength` bytes of an allocation. */
export interface Place {
  readonly allocation: Allocation;
  readonly byteOffset: number;
  readonly byteLength: number;
}

export const elementBytes: Readonly<Record<FloatType, number>> = { f32: 4, f16: 2 };

/** The checks of one call. Each returns the checked value, or throws a `BackendError` that names call and argument. */
export class Call {
  readonly name: string;
  readonly #live: ReadonlyMap<unknown, Allocation>;

  constructor(name: string, live: ReadonlyMap<unknown, Allocation>) {
    this.name = name;
    this.#live = live;
  }

  error(code: BackendError["code"], argument: string, complaint: string): BackendError {
    const message = `${this.name}: ${argument} ${complaint}`;
    return new BackendError(code, message, { operation: this.name, argument });
  }

  refuse(argument: string, value: unknown, allowed: string): never {
    throw this.error("INVALID_ARGUMENT", argument, `is ${show(value)}; allowed: ${allowed}`);
  }

  whole(argument: string, value: unknown, least = 0): number {
    if (!Number.isSafeInteger(value) || (value as number) < least)
      this.refuse(argument, value, `whole numbers from ${least} to 2^53 - 1`);
    return value as number;
  }

  wholes(argument: string, value: unknown, length?: number, least = 0): number[] {
    if (!Array.isArray(value) || (length !== undefined && value.length !== length))
      this.refuse(argument, value, `a list of ${length ?? ""} whole numbers`);
    return Array.from(value, (entry, i) => this.whole(`${argument}[${i}]`, entry, least));
  }

  factor(argument: string, value: unknown): number {
    const rounded = typeof value === "number" ? Math.fround(value) : Number.NaN;
    if (!Number.isFinite(rounded)) this.refuse(argument, value, "numbers that are finite in f32");
    return rounded;
  }

  names(argument: string, value: object, known: readonly string[]): void {
    if (typeof value !== "object" || value === null) this.refuse(argument, value, "an object");
    const unknown = Object.keys(value).find((name) => !known.includes(name));
    if (unknown !== undefined)
      throw this.error("INVALID_ARGUMENT", unknown, `is unknown; allowed: ${known.join(", ")}`);
  }

  flag(argument: string, value: unknown): boolean {
    if (value !== true && value !== false) this.refuse(argument, value, "true or false");
    return value;
  }

  choice<Choice extends string>(argument: string, value: unknown, choices: readonly Choice[]): Choice {
    if (!choices.includes(value as Choice)) this.refuse(argument, value, choices.join(", "));
    return value as Choice;
  }

  /** How many elements a shape has. */
  count(argument: string, extents: readonly number[]): number {
    const product = extents.includes(0) ? 0 : extents.reduce((total, extent) => total * extent, 1);
    if (!Number.isSafeInteger(product)) this.refuse(argument, extents, "fewer than 2^53 elements");
    return product;
  }

  allocation(argument: string, handle: unknown): Allocation {
    const allocation = this.#live.get(handle);
    if (allocation === undefined)
      throw this.error(
        "INVALID_HANDLE",
        argument,
        `is ${show(handle)}, which is no live handle of this backend`,
      );
    return allocation;
  }

  place(argument: string, operand: Operand, count: number, size: number): Place {
    const isSlice = typeof operand === "object" && operand !== null;
    const allocation = this.allocation(argument, isSlice ? operand.handle : operand);
    const byteOffset = this.whole(`${argument}.byteOffset`, isSlice ? operand.byteOffset : 0);
    if (byteOffset % size !== 0) this.refuse(`${argument}.byteOffset`, byteOffset, `multiples of ${size}`);
    const byteLength = count * size;
    if (byteOffset + byteLength > allocation.bytes) {
      const end = `ends at byte ${byteOffset + byteLength} of an allocation of ${allocation.bytes}`;
      throw this.error("OUT_OF_BOUNDS", argument, end);
    }
    return { allocation, byteOffset, byteLength };
  }

  /** Refuses an output that shares bytes with an input, unless both are the same bytes and `exactly` is set. */
  apart(
    output: readonly [string, Place],
    input: readonly [string, Place],
    exactly: "exactly" | "never",
  ): void {
    const [[name, a], [otherName, b]] = [output, input];
    if (a.allocation !== b.allocation) return;
    const same = a.byteOffset === b.byteOffset && a.byteLength === b.byteLength;
    if (same && exactly === "exactly") return;
    const first = Math.max(a.byteOffset, b.byteOffset);
    const end = Math.min(a.byteOffset + a.byteLength, b.byteOffset + b.byteLength);
    if (first < end)
      throw this.error(
        "INVALID_ARGUMENT",
        name,
        `shares ${end - first} bytes with ${otherName}; allowed: none`,
      );
  }

  /** The range that a host array shows. */
  host(argument: string, value: HostBytes): Uint8Array<ArrayBufferLike> {
    const view = ArrayBuffer.isView(value);
    const shared = typeof SharedArrayBuffer !== "undefined" && value instanceof SharedArrayBuffer;
    if (!view && !shared && !(value instanceof ArrayBuffer))
      this.refuse(argument, value, "typed arrays, DataView, ArrayBuffer, SharedArrayBuffer");
    try {
      return view
        ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
        : new Uint8Array(value, 0, value.byteLength);
    } catch {
      throw this.error("INVALID_ARGUMENT", argument, "is detached; allowed: live buffers");
    }
  }
}

function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(show).join(", ")}]`;
  return typeof value === "object" && value !== null ? "an object" : String(value);
}
