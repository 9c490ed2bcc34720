import { type DType, dtypeBytes } from "../dtype.js";
import { BackendError } from "../errors.js";
import { describe, type Operand } from "../handles.js";
import type { Region } from "../region.js";
import type { OperationArguments, OperationName, OperationProblems } from "./index.js";

/**
 * Everything core knows of one operation. A new operation is one file with one of these, a line in
 * `ops/index.ts`, and a method in `backend.ts`.
 *
 * Arguments are what callers pass. A problem is what kernels get: every default filled in, every
 * operand a region, special cases reduced to one form.
 */
export interface Operation<Name extends OperationName> {
  readonly name: Name;
  /** All arguments. */
  readonly names: readonly (keyof OperationArguments[Name] & string)[];
  /**
   * The arguments that may hold operands, for code that translates handles without more knowledge. The
   * last one is what is written.
   */
  readonly operands: readonly (keyof OperationArguments[Name] & string)[];
  /** Those of `operands` that may be a scalar instead. Default: none. */
  readonly scalars?: readonly (keyof OperationArguments[Name] & string)[];
  /** The values that the `kind` argument may have, where the operation has one. */
  readonly kinds?: readonly string[];
  /** Whether a call asks for the epilogue, where the operation has one: drivers may lack it. */
  asksForEpilogue?(args: OperationArguments[Name]): boolean;
  /** Checks the arguments; answers undefined where nothing is left for a kernel to do. */
  resolve<Memory>(
    args: OperationArguments[Name],
    binder: Binder<Memory>,
  ): OperationProblems<Memory>[Name] | undefined;
  /** Floating-point operations: a multiply-add counts 2, any other function of one element 1. */
  flops(problem: OperationProblems<unknown>[Name]): number;
  /** Bytes that must cross memory at least once: each input element read, each output written. */
  bytes(problem: OperationProblems<unknown>[Name]): number;
}

/** How `resolve` functions turn operands into regions; made by `createBackend` for each call. */
export interface Binder<Memory> {
  /** Looks up the operand; checks offset, alignment to the element size, and bounds. */
  region(argument: string, operand: Operand, elements: number, dtype: DType): Region<Memory>;
  /** Enqueues a fill, for outputs that hold one known value. */
  fill(destination: Region<Memory>, value: number, dtype: DType): void;
}

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

  /** A whole number of at least `least` that is exact as a number. */
  count(argument: string, value: unknown, least = 0): number {
    if (!Number.isSafeInteger(value) || (value as number) < least)
      this.fail(argument, `is ${describe(value)}; allowed: a whole number of at least ${least}`);
    return value as number;
  }

  /** A factor, rounded to f32 so that it is the same on every backend. */
  float32(argument: string, value: unknown): number {
    const rounded = typeof value === "number" ? Math.fround(value) : Number.NaN;
    if (!Number.isFinite(rounded))
      this.fail(argument, `is ${describe(value)}; allowed: a number that is finite in f32`);
    return rounded;
  }

  object(argument: string, value: unknown): void {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      this.fail(argument, `is ${describe(value)}; allowed: an object`);
  }

  flag(argument: string, value: unknown): boolean {
    if (typeof value !== "boolean") this.fail(argument, `is ${describe(value)}; allowed: true, false`);
    return value;
  }

  oneOf<Value extends string>(argument: string, value: unknown, allowed: readonly Value[]): Value {
    if (!allowed.includes(value as Value))
      this.fail(argument, `is ${describe(value)}; allowed: ${allowed.join(", ")}`);
    return value as Value;
  }

  dtype(value: unknown): DType {
    return this.oneOf("dtype", value ?? "f32", ["f32", "f16"]);
  }

  /** A list of whole numbers, of exactly `length` where given. */
  counts(argument: string, value: unknown, length?: number, least = 0): readonly number[] {
    if (!Array.isArray(value) || (length !== undefined && value.length !== length))
      this.fail(
        argument,
        `is ${describe(value)}; allowed: a list of ${length ?? "any number of"} whole numbers`,
      );
    // Not value.map, which would pass over holes.
    return Array.from(value, (entry, i) => this.count(`${argument}[${i}]`, entry, least));
  }

  /** The product of extents; fails where it is not exact. */
  product(argument: string, extents: readonly number[]): number {
    // A zero anywhere makes the product zero even if the other extents would overflow.
    const total = extents.includes(0) ? 0 : extents.reduce((a, b) => a * b, 1);
    if (!Number.isSafeInteger(total)) this.fail(argument, `${describe(extents)} has more than 2^53 elements`);
    return total;
  }

  /** Refuses an output that shares bytes with an input. */
  disjoint<Memory>(output: NamedRegion<Memory>, input: NamedRegion<Memory>): void {
    if (overlaps(output.region, input.region))
      this.fail(
        output.argument,
        `(bytes ${extent(output.region)}) overlaps ${input.argument} (bytes ${extent(input.region)}) ` +
          "of the same allocation; allowed: disjoint regions",
      );
  }

  /** Refuses an output that shares bytes with an input, unless the two are exactly the same region. */
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

/** Number of elements in a region. */
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
