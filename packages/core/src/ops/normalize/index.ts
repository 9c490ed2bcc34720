import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /** Along each row: m is the mean of x, v the mean of (x - m)^2, and q the mean of x^2. */
  kind: {
    role: "kind",
    kinds: {
      layer: "(x - m) / sqrt(v + epsilon) * weight + bias",
      rms: "x / sqrt(q + epsilon) * weight + bias",
    },
  },
  rows: { role: "extent" },
  /** Elements of a row. */
  size: { role: "extent" },
  input: { role: "reads", shape: "[rows, size]" },
  /** May be exactly `input`. */
  output: { role: "writes", shape: "[rows, size]" },
  /** The same for every row. */
  weight: { role: "reads", shape: "[size]", otherwise: "ones" },
  /** The same for every row. */
  bias: { role: "reads", shape: "[size]", otherwise: "zeros" },
  /** At least 0; rounded to f32. */
  epsilon: { role: "factor", default: 1e-5 },
  /** m of each row, in f32 whatever `dtype` is. Only with "layer". */
  mean: { role: "writes", shape: "[rows]", otherwise: "not stored" },
  /** 1 / sqrt(v + epsilon) of each row, with q instead of v for "rms"; in f32 whatever `dtype` is. */
  inverseDeviation: { role: "writes", shape: "[rows]", otherwise: "not stored" },
  /** Of input, output, weight and bias. */
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/**
 * Layer or RMS normalization: output = kind(input) for each row. All operands are contiguous.
 *
 * Statistics are computed in f32 or better, and f16 results are rounded once. A mean far from 0 costs no more than
 * its own rounding to f32. With "layer", a row of equal elements gives exactly its bias. With epsilon 0, a power of
 * two times the input gives the same bits.
 *
 * A NaN makes its row NaN; so does an infinity with "layer". With epsilon 0 there is no result for a row of equal
 * elements ("rms": of zeros). Squares must not overflow f32. A row without elements has no statistics: storing them
 * is an error then.
 */
export interface NormalizeArguments extends ArgumentsOf<typeof table> {}

export type NormalizeKind = NormalizeArguments["kind"];

export const normalizeKinds: readonly NormalizeKind[] = Object.keys(table.kind.kinds) as NormalizeKind[];

/** Both extents are at least 1. The output is exactly the input or apart from it; outputs overlap nothing else. */
export interface NormalizeProblem<Memory> {
  readonly dtype: FloatType;
  readonly kind: NormalizeKind;
  readonly rows: number;
  readonly size: number;
  readonly epsilon: number;
  readonly input: Region<Memory>;
  readonly weight: Region<Memory> | undefined;
  readonly bias: Region<Memory> | undefined;
  readonly output: Region<Memory>;
  /** In f32. Undefined for `rms`. */
  readonly mean: Region<Memory> | undefined;
  readonly inverseDeviation: Region<Memory> | undefined;
}

/** Per element, of the sums and differences of the formula; weight and bias take one more each. */
const flopsPerElement: Readonly<Record<NormalizeKind, number>> = { layer: 5, rms: 3 };

export const normalize: Operation<
  NormalizeArguments,
  NormalizeProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "normalize",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, normalizeKinds);
    const rows = read.extent("rows", args.rows);
    const size = read.extent("size", args.size);
    const epsilon = read.factor("epsilon", args.epsilon, table.epsilon.default);
    if (epsilon < 0) read.fail("epsilon", `is ${epsilon}; allowed: a number of at least 0`);
    if (args.mean !== undefined && kind !== "layer")
      read.fail("mean", `is given for ${kind}; allowed: only with layer`);
    const count = read.product("size", [rows, size]);
    const input = read.region(binder, "input", args.input, count, dtype);
    const weight = read.optionalRegion(binder, "weight", args.weight, rows === 0 ? 0 : size, dtype);
    const bias = read.optionalRegion(binder, "bias", args.bias, rows === 0 ? 0 : size, dtype);
    const output = read.region(binder, "output", args.output, count, dtype);
    const mean = read.optionalRegion(binder, "mean", args.mean, rows, "f32");
    const inverseDeviation = read.optionalRegion(
      binder,
      "inverseDeviation",
      args.inverseDeviation,
      rows,
      "f32",
    );
    if (size === 0 && rows > 0 && (mean ?? inverseDeviation) !== undefined)
      read.fail("size", "is 0, and such rows have no statistics; allowed: at least 1 if these are stored");

    const result = { argument: "output", region: output };
    const source = { argument: "input", region: input };
    read.disjointOrSame(result, source);
    const others = [result, source];
    if (weight !== undefined) others.push({ argument: "weight", region: weight });
    if (bias !== undefined) others.push({ argument: "bias", region: bias });
    for (let i = 2; i < others.length; i++) read.disjoint(result, others[i]!);
    if (mean !== undefined) {
      const statistic = { argument: "mean", region: mean };
      for (const other of others) read.disjoint(statistic, other);
      others.push(statistic);
    }
    if (inverseDeviation !== undefined)
      for (const other of others)
        read.disjoint({ argument: "inverseDeviation", region: inverseDeviation }, other);

    if (count === 0) return undefined;
    return { dtype, kind, rows, size, epsilon, input, weight, bias, output, mean, inverseDeviation };
  },

  flops({ kind, rows, size, weight, bias }) {
    const optional = (weight === undefined ? 0 : 1) + (bias === undefined ? 0 : 1);
    return rows * size * (flopsPerElement[kind] + optional);
  },
});
