import type { DType } from "../dtype.js";
import { describe, type Operand } from "../handles.js";
import type { Region } from "../region.js";
import { Checks } from "./checks.js";
import type { ArgumentTable, Scalar, ValueOf } from "./table.js";

/**
 * Turns operands into regions for `resolve`; `createBackend` has one for each operation. Looks up the operand
 * and checks its offset, its alignment to the element size, and its bounds.
 */
export interface Binder<Memory> {
  /** `before`: how many of the elements lie before the place that the operand names. Default: 0. */
  region(argument: string, operand: Operand, elements: number, dtype: DType, before?: number): Region<Memory>;
}

/** The arguments of a table that have one of these roles. */
type NamesOf<Table, Role> = {
  [Name in keyof Table & string]: Table[Name] extends { readonly role: Role } ? Name : never;
}[keyof Table & string];

type OperandRole = "reads" | "writes" | "updates";

/** The number of arguments with a value that were read since `startCount`. */
let counted = 0;

/**
 * Starts the count of arguments that are read. Looking up each name, to find an unknown one, would cost a tenth
 * of a small call; counting costs next to nothing. If an object has as many names as arguments were read, all
 * its names are known. Otherwise some name is unknown or has no value, and `checkNames` looks for it.
 */
export function startCount(): void {
  counted = 0;
}

export function argumentsRead(): number {
  return counted;
}

/** Counts arguments that need not be read again. */
export function countRead(count: number): void {
  counted += count;
}

/**
 * Reads the arguments of one operation. Each method takes a name and the caller's value, and returns the
 * value checked. All throw `INVALID_ARGUMENT`. `resolve` must read every argument once.
 *
 * The methods are few and belong to roles, not to arguments, so that engines compile them into `resolve`:
 * with a function for each argument small calls took 1.4 times as long.
 */
export class Reader<Table extends ArgumentTable> extends Checks {
  /** A size, or elements from one thing to the next. `fallback` replaces a value that was left out. */
  extent(
    argument: NamesOf<Table, "extent" | "stride">,
    value: number | undefined,
    fallback?: number,
    least = 0,
  ): number {
    if (value === undefined) return this.count(argument, fallback, least);
    counted++;
    return this.count(argument, value, least);
  }

  optionalExtent(
    argument: NamesOf<Table, "extent" | "stride">,
    value: number | undefined,
  ): number | undefined {
    return value === undefined ? undefined : this.extent(argument, value);
  }

  factor(argument: NamesOf<Table, "factor">, value: number | undefined, fallback?: number): number {
    if (value === undefined) return this.float32(argument, fallback);
    counted++;
    return this.float32(argument, value);
  }

  /** Returns the 32-bit words of a whole number below 2^bits, the lowest first. */
  unsigned(
    argument: NamesOf<Table, "unsigned">,
    value: number | bigint | undefined,
    bits: number,
    fallback?: number,
  ): readonly number[] {
    if (value === undefined) return this.words(argument, fallback, bits);
    counted++;
    return this.words(argument, value, bits);
  }

  flag(argument: NamesOf<Table, "flag">, value: boolean | undefined, fallback: boolean): boolean {
    if (value === undefined) return fallback;
    counted++;
    return this.boolean(argument, value);
  }

  kind<Kind extends string>(argument: NamesOf<Table, "kind">, value: Kind, kinds: readonly Kind[]): Kind {
    if (value !== undefined) counted++;
    return this.oneOf(argument, value, kinds);
  }

  choice<Value extends string | boolean>(
    argument: NamesOf<Table, "choice">,
    value: Value | undefined,
    values: readonly Value[],
  ): Value | undefined {
    if (value === undefined) return undefined;
    counted++;
    return this.oneOf(argument, value, values);
  }

  /** `allowed`: the argument's description in the table. */
  elementType<Type extends DType>(
    argument: NamesOf<Table, "elementType">,
    value: Type | undefined,
    allowed: { readonly types: readonly Type[]; readonly default: Type },
  ): Type {
    if (value === undefined) return allowed.default;
    counted++;
    return this.oneOf(argument, value, allowed.types);
  }

  extents<Name extends NamesOf<Table, "extents">>(
    argument: Name,
    value: readonly number[],
    length?: number,
    least?: number,
  ): ValueOf<Table[Name]> {
    if (value !== undefined) counted++;
    return this.counts(argument, value, length, least) as unknown as ValueOf<Table[Name]>;
  }

  /** Like `extents`, for a list that may be left out; `missing` then replaces it. */
  optionalExtents<Name extends NamesOf<Table, "extents">, Missing>(
    argument: Name,
    value: readonly number[] | undefined,
    missing: Missing,
    length?: number,
    least?: number,
  ): ValueOf<Table[Name]> | Missing {
    return value === undefined ? missing : this.extents(argument, value, length, least);
  }

  /** Returns one stride for each axis of a shape; those of contiguous elements if they are left out. */
  strides(
    argument: NamesOf<Table, "strides">,
    value: readonly number[] | undefined,
    shape: readonly number[],
  ): readonly number[] {
    if (value === undefined) return contiguousStrides(shape);
    counted++;
    return this.steps(argument, value, shape.length);
  }

  /** Checks only that the axes are a list: `resolve` knows the rank that they belong to. */
  axes(
    argument: NamesOf<Table, "axes">,
    value: readonly number[] | undefined,
  ): readonly number[] | undefined {
    if (value === undefined) return undefined;
    counted++;
    if (!Array.isArray(value)) this.fail(argument, `is ${describe(value)}; allowed: a list of axes`);
    return value;
  }

  /** Returns the place of one axis in a list of `rank` extents. */
  axis(
    argument: NamesOf<Table, "axis">,
    value: number | undefined,
    fallback: number | undefined,
    rank: number,
  ): number {
    if (value === undefined) return this.place(argument, fallback, rank);
    counted++;
    return this.place(argument, value, rank);
  }

  /** Returns the region of an operand with `elements` elements, `before` of them before the place that it names. */
  region<Memory>(
    binder: Binder<Memory>,
    argument: NamesOf<Table, OperandRole>,
    operand: Operand,
    elements: number,
    dtype: DType,
    before?: number,
  ): Region<Memory> {
    if (operand !== undefined) counted++;
    return binder.region(argument, operand, elements, dtype, before);
  }

  /** Like `region`, for an operand that may be left out. */
  optionalRegion<Memory>(
    binder: Binder<Memory>,
    argument: NamesOf<Table, OperandRole>,
    operand: Operand | undefined,
    elements: number,
    dtype: DType,
  ): Region<Memory> | undefined {
    return operand === undefined ? undefined : this.region(binder, argument, operand, elements, dtype);
  }

  /**
   * Like `region`, for an operand that may also be one number: rounded to f32 if the elements are floats, and
   * one of their numbers if they are integers.
   */
  regionOrScalar<Memory>(
    binder: Binder<Memory>,
    argument: NamesOf<Table, OperandRole>,
    operand: Operand | Scalar,
    elements: number,
    dtype: DType,
  ): Region<Memory> | Scalar {
    if (!isScalar(operand)) return this.region(binder, argument, operand, elements, dtype);
    counted++;
    return { scalar: this.scalar(`${argument}.scalar`, operand.scalar, dtype) };
  }

  /** Returns a list of numbers, which `resolve` checks one by one; none if it is left out. */
  factors(argument: NamesOf<Table, "factor">, value: readonly number[] | undefined): readonly number[] {
    if (value === undefined) return [];
    counted++;
    return this.list(argument, value, "numbers") as readonly number[];
  }

  /** Returns one element type for each entry of a list of operands; the default for all if it is left out. */
  elementTypes<Type extends DType>(
    argument: NamesOf<Table, "elementType">,
    value: readonly Type[] | undefined,
    count: number,
    allowed: { readonly types: readonly Type[]; readonly default: Type },
  ): readonly Type[] {
    if (value === undefined) return new Array<Type>(count).fill(allowed.default);
    counted++;
    this.list(argument, value, "element types", count);
    // Loops, here and below: `Array.from` takes longer than the rest of a small call.
    const types = new Array<Type>(count);
    for (let i = 0; i < count; i++) {
      const type = value[i]!;
      types[i] = allowed.types.includes(type) ? type : this.oneOf(`${argument}[${i}]`, type, allowed.types);
    }
    return types;
  }

  /** Returns one shape for each entry of a list of operands; the default where none is given. */
  shapes(
    argument: NamesOf<Table, "extents">,
    value: readonly (readonly number[] | undefined)[] | undefined,
    count: number,
    fallback: readonly number[],
  ): readonly (readonly number[])[] {
    if (value === undefined) return new Array<readonly number[]>(count).fill(fallback);
    counted++;
    this.list(argument, value, "shapes", count);
    const shapes = new Array<readonly number[]>(count);
    for (let i = 0; i < count; i++) {
      const shape = value[i];
      shapes[i] = shape === undefined ? fallback : this.counts(`${argument}[${i}]`, shape);
    }
    return shapes;
  }

  /** Checks only that the nodes are a list: their meaning is the operation's. */
  nodes<Node>(argument: NamesOf<Table, "nodes">, value: readonly Node[]): readonly Node[] {
    if (value !== undefined) counted++;
    return this.list(argument, value, "nodes") as readonly Node[];
  }

  /** Checks only that the operands are a list of at most `most`. */
  operands(
    argument: NamesOf<Table, OperandRole>,
    value: readonly Operand[],
    least: number,
    most: number,
  ): readonly Operand[] {
    if (value !== undefined) counted++;
    if (!Array.isArray(value) || value.length < least || value.length > most)
      this.fail(
        argument,
        `is ${Array.isArray(value) ? `a list of ${value.length}` : describe(value)}; ` +
          `allowed: a list of ${least} to ${most} operands`,
      );
    return value;
  }

  /** Returns the regions of several operands with `elements` elements each. */
  regions<Memory>(
    binder: Binder<Memory>,
    argument: NamesOf<Table, OperandRole>,
    operands: readonly Operand[],
    elements: readonly number[],
    dtype: DType,
  ): readonly Region<Memory>[] {
    if (operands !== undefined) counted++;
    if (!Array.isArray(operands) || operands.length !== elements.length)
      this.fail(argument, `is ${describe(operands)}; allowed: a list of ${elements.length} operands`);
    return elements.map((count, i) => binder.region(`${argument}[${i}]`, operands[i]!, count, dtype));
  }
}

/** A reader of a table with these arguments, and perhaps others. */
export type ReaderOf<Table extends ArgumentTable> = Pick<Reader<Table>, keyof Reader<Table>>;

export function isScalar(operand: Operand | Scalar): operand is Scalar {
  return typeof operand === "object" && operand !== null && "scalar" in operand;
}

/** Returns the strides of contiguous elements, the last axis moving fastest. */
function contiguousStrides(shape: readonly number[]): readonly number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= shape[axis]!;
  }
  return strides;
}
