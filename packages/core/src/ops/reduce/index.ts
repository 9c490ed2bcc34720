import { type DType, elementTypes, type FloatType, type IntegerType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { type Checks, elements } from "../checks.js";
import { defineOperation, Fill, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  kind: {
    role: "kind",
    kinds: {
      sum: "sum of x",
      mean: "sum of x / count",
      max: "the largest x",
      min: "the smallest x",
      prod: "product of x",
      logSumExp: "ln(sum of e^x), which does not overflow on the way",
      any: "whether any x is true (u8): 1 or 0",
      all: "whether every x is true (u8): 1 or 0",
    },
  },
  /** Shape of the input, which is contiguous; any rank. [] is one element. */
  shape: { role: "extents" },
  /** Axes to reduce over, each once; negative ones count from the last. [] takes each element alone. */
  axes: { role: "axes", otherwise: "all" },
  input: { role: "reads", shape: "shape" },
  /** The kept axes in their order, contiguous. */
  output: { role: "writes", shape: "the kept axes of shape" },
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32", "u8"], default: "f32" },
} as const;

/**
 * output[kept indices] = kind over the reduced indices of input[all indices].
 *
 * Over an empty axis: sum 0, prod 1, mean NaN, max and logSumExp -Infinity, min +Infinity. Integers wrap around,
 * and their max and min over an empty axis are the least and the largest of the type. mean and logSumExp are of
 * floats.
 *
 * any and all are of truth values (u8): 0 is false and anything else true, and results are 0 or 1. Over an empty
 * axis any is 0 and all is 1.
 */
export interface ReduceArguments extends ArgumentsOf<typeof table> {}

export type ReduceKind = ReduceArguments["kind"];

export const reduceKinds: readonly ReduceKind[] = Object.keys(table.kind.kinds) as ReduceKind[];

/** The kinds that are of truth values (u8), and have no other type. */
export type TruthReduceKind = (typeof truthReduceKinds)[number];

export const truthReduceKinds = ["any", "all"] as const;

/** The kinds that are of numbers. */
export type NumberReduceKind = Exclude<ReduceKind, TruthReduceKind>;

export const numberReduceKinds: readonly NumberReduceKind[] = reduceKinds.filter(
  (kind): kind is NumberReduceKind => !isTruthReduction(kind),
);

export function isTruthReduction(kind: ReduceKind): kind is TruthReduceKind {
  return (truthReduceKinds as readonly ReduceKind[]).includes(kind);
}

/** The result of a reduction over no elements of a float type, or of truth values. */
export const reduceIdentity: Readonly<Record<ReduceKind, number>> = {
  sum: 0,
  mean: Number.NaN,
  max: Number.NEGATIVE_INFINITY,
  min: Number.POSITIVE_INFINITY,
  prod: 1,
  logSumExp: Number.NEGATIVE_INFINITY,
  any: 0,
  all: 1,
};

/** The result of a reduction over no elements. Integers have neither mean nor logSumExp of nothing; they are 0. */
export function identityOf(kind: ReduceKind, dtype: DType): number {
  const { range } = elementTypes[dtype];
  if (range === undefined) return reduceIdentity[kind];
  const [least, largest] = range;
  return { ...reduceIdentity, mean: 0, logSumExp: 0, max: least, min: largest }[kind];
}

/** Element types of reductions; u8 is that of truth values. */
export type ReducedType = FloatType | IntegerType | "u8";

/** One or more neighbouring axes merged into one: `extent` steps of `stride` input elements. */
export interface Axis {
  readonly extent: number;
  readonly stride: number;
}

/**
 * Axes of extent 1 are dropped and neighbours merged, so that kept and reduced axes alternate in the input,
 * outermost first. Both lists may be empty, for a single output or a plain copy.
 */
export interface ReduceProblem<Memory, Type extends DType = ReducedType> {
  readonly dtype: Type;
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

export const reduce: Operation<ReduceArguments, ReduceProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "reduce",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, reduceKinds);
    const shape = read.extents("shape", args.shape);
    const isReduced = reducedAxes(read, shape.length, read.axes("axes", args.axes));
    const keptExtents: number[] = [];
    const reducedExtents: number[] = [];
    for (let axis = 0; axis < shape.length; axis++)
      (isReduced[axis] ? reducedExtents : keptExtents).push(shape[axis]!);
    const outputCount = read.product("shape", keptExtents);
    const reducedCount = read.product("shape", reducedExtents);

    const input = read.region(binder, "input", args.input, read.product("shape", shape), dtype);
    const output = read.region(binder, "output", args.output, outputCount, dtype);
    read.disjoint({ argument: "output", region: output }, { argument: "input", region: input });
    if (outputCount === 0) return undefined;
    if (reducedCount === 0) return new Fill(output, identityOf(kind, dtype), dtype);
    const { kept, reduced } = mergeAxes(shape, isReduced);
    return { dtype, kind, kept, reduced, outputCount, reducedCount, input, output };
  },

  flops: (problem) => elements(problem.input, problem.dtype),
});

function reducedAxes(checks: Checks, rank: number, axes: readonly number[] | undefined): boolean[] {
  const isReduced = new Array<boolean>(rank).fill(axes === undefined);
  if (axes === undefined) return isReduced;
  for (let i = 0; i < axes.length; i++) {
    const given = axes[i]!;
    const axis = checks.place("axes", given, rank, i);
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
  // From the last axis on; the lists are turned around at the end.
  const kept: Axis[] = [];
  const reduced: Axis[] = [];
  let stride = 1;
  let previous: Axis[] | undefined;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const extent = shape[axis]!;
    if (extent === 1) continue;
    const list = isReduced[axis] ? reduced : kept;
    if (list === previous) {
      const inner = list.pop()!;
      list.push({ extent: inner.extent * extent, stride: inner.stride });
    } else list.push({ extent, stride });
    previous = list;
    stride *= extent;
  }
  return { kept: kept.reverse(), reduced: reduced.reverse() };
}
