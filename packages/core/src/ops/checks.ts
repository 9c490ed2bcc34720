import { type DType, dtypeBytes, elementTypes } from "../dtype.js";
import { BackendError } from "../errors.js";
import { describe } from "../handles.js";
import { nearestTo } from "../names.js";
import type { Region } from "../region.js";

/** Argument checks that name the operation. All throw `INVALID_ARGUMENT`. */
export class Checks {
  readonly operation: string;

  constructor(operation: string) {
    this.operation = operation;
  }

  fail(argument: string, message: string): never {
    throw new BackendError("INVALID_ARGUMENT", `${this.operation}: ${argument} ${message}`, {
      operation: this.operation,
      argument,
    });
  }

  /** Returns `value` if it is a whole number of at least `least` and below 2^53. */
  count(argument: string, value: unknown, least = 0): number {
    if (!Number.isSafeInteger(value) || (value as number) < least)
      this.fail(argument, `is ${describe(value)}; allowed: whole numbers from ${least} to 2^53 - 1`);
    return value as number;
  }

  /** Returns the 32-bit words, the lowest first, of a whole number below 2^bits. */
  words(argument: string, value: unknown, bits: number): readonly number[] {
    const isWhole =
      typeof value === "bigint"
        ? value >= 0n && value >> BigInt(bits) === 0n
        : Number.isSafeInteger(value) && (value as number) >= 0;
    if (!isWhole)
      this.fail(
        argument,
        `is ${describe(value)}; allowed: whole numbers from 0 to 2^${bits} - 1, as bigints from 2^53 on`,
      );
    const words = new Array<number>(Math.ceil(bits / 32)).fill(0);
    if (typeof value === "bigint")
      for (let i = 0; i < words.length; i++) words[i] = Number((value >> BigInt(32 * i)) & 0xffffffffn);
    else {
      words[0] = (value as number) >>> 0;
      words[1] = Math.floor((value as number) / 2 ** 32);
    }
    return words;
  }

  /** Returns a finite factor rounded to f32, so that it is the same on every backend. */
  float32(argument: string, value: unknown): number {
    const rounded = typeof value === "number" ? Math.fround(value) : Number.NaN;
    if (!Number.isFinite(rounded))
      this.fail(argument, `is ${describe(value)}; allowed: a number that is finite in f32`);
    return rounded;
  }

  /** Returns a number that is an element of the type; fractions are rounded to f32 and finite there. */
  scalar(argument: string, value: unknown, dtype: DType): number {
    const { range } = elementTypes[dtype];
    if (range === undefined) return this.float32(argument, value);
    const [least, largest] = range;
    if (!Number.isInteger(value) || (value as number) < least || (value as number) > largest)
      this.fail(argument, `is ${describe(value)}; allowed: whole numbers from ${least} to ${largest}`);
    // Not -0.
    return (value as number) + 0;
  }

  /** Checks extents that follow from other arguments, if they are given. */
  derivedExtents(argument: string, given: readonly number[] | undefined, derived: readonly number[]): void {
    if (given === undefined) return;
    if (given.length !== derived.length || given.some((extent, i) => extent !== derived[i]))
      this.fail(argument, `is [${given.join(", ")}]; allowed: [${derived.join(", ")}]`);
  }

  object(argument: string, value: unknown): void {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      this.fail(argument, `is ${describe(value)}; allowed: an object`);
  }

  boolean(argument: string, value: unknown): boolean {
    if (typeof value !== "boolean") this.fail(argument, `is ${describe(value)}; allowed: true, false`);
    return value;
  }

  oneOf<Value extends string | boolean>(argument: string, value: unknown, allowed: readonly Value[]): Value {
    if (!allowed.includes(value as Value)) {
      const names = allowed.filter((name) => typeof name === "string");
      const nearest = typeof value === "string" ? nearestTo(value, names) : undefined;
      const meant = nearest === undefined ? "" : ` (is ${nearest} meant?)`;
      this.fail(argument, `is ${describe(value)}${meant}; allowed: ${allowed.join(", ")}`);
    }
    return value as Value;
  }

  /** Fails if a value is not a list, or has another number of entries than it should. */
  list(argument: string, value: unknown, what: string, length?: number): readonly unknown[] {
    if (!Array.isArray(value) || (length !== undefined && value.length !== length))
      this.fail(argument, `is ${describe(value)}; allowed: a list of ${length ?? "any number of"} ${what}`);
    return value;
  }

  /** Returns a list of whole numbers of at least `least`, with exactly `length` entries if given. */
  counts(argument: string, value: unknown, length?: number, least = 0): readonly number[] {
    if (!Array.isArray(value) || (length !== undefined && value.length !== length))
      this.fail(
        argument,
        `is ${describe(value)}; allowed: a list of ${length ?? "any number of"} whole numbers`,
      );
    const counts = new Array<number>(value.length);
    for (let i = 0; i < counts.length; i++) {
      const entry = value[i];
      // The name of an entry is made only if it is needed: that costs more than the check.
      counts[i] =
        Number.isSafeInteger(entry) && entry >= least
          ? entry + 0
          : this.count(`${argument}[${i}]`, entry, least);
    }
    return counts;
  }

  /** Returns a list of `length` whole numbers of either sign. */
  steps(argument: string, value: unknown, length: number): readonly number[] {
    if (!Array.isArray(value) || value.length !== length)
      this.fail(argument, `is ${describe(value)}; allowed: a list of ${length} whole numbers`);
    const steps = new Array<number>(length);
    for (let i = 0; i < length; i++) {
      const entry = value[i];
      if (!Number.isSafeInteger(entry))
        this.fail(`${argument}[${i}]`, `is ${describe(entry)}; allowed: whole numbers`);
      // Not -0.
      steps[i] = entry + 0;
    }
    return steps;
  }

  /**
   * Returns the place of an axis in a list of `rank` extents; a negative axis counts from the last. `entry`: of a list of
   * axes, the one that is meant.
   */
  place(argument: string, axis: unknown, rank: number, entry?: number): number {
    const place = Number.isSafeInteger(axis) && (axis as number) < 0 ? (axis as number) + rank : axis;
    if (!Number.isSafeInteger(place) || (place as number) < 0 || (place as number) >= rank) {
      const allowed =
        rank === 0 ? "none, for there are no axes" : `whole numbers from ${-rank} to ${rank - 1}`;
      // The name of an entry is made only if it is needed: that costs more than the check.
      const name = entry === undefined ? argument : `${argument}[${entry}]`;
      this.fail(name, `is ${describe(axis)}; allowed: ${allowed}`);
    }
    return place as number;
  }

  /** Returns the product of extents, those from `start` to before `end`. Fails if it is not exact. */
  product(argument: string, extents: readonly number[], start = 0, end: number = extents.length): number {
    let total = 1;
    for (let i = start; i < end; i++) total *= extents[i]!;
    if (Number.isSafeInteger(total)) return total;
    const part = extents.slice(start, end);
    // A zero anywhere makes the product zero, even if the other extents would overflow.
    if (part.includes(0)) return 0;
    return this.fail(argument, `${describe(part)} has more than 2^53 elements`);
  }

  /** Merges the axes before the given one, and those after it. Fails if a product is not exact. */
  around(
    argument: string,
    shape: readonly number[],
    axis: number,
  ): { readonly outer: number; readonly length: number; readonly inner: number } {
    const outer = this.product(argument, shape, 0, axis);
    return { outer, length: shape[axis]!, inner: this.product(argument, shape, axis + 1) };
  }

  /**
   * Fails if two elements may have one place. The axes, the largest stride first, have extents above 1 and strides of at
   * least 0; `given` is what the caller passed.
   */
  apart(
    argument: string,
    axes: readonly { readonly extent: number; readonly output: number }[],
    given: readonly number[],
  ): void {
    let reach = 0;
    for (let i = axes.length - 1; i >= 0; i--) {
      const { extent, output } = axes[i]!;
      if (output <= reach)
        this.fail(
          argument,
          `[${given.join(", ")}] may put two elements into one place: a stride of ${output} where smaller ones ` +
            `reach ${reach} elements far; allowed: strides longer than the smaller ones reach together`,
        );
      reach += (extent - 1) * output;
    }
  }

  /** Fails if an output shares bytes with an input. */
  disjoint<Memory>(output: NamedRegion<Memory>, input: NamedRegion<Memory>): void {
    if (overlaps(output.region, input.region))
      this.fail(
        output.argument,
        `(bytes ${extent(output.region)}) overlaps ${input.argument} (bytes ${extent(input.region)}) ` +
          "of the same allocation; allowed: disjoint regions",
      );
  }

  /** Fails if an output shares bytes with an input, unless both are exactly the same region. */
  disjointOrSame<Memory>(output: NamedRegion<Memory>, input: NamedRegion<Memory>): void {
    const same =
      output.region.byteOffset === input.region.byteOffset &&
      output.region.byteLength === input.region.byteLength;
    if (!same) this.disjoint(output, input);
  }
}

export interface NamedRegion<Memory> {
  readonly argument: string;
  readonly region: Region<Memory>;
}

/** Returns the number of elements in a region. */
export function elements(region: Region<unknown>, dtype: DType): number {
  return region.byteLength / dtypeBytes[dtype];
}

function overlaps<Memory>(a: Region<Memory>, b: Region<Memory>): boolean {
  return (
    a.memory === b.memory &&
    a.byteLength > 0 &&
    b.byteLength > 0 &&
    a.byteOffset < b.byteOffset + b.byteLength &&
    b.byteOffset < a.byteOffset + a.byteLength
  );
}

function extent(region: Region<unknown>): string {
  return `${region.byteOffset}..${region.byteOffset + region.byteLength}`;
}
