import { Checks, checkNames, type DType, dtypeBytes, type Operand } from "@backplane/core";
import type { ReducedType } from "./elements.js";
import type { ReductionKind } from "./link.js";

/** sum, max and min of the elements of all ranks, or the sum divided by their number. */
export type AllReduceKind = ReductionKind | "mean";

export const kinds: readonly AllReduceKind[] = ["sum", "mean", "max", "min"];

/** `count` elements of type `dtype`, f32 unless it says otherwise. The same on all ranks. */
export interface Elements<Type extends DType = DType> {
  readonly count: number;
  readonly dtype?: Type;
}

export interface AllReduceArguments extends Elements<ReducedType> {
  /** `count` elements. */
  readonly input: Operand;
  /** `count` elements. Default: the input. */
  readonly output?: Operand;
  /** Default: sum. */
  readonly kind?: AllReduceKind;
}

export interface BroadcastArguments extends Elements {
  /** `count` elements: read on the root, written on all others. */
  readonly data: Operand;
  /** The rank that has the elements. Default: 0. */
  readonly root?: number;
}

export interface AllGatherArguments extends Elements {
  /** `count` elements. */
  readonly input: Operand;
  /** size x `count` elements. */
  readonly output: Operand;
}

export interface ReduceScatterArguments extends Elements<ReducedType> {
  /** size x `count` elements. */
  readonly input: Operand;
  /** `count` elements. */
  readonly output: Operand;
  /** Default: sum. */
  readonly kind?: AllReduceKind;
}

export interface SendArguments extends Elements {
  /** `count` elements. */
  readonly input: Operand;
  /** The rank that receives. */
  readonly to: number;
  /** Tells messages apart, from 0 to 16383. Default: 0. */
  readonly tag?: number;
}

export interface ReceiveArguments extends Elements {
  /** `count` elements. */
  readonly output: Operand;
  /** The rank that sends. */
  readonly from: number;
  /** Default: 0. */
  readonly tag?: number;
}

export interface SplitArguments {
  /** Ranks of the same color, a whole number below 2^31, are a group. Undefined: this rank is in none. */
  readonly color: number | undefined;
  /** Ranks of a group are numbered in the order of their keys; equal keys keep their order. Default: 0. */
  readonly key?: number;
}

/** Returns an operand of our own: the caller may change a slice before its place is written. */
export function ownOperand(operand: Operand): Operand {
  if (typeof operand !== "object" || operand === null) return operand;
  return { handle: operand.handle, byteOffset: operand.byteOffset };
}

/** MPI counts with 32 bits. */
const mostNumber = 2 ** 31 - 1;
const mostTag = 16383;

/**
 * Returns the elements that a call names, with their bytes. `parts`: how many times as many its largest array has. MPI
 * libraries compute places within an array with 32 bits.
 */
export function elementsOf<Type extends DType>(
  checks: Checks,
  args: Elements<Type>,
  allowed: readonly Type[],
  parts = 1,
): { readonly count: number; readonly dtype: Type; readonly bytes: number } {
  const dtype = checks.oneOf("dtype", args.dtype ?? ("f32" as Type), allowed);
  const count = checks.count("count", args.count);
  const bytes = count * dtypeBytes[dtype];
  if (bytes * parts > mostNumber)
    checks.fail(
      "count",
      `is ${count}, which is ${bytes * parts} bytes on ${parts === 1 ? "a rank" : "all ranks"}; ` +
        "allowed: at most 2^31 - 1 bytes in a call",
    );
  return { count, dtype, bytes };
}

export function tagOf(checks: Checks, tag: unknown = 0): number {
  const value = checks.count("tag", tag);
  if (value > mostTag) checks.fail("tag", `is ${value}; allowed: whole numbers from 0 to ${mostTag}`);
  return value;
}

/** The group of a rank, and its place there, as numbers of MPI. */
export interface Place {
  /** Negative: of no group. */
  readonly color: number;
  readonly key: number;
}

export function placeOf(args: SplitArguments): Place {
  const checks = new Checks("split");
  checkNames("split", args, ["color", "key"]);
  const color = args.color === undefined ? -1 : checks.count("color", args.color);
  const key = args.key ?? 0;
  if (color > mostNumber) checks.fail("color", `is ${color}; allowed: whole numbers below 2^31`);
  if (!Number.isInteger(key) || Math.abs(key) > mostNumber)
    checks.fail("key", `is ${key}; allowed: whole numbers from -2^31 + 1 to 2^31 - 1`);
  return { color, key };
}
