import type { DType, FloatType, Numerics, Operation, Support } from "@backplane/core";
import { load, type Place, storeInto } from "../elements.js";
import type { Draw } from "../kit/draft.js";
import type { Law } from "../law.js";
import type { Builder, Mutant } from "../mutant.js";
import type { Tolerance } from "../tolerance.js";

/**
 * Everything that the suite knows about one operation. The reference backend, the oracle of the soak, the
 * laws that bind all operations, reports and mutants are made from the list of these in `ops/index.ts`.
 */
export interface TestedOperation<Problem extends object = never> {
  /** As core defines it: its arguments, with their roles, and its kinds. */
  readonly operation: Operation;
  /** The calls that the formula is for, in the form in which kernels say what they take. */
  readonly supports: readonly Support[];
  readonly evaluate: Evaluate<Problem>;
  readonly small: SmallCall;
  /** A call large enough for kernels that work in several steps and need memory of their own for it. */
  readonly medium: Call;
  /** Draws a call for the soak. */
  readonly draft: Draw;
  /** Absent: it has no inputs, or its results are never NaN. */
  readonly poisoned?: PoisonedCall;
  /** A call whose result depends on the order in which it is summed. Absent: there is no such order. */
  readonly repeated?: RepeatedCall;
  /** Returns a call of about n elements whose output may lie over its inputs, as `small.inPlace` says. */
  readonly inPlace?: (n: number) => Call;
  /** The kinds whose output may lie over an input. Default: all. */
  readonly inPlaceKinds?: readonly string[];
  /** Calls that show how fast it is, which the benchmark times. Default: it has its own for the operation. */
  readonly timed?: readonly TimedCall[];
  /** The extents of a shape that matter most to kernels, the two most telling ones first, by name. */
  readonly shapeAxes: readonly string[];
  readonly laws: readonly Law[];
  /** Laws on promises of `capabilities.numerics`, other than those that are the same for all operations. */
  readonly specialValues?: (dtype: FloatType) => readonly Law[];
  /** Laws on outputs over inputs, beyond the one that is the same for all operations. */
  readonly inPlaceLaws?: readonly Law[];
  readonly mutants: (build: Builder) => readonly Mutant[];
}

/** The formula of an operation: reads the inputs of a problem, and writes every element of its outputs. */
export type Evaluate<Problem extends object> = (
  problem: Problem,
  memory: FormulaMemory,
  /** If given, elements are written with their tolerance under these; otherwise with 0. */
  numerics?: Numerics,
) => void;

/** The memory in which formulas find their operands. */
export interface FormulaMemory {
  /** Returns the elements as doubles. Only operands that the result depends on may be read. */
  read(region: Place, dtype: DType): Float64Array;
  /** All reading comes before the first element that is written. */
  write(region: Place, dtype: DType): Write;
  /** Returns the bytes where they lie, for operations that move them. Absent: there are only numbers. */
  bytes?(region: Place): Uint8Array;
}

/** Reads copies of inputs, and stores each element at once. */
export const referenceMemory: FormulaMemory = {
  ...{ read: load, write: storeInto },
  bytes: ({ memory, byteOffset, byteLength }) => memory.subarray(byteOffset, byteOffset + byteLength),
};

/** Takes one element of a result: its place, in elements from the start of the output, its value and tolerance. */
export type Write = (index: number, value: number, tolerance: number) => void;

/**
 * Takes one element of a result: its place, its value, and how large the terms were that it was summed from,
 * which scales the error that is allowed.
 */
export type Emit = (index: number, value: number, magnitude: number) => void;

/** Returns an `Emit` that writes each value with its tolerance, or with 0 if there is none. */
export function emitting(write: Write, tolerance: Tolerance | undefined): Emit {
  if (tolerance === undefined) return (index, value) => write(index, value, 0);
  return (index, value, magnitude) => write(index, value, tolerance(value, magnitude));
}

/** A valid call with everything but an element type and places in memory. */
export interface Call {
  /** Elements of each operand, contiguous. The entries of a list have names such as `inputs[0]`. */
  readonly operands: Readonly<Record<string, number>>;
  /** The element types of operands that do not have that of the call. */
  readonly types?: Readonly<Record<string, DType>>;
  /** All other arguments. */
  readonly rest: Readonly<Record<string, unknown>>;
  /** The error that is allowed on small whole numbers. Default: 0. */
  readonly allowed?: number;
  /** The same for backends that declare `transformedConvolutions`. Default: `allowed`. */
  readonly allowedByTransforms?: number;
}

/** A call for the benchmark, in f32 unless `rest` has another element type. */
export interface TimedCall extends Call {
  /** Inputs that are whole numbers (i32, or u8 by `types`): each is at least 0, and below this. */
  readonly below?: Readonly<Record<string, number>>;
  /** Unique among the calls of the operation and size. */
  readonly name: string;
  /** `small`: for CPUs. `peers`: for CPUs, next to other libraries. `large`: for GPUs. */
  readonly size: "small" | "peers" | "large";
  /** Elements of an operand before the place that the call names. Default: none. */
  readonly before?: Readonly<Record<string, number>>;
  /** Whether `shape` or `n` is that of all operands, and each result needs nothing but what is at its own place in the inputs. */
  readonly elementwise?: true;
  /**
   * So many equal parts of each operand follow one another, and results of one need nothing of the others. `rest`: what differs in
   * the call for a single part. So few results can be checked without computing all.
   */
  readonly parts?: { readonly count: number; readonly rest: Change };
  /** Results, if the output has other elements too: how many, and the place of each. */
  readonly results?: { readonly count: number; readonly place: (index: number) => number };
  /** The goal: at least this share of the rate of a copy on the same device, by bytes that must move. */
  readonly copyShare?: number;
}

/** One small valid call, for laws that bind every operation alike. */
export interface SmallCall extends Call {
  /** Inputs over which the output may be written exactly. Default: none. */
  readonly inPlace?: readonly string[];
  /**
   * Changes to the arguments that must be refused as `INVALID_ARGUMENT`, beyond those that follow from the
   * table of arguments: see `laws/malformed.ts`.
   */
  readonly malformed: readonly Change[];
  /** Changes after which there is nothing to compute, and nothing may be written. */
  readonly nothing: readonly Change[];
  /** Changes after which the operand named reaches past its end. */
  readonly tooLarge: readonly (readonly [operand: string, change: Change])[];
}

export type Change = Readonly<Record<string, unknown>>;

/** A call on given numbers, one of which is replaced by NaN. */
export interface PoisonedCall {
  readonly rest: Readonly<Record<string, unknown>>;
  readonly inputs: Readonly<Record<string, readonly number[]>>;
  /** The element types of inputs that do not have that of the call. */
  readonly types?: Readonly<Record<string, DType>>;
  /** Which element of the first input becomes NaN. */
  readonly at: number;
  /** For each output, which of its elements depend on that one. */
  readonly hit: Readonly<Record<string, readonly boolean[]>>;
}

/** A call on normally distributed numbers; inputs of bytes have any. */
export interface RepeatedCall {
  readonly rest: Readonly<Record<string, unknown>>;
  /** Elements of each input, and of each output. */
  readonly inputs: Readonly<Record<string, number>>;
  readonly outputs: Readonly<Record<string, number>>;
  /** The element types of inputs that do not have that of the call. */
  readonly types?: Readonly<Record<string, DType>>;
}
