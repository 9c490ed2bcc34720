import { type DType, type FloatType, type IntegerType, integerTypes } from "@backplane/core";
import type { Range } from "./range.js";

/** Random choices, the same for the same seed. */
export interface Dice {
  /** Uniform in [0, 1). */
  next(): number;
  /** A whole number from 0 to below `end`. */
  below(end: number): number;
  pick<Value>(values: readonly Value[]): Value;
  /** Returns a size from 1 to `largest`; small ones are as frequent as large ones. */
  size(largest: number): number;
}

export function makeDice(next: () => number): Dice {
  const below = (end: number) => Math.floor(next() * end);
  return {
    ...{ next, below },
    pick: (values) => values[below(values.length)]!,
    size: (largest) => Math.max(Math.min(Math.round(largest ** next()), Math.floor(largest)), 1),
  };
}

/** A call with everything but places in memory. */
export interface Draft {
  /** All arguments but the operands. The element type may be another one than was asked for: see `drawType`. */
  readonly rest: Readonly<Record<string, unknown>>;
  /** Elements of each input, by argument; the entries of a list have names such as `inputs[0]`. */
  readonly inputs: Readonly<Record<string, number>>;
  /** Inputs that are whole numbers (i32 unless `types` says otherwise), each from `low` to `high`; they have no range. */
  readonly integers?: Readonly<Record<string, Range>>;
  /** The element types of other inputs that do not have that of the call. */
  readonly inputTypes?: Readonly<Record<string, FloatType>>;
  /** Elements of each output. */
  readonly outputs: Readonly<Record<string, number>>;
  /** The element types of outputs, and of whole numbers, that do not have that of the call. */
  readonly types?: Readonly<Record<string, DType>>;
  /** Whether the call reads its outputs, or leaves some of them as they are. */
  readonly keepsOutputs?: boolean;
  /** An input over which the first output may be written. */
  readonly inPlace?: string;
  /**
   * Returns the range of all results, given those of the inputs (and of outputs that are read); undefined if
   * it is unknown. Of no importance for calls on whole numbers: these wrap around, and are exact anywhere.
   */
  range(ranges: Readonly<Record<string, Range>>): Range | undefined;
}

export interface DraftLimits {
  /** Elements of an array and multiplications of an operation, at most. */
  readonly elements: number;
  readonly multiplications: number;
}

/** Draws a call of one operation. */
export type Draw = (dice: Dice, limits: DraftLimits, dtype: FloatType) => Draft;

/** Draws the element type of a call that whole numbers and bytes have too: in one of three cases one of theirs. */
export function drawType(dice: Dice, dtype: FloatType): FloatType | IntegerType | "u8" {
  return dice.next() < 2 / 3 ? dtype : dice.pick([...integerTypes, "u8"]);
}
