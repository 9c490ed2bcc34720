import type { FloatType } from "../../dtype.js";
import type { Operand } from "../../handles.js";
import type { Region } from "../../region.js";
import type { NamedRegion } from "../checks.js";
import { type NormalizeKind, normalizeKinds } from "../normalize/index.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /**
   * Along each row, with g = outputGradient * weight: r is the inverse deviation, h the normalized input ("layer": (x - m) r,
   * "rms": x r), and mean() the mean of a row.
   */
  kind: {
    role: "kind",
    kinds: {
      layer: "r (g - mean(g) - h mean(g h))",
      rms: "r (g - h mean(g h))",
    },
  },
  rows: { role: "extent" },
  /** Elements of a row. */
  size: { role: "extent" },
  /** That of normalize. */
  input: { role: "reads", shape: "[rows, size]" },
  /** That of normalize; the same for every row. */
  weight: { role: "reads", shape: "[size]", otherwise: "ones" },
  /** The gradient of the output of normalize. */
  outputGradient: { role: "reads", shape: "[rows, size]" },
  /** m of each row, in f32 whatever `dtype` is, as normalize stores it. Only with "layer", and together with `inverseDeviation`. */
  mean: { role: "reads", shape: "[rows]", otherwise: "computed from the input" },
  /** r of each row, in f32 whatever `dtype` is, as normalize stores it. */
  inverseDeviation: { role: "reads", shape: "[rows]", otherwise: "computed from the input" },
  /** That of normalize: at least 0; rounded to f32. Used if the statistics are computed. */
  epsilon: { role: "factor", default: 1e-5 },
  /** May be exactly `outputGradient` or `input`. Needed unless one of the sums is there. */
  inputGradient: { role: "writes", shape: "[rows, size]", otherwise: "not computed" },
  /** The sum over all rows of outputGradient * h. */
  weightGradient: { role: "updates", shape: "[size]", otherwise: "not computed" },
  /** The sum over all rows of outputGradient. */
  biasGradient: { role: "updates", shape: "[size]", otherwise: "not computed" },
  /** Adds the sums to what `weightGradient` and `biasGradient` hold. If it is false, these are not read. */
  accumulate: { role: "flag", default: false },
  /** Of all operands but the statistics. */
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/**
 * The gradients of layer or RMS normalization, of which at least one must be wanted: inputGradient = kind(input,
 * outputGradient) for each row, and the gradients of weight and bias. All operands are contiguous. The kinds are those of
 * `normalize`, whose bias has a gradient with either.
 *
 * Everything is computed in f32 or better, and f16 results are rounded once. Sums over rows are made in an order that
 * depends on the shape alone, so that they have the same bits every time. With no rows, the sums are 0.
 *
 * A row without deviations has no gradient if epsilon is 0.
 */
export interface NormalizeGradientArguments extends ArgumentsOf<typeof table> {}

/**
 * `size` is at least 1, and at least one of the gradients is there. `rows` may be 0: there are sums then, no input
 * gradient, and nothing to accumulate. The input gradient is exactly one of the two inputs of its shape, or both, or
 * apart from them; outputs overlap nothing else. For `layer`, both statistics are there or neither.
 */
export interface NormalizeGradientProblem<Memory> {
  readonly dtype: FloatType;
  readonly kind: NormalizeKind;
  readonly rows: number;
  readonly size: number;
  readonly epsilon: number;
  readonly accumulate: boolean;
  readonly input: Region<Memory>;
  readonly weight: Region<Memory> | undefined;
  readonly outputGradient: Region<Memory>;
  /** In f32. Undefined for `rms`. */
  readonly mean: Region<Memory> | undefined;
  /** In f32. */
  readonly inverseDeviation: Region<Memory> | undefined;
  readonly inputGradient: Region<Memory> | undefined;
  readonly weightGradient: Region<Memory> | undefined;
  readonly biasGradient: Region<Memory> | undefined;
}

/** Per element: of the sums and differences of the formula, of statistics, and of each sum over rows. */
const flopsPerElement: Readonly<
  Record<NormalizeKind, { readonly input: number; readonly statistics: number }>
> = { layer: { input: 9, statistics: 4 }, rms: { input: 7, statistics: 2 } };

export const normalizeGradient: Operation<
  NormalizeGradientArguments,
  NormalizeGradientProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "normalizeGradient",
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
    const accumulate = read.flag("accumulate", args.accumulate, table.accumulate.default);
    if (args.mean !== undefined && kind !== "layer")
      read.fail("mean", `is given for ${kind}; allowed: only with layer`);

    const count = read.product("size", [rows, size]);
    const factors = rows === 0 ? 0 : size;
    const input = read.region(binder, "input", args.input, count, dtype);
    const weight = read.optionalRegion(binder, "weight", args.weight, factors, dtype);
    const outputGradient = read.region(binder, "outputGradient", args.outputGradient, count, dtype);
    const mean = read.optionalRegion(binder, "mean", args.mean, rows, "f32");
    const inverseDeviation = read.optionalRegion(
      binder,
      "inverseDeviation",
      args.inverseDeviation,
      rows,
      "f32",
    );
    // Without sums there must be a gradient of the input; whatever stands in its place is refused as no handle.
    const inputGradient =
      args.weightGradient === undefined && args.biasGradient === undefined
        ? read.region(binder, "inputGradient", args.inputGradient as Operand, count, dtype)
        : read.optionalRegion(binder, "inputGradient", args.inputGradient, count, dtype);
    const weightGradient = read.optionalRegion(binder, "weightGradient", args.weightGradient, size, dtype);
    const biasGradient = read.optionalRegion(binder, "biasGradient", args.biasGradient, size, dtype);
    if (kind === "layer" && (mean === undefined) !== (inverseDeviation === undefined))
      read.fail(
        mean === undefined ? "mean" : "inverseDeviation",
        "is missing; allowed: both statistics of layer, or neither",
      );
    const sums = weightGradient ?? biasGradient;

    const data = [
      { argument: "input", region: input },
      { argument: "outputGradient", region: outputGradient },
    ];
    const others: NamedRegion<unknown>[] = [];
    if (weight !== undefined) others.push({ argument: "weight", region: weight });
    if (mean !== undefined) others.push({ argument: "mean", region: mean });
    if (inverseDeviation !== undefined)
      others.push({ argument: "inverseDeviation", region: inverseDeviation });
    if (inputGradient !== undefined) {
      const result = { argument: "inputGradient", region: inputGradient };
      for (const one of data) read.disjointOrSame(result, one);
      for (const other of others) read.disjoint(result, other);
      others.push(result);
    }
    others.push(...data);
    if (weightGradient !== undefined) {
      const result = { argument: "weightGradient", region: weightGradient };
      for (const other of others) read.disjoint(result, other);
      others.push(result);
    }
    if (biasGradient !== undefined)
      for (const other of others) read.disjoint({ argument: "biasGradient", region: biasGradient }, other);

    if (size === 0 || (rows === 0 && (accumulate || sums === undefined))) return undefined;
    return {
      dtype,
      kind,
      rows,
      size,
      epsilon,
      accumulate,
      input,
      weight,
      outputGradient,
      mean,
      inverseDeviation,
      inputGradient: rows === 0 ? undefined : inputGradient,
      weightGradient,
      biasGradient,
    };
  },

  flops({ kind, rows, size, weight, inverseDeviation, inputGradient, weightGradient, biasGradient }) {
    const { input, statistics } = flopsPerElement[kind];
    let each = 0;
    if (inputGradient !== undefined) each += input + (weight === undefined ? 0 : 1);
    if (weightGradient !== undefined) each += 4;
    if (biasGradient !== undefined) each += 1;
    if (inverseDeviation === undefined) each += statistics;
    return each * rows * size;
  },

  /** Sums that are not accumulated are only written, and that of the bias needs the output's gradient alone. */
  bytes(problem) {
    const { inputGradient, weightGradient, biasGradient } = problem;
    const times = problem.accumulate ? 2 : 1;
    let bytes = problem.outputGradient.byteLength + times * (biasGradient?.byteLength ?? 0);
    if (inputGradient === undefined && weightGradient === undefined) return bytes;
    for (const region of [problem.input, problem.mean, problem.inverseDeviation, inputGradient])
      bytes += region?.byteLength ?? 0;
    if (inputGradient !== undefined) bytes += problem.weight?.byteLength ?? 0;
    return bytes + times * (weightGradient?.byteLength ?? 0);
  },
});
