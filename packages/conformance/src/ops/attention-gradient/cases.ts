import type { ComputeBackend, FloatType, GradientRows, Rows } from "@backplane/core";
import { draw, roundTo } from "../../data.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import type { Tolerance } from "../../tolerance.js";
import { executeAll, measure } from "../../workspace.js";
import { type AttentionCase, operandsOf as attentionOperands, shapeOf } from "../attention/cases.js";
import { type AttentionShape, attention, logSumExp } from "../attention/formula.js";
import { maskArguments, placedMask } from "../attention/masks.js";
import { type Arrangement, arranged, placesOf, scattered } from "../attention/rows.js";
import { attentionGradient, type GradientInputs, type Gradients, isOfKeys } from "./formula.js";
import { gradientTolerance } from "./tolerance.js";

const inputNames = ["q", "k", "v", "out", "outGradient"] as const;
export const outputNames = ["qGradient", "kGradient", "vGradient"] as const;

/** Inputs of a gradient: out and logSumExp are those of the formula of attention, as they are stored. */
export function operandsOf(
  value: AttentionCase,
  dtype: FloatType,
  shape: AttentionShape = shapeOf(value),
): GradientInputs {
  return withResults(value, dtype, shape, attentionOperands(value, dtype));
}

/** The same for other q, k and v. */
export function withResults(
  value: AttentionCase,
  dtype: FloatType,
  shape: AttentionShape,
  { q, k, v }: Pick<GradientInputs, "q" | "k" | "v">,
): GradientInputs {
  const out = new Float64Array(q.length);
  attention(shape, q, k, v, (index, x) => {
    out[index] = roundTo(dtype, x);
  });
  const logs = new Float64Array(shape.batch * shape.heads * shape.queryLength);
  logSumExp(shape, q, k, (index, x) => {
    logs[index] = Math.fround(x);
  });
  return { q, k, v, out, logSumExp: logs, outGradient: draw("normal", q.length, value.seed + 3, dtype) };
}

/** Whether rows lie as a case says, and those of results as these do. */
export interface Placing {
  readonly inputs: Readonly<Record<"queries" | "keys", Arrangement>>;
  readonly outputs: Arrangement;
}

/** Runs a case, and returns the elements of its gradients; everything around them must stay as it is. */
export async function run(
  { backend }: { readonly backend: ComputeBackend },
  dtype: FloatType,
  value: AttentionCase,
  inputs: GradientInputs,
  placing: Placing = {
    inputs: { queries: value.queryRows, keys: value.keyRows },
    outputs: value.queryRows,
  },
): Promise<Readonly<Record<keyof Gradients, Float64Array>>> {
  const { batch, kvHeads, group, queryLength, keyLength, headSize } = value;
  const heads = kvHeads * group;
  const extents = { queries: [batch, heads, queryLength], keys: [batch, kvHeads, keyLength] } as const;
  const side = (name: GradientRows) => (isOfKeys(name) ? "keys" : "queries");
  const rowsOf = (name: GradientRows, isOutput: boolean): Rows =>
    arranged(isOutput ? placing.outputs : placing.inputs[side(name)], extents[side(name)], headSize);
  const mask =
    value.mask === null ? undefined : placedMask(value.mask, [batch, heads, queryLength, keyLength]);
  const rows = Object.fromEntries([
    ...inputNames.map((name) => [name, rowsOf(name, false)]),
    ...outputNames.map((name) => [name, rowsOf(name, true)]),
  ]) as Record<GradientRows, Rows>;
  const places = Object.fromEntries(outputNames.map((name) => [name, placesOf(rows[name])]));
  const poison = (name: GradientRows) =>
    scattered(new Float64Array(places[name]!.length).fill(Number.NaN), rows[name]);
  const operands: Record<string, Float64Array> = {
    ...Object.fromEntries(inputNames.map((name) => [name, scattered(inputs[name], rows[name])])),
    logSumExp: inputs.logSumExp,
    ...Object.fromEntries(outputNames.map((name) => [name, poison(name)])),
    ...(mask === undefined ? {} : { mask: mask.stored }),
  };
  const isApart = (name: GradientRows, isOutput: boolean) =>
    (isOutput ? placing.outputs : placing.inputs[side(name)]) !== "contiguous";
  const strides = Object.fromEntries(
    [...inputNames, ...outputNames]
      .filter((name) => isApart(name, name.endsWith("Gradient") && name !== "outGradient"))
      .map((name) => [`${name}Strides`, rows[name].strides]),
  );
  const got = await executeAll<string>({
    ...{ backend, dtype, placement: value.placement, operands, written: places },
    dtypes: { logSumExp: "f32", ...(value.mask === null ? {} : { mask: value.mask.dtype }) },
    call: (slices) =>
      backend.attentionGradient({
        ...(slices as Readonly<Record<GradientRows | "logSumExp", never>>),
        ...{ batch, heads, queryLength, keyLength, headSize },
        ...(kvHeads === heads ? {} : { kvHeads }),
        ...(value.scale === null ? {} : { scale: value.scale }),
        ...(value.causal === false ? {} : { causal: value.causal }),
        ...(value.window === null ? {} : { window: value.window }),
        ...maskArguments(value.mask, mask?.strides, dtype),
        ...strides,
        ...given(dtype),
      }),
  });
  const elements = (name: keyof Gradients) => Float64Array.from(places[name]!, (at) => got[name]![at]!);
  return {
    qGradient: elements("qGradient"),
    kGradient: elements("kGradient"),
    vGradient: elements("vGradient"),
  };
}

/** Compares gradients with others, element by element. */
export function compare(
  context: LawContext,
  value: AttentionCase,
  got: Readonly<Record<keyof Gradients, Float64Array>>,
  expected: Gradients,
  tolerance: Tolerance,
): void {
  for (const name of outputNames) {
    const { values, errors } = expected[name];
    const elements = { places: [...values.keys()], values: [...values], magnitudes: [...errors] };
    try {
      const { queryLength, keyLength, headSize } = value;
      measure(context, [queryLength, keyLength, headSize], got[name], elements, tolerance);
    } catch (error) {
      if (error instanceof Error) error.message = `${name}: ${error.message}`;
      throw error;
    }
  }
}

export async function check(
  context: LawContext,
  dtype: FloatType,
  value: AttentionCase,
  inputs: GradientInputs = operandsOf(value, dtype),
  tolerance: Tolerance = gradientTolerance(dtype, context.numerics),
): Promise<void> {
  const expected = attentionGradient(shapeOf(value), inputs);
  compare(context, value, await run(context, dtype, value, inputs), expected, tolerance);
}
