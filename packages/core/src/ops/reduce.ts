import type { DType } from "../dtype.js";
import { describe, type Operand } from "../handles.js";
import { checkNames } from "../names.js";
import type { Region } from "../region.js";
import { Checks, elements, type Operation } from "./operation.js";

export type ReduceKind = "sum" | "mean" | "max" | "min" | "prod";

export const reduceKinds: readonly ReduceKind[] = ["sum", "mean", "max", "min", "prod"];

/** What a reduction over no elements gives. */
export const reduceIdentity: Readonly<Record<ReduceKind, number>> = {
  sum: 0,
  mean: Number.NaN,
  max: Number.NEGATIVE_INFINITY,
  min: Number.POSITIVE_INFINITY,
  prod: 1,
};

/**
 * output[kept indices] = kind over the reduced indices of input[all indices].
 *
 * Over an empty axis: sum 0, prod 1, mean NaN, max -Infinity, min +Infinity.
 */
export interface ReduceArguments {
  readonly kind: ReduceKind;
  /** Of the contiguous input, any rank; [] is one element. */
  readonly shape: readonly number[];
  /** Axes to reduce over, each once; negative ones count from the last. Default: all. [] copies. */
  readonly axes?: readonly number[];
  readonly input: Operand;
  /** The kept axes in their order, contiguous. */
  readonly output: Operand;
  readonly dtype?: DType;
}

/** One or more neighbouring axes seen as one: `extent` steps of `stride` input elements. */
export interface Axis {
  readonly extent: number;
  readonly stride: number;
}

/**
 * Axes of extent 1 are dropped and neighbours merged, so that kept and reduced axes alternate in
 * the input, outermost first. Both lists may be empty: that is one output, or a plain copy.
 */
export interface ReduceProblem<Memory> {
  readonly dtype: DType;
  readonly kind: ReduceKind;
  readonly kept: readonly Axis[];
  readonly reduced: readonly Axis[];
  /** Product of the kept extents, at least 1. */
  readonly outputCount: number;
  /** Product of the reduced extents, at least 1. */
  readonly reducedCount: number;
  readonly input: Region<Memory>;
  readonly output: Region<Memory>;
}

const reduceNames: readonly (keyof ReduceArguments)[] = ["kind", "shape", "axes", "input", "output", "dtype"];

export const reduce: Operation<"reduce"> = {
  name: "reduce",
  names: reduceNames,
  operands: ["input", "output"],
  kinds: reduceKinds,

  resolve(args, binder) {
    // Counted first, which costs next to nothing: see checkNames.
    let names = 0;
    if (args.kind !== undefined) names++;
    if (args.shape !== undefined) names++;
    if (args.input !== undefined) names++;
    if (args.output !== undefined) names++;
    if (args.axes !== undefined) names++;
    if (args.dtype !== undefined) names++;
    for (const _ in args) names--;
    if (names !== 0) checkNames("reduce", args, reduceNames);
    const checks = new Checks("reduce");
    const dtype = checks.dtype(args.dtype);
    const kind = checks.oneOf("kind", args.kind, reduceKinds);
    const shape = checks.counts("shape", args.shape);
    const isReduced = reducedAxes(checks, shape.length, args.axes);
    const keptExtents = shape.filter((_, axis) => !isReduced[axis]);
    const reducedExtents = shape.filter((_, axis) => isReduced[axis]);
    const outputCount = checks.product("shape", keptExtents);
    const reducedCount = checks.product("shape", reducedExtents);

    const input = binder.region("input", args.input, checks.product("shape", shape), dtype);
    const output = binder.region("output", args.output, outputCount, dtype);
    checks.disjoint({ argument: "output", region: output }, { argument: "input", region: input });
    if (outputCount === 0) return undefined;
    if (reducedCount === 0) {
      binder.fill(output, reduceIdentity[kind], dtype);
      return undefined;
    }
    const { kept, reduced } = mergeAxes(shape, isReduced);
    return { dtype, kind, kept, reduced, outputCount, reducedCount, input, output };
  },

  flops(problem) {
    return elements(problem.input, problem.dtype);
  },

  bytes(problem) {
    return problem.input.byteLength + problem.output.byteLength;
  },
};

function reducedAxes(checks: Checks, rank: number, axes: readonly number[] | undefined): boolean[] {
  const isReduced = new Array<boolean>(rank).fill(axes === undefined);
  if (axes === undefined) return isReduced;
  if (!Array.isArray(axes)) checks.fail("axes", `is ${describe(axes)}; allowed: a list of axes`);
  for (const [i, given] of axes.entries()) {
    const axis = Number.isSafeInteger(given) && given < 0 ? given + rank : given;
    if (!Number.isSafeInteger(axis) || axis < 0 || axis >= rank)
      checks.fail(`axes[${i}]`, `is ${describe(given)}; allowed: whole numbers from ${-rank} to ${rank - 1}`);
    if (isReduced[axis])
      checks.fail(`axes[${i}]`, `is ${given}, which is listed twice; allowed: each axis once`);
    isReduced[axis] = true;
  }
  return isReduced;
}

function mergeAxes(
  shape: readonly number[],
  isReduced: readonly boolean[],
): { kept: readonly Axis[]; reduced: readonly Axis[] } {
  const lists = { kept: [] as Axis[], reduced: [] as Axis[] };
  let stride = 1;
  let previous: Axis[] | undefined;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const extent = shape[axis]!;
    if (extent === 1) continue;
    const list = isReduced[axis] ? lists.reduced : lists.kept;
    const inner = list === previous ? list.shift() : undefined;
    list.unshift(inner ? { extent: inner.extent * extent, stride: inner.stride } : { extent, stride });
    previous = list;
    stride *= extent;
  }
  return lists;
}
