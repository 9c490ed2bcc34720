import { type AttentionGradientProblem, type GradientRows, gradientRows } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { type AttentionShape, forEachRow } from "../attention/formula.js";
import { gathered, placesOf } from "../attention/rows.js";
import { type Evaluate, emitting } from "../operation.js";
import { errorOfProbability, gradientTolerance, sumError } from "./tolerance.js";

export interface GradientInputs {
  readonly q: Float64Array;
  readonly k: Float64Array;
  readonly v: Float64Array;
  readonly out: Float64Array;
  readonly logSumExp: Float64Array;
  readonly outGradient: Float64Array;
}

/** A gradient, and how far each element may be off before it is stored. */
export interface Gradient {
  readonly values: Float64Array;
  readonly errors: Float64Array;
}

export type Gradients = Readonly<Record<"qGradient" | "kGradient" | "vGradient", Gradient>>;

const zeros = (count: number): Gradient => ({
  values: new Float64Array(count),
  errors: new Float64Array(count),
});

/** Finds the gradients as the operation defines them, from contiguous operands, with errors as `tolerance.ts` derives them. */
export function attentionGradient(shape: AttentionShape, inputs: GradientInputs): Gradients {
  const { q, k, v, out, logSumExp, outGradient } = inputs;
  const { heads, kvHeads, queryLength, headSize, scale } = shape;
  const gradients = { qGradient: zeros(q.length), kGradient: zeros(k.length), vGradient: zeros(v.length) };
  const ofKeys = sumError((heads / Math.max(kvHeads, 1)) * queryLength);
  const add = ({ values, errors }: Gradient, place: number, term: number, error: number) => {
    values[place]! += term;
    errors[place]! += error;
  };
  forEachRow(shape, q, k, (row, index, keysAt) => {
    const at = index * headSize;
    const ofQueries = sumError(row.keys.length);
    let [delta, deltaSize] = [0, 0];
    for (let d = 0; d < headSize; d++) {
      const term = outGradient[at + d]! * out[at + d]!;
      delta += term;
      deltaSize += Math.abs(term);
    }
    for (const [n, j] of row.keys.entries()) {
      const key = keysAt + j * headSize;
      const x = row.distances[n]! + (row.largest - logSumExp[index]!);
      const p = Math.exp(x);
      const ofP = errorOfProbability(row, n, x, logSumExp[index]!);
      let [change, size] = [-delta, deltaSize];
      for (let d = 0; d < headSize; d++) {
        const term = outGradient[at + d]! * v[key + d]!;
        change += term;
        size += Math.abs(term);
      }
      const s = p * change;
      const ofChange = sumError(headSize) * size;
      const ofS = ofP * (Math.abs(change) + ofChange) + p * ofChange + sumError(0) * Math.abs(s) + 2 ** -126;
      for (let d = 0; d < headSize; d++) {
        const [factorQ, factorK] = [scale * q[at + d]!, scale * k[key + d]!];
        const size = Math.abs(outGradient[at + d]!);
        add(gradients.vGradient, key + d, p * outGradient[at + d]!, (ofP + (p + ofP) * ofKeys) * size);
        const errorOf = (sums: number) => ofS + (Math.abs(s) + ofS) * sums;
        add(gradients.kGradient, key + d, s * factorQ, errorOf(ofKeys) * Math.abs(factorQ));
        add(gradients.qGradient, at + d, s * factorK, errorOf(ofQueries) * Math.abs(factorK));
      }
    }
  });
  return gradients;
}

export const evaluate: Evaluate<AttentionGradientProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, rows = {} } = problem;
  const read = (name: GradientRows) => {
    const values = memory.read(problem[name], dtype);
    const own = rows[name];
    return own === undefined ? values : gathered(values, own);
  };
  const inputs = {
    ...{ q: read("q"), k: read("k"), v: read("v"), out: read("out"), outGradient: read("outGradient") },
    logSumExp: memory.read(problem.logSumExp, "f32"),
  };
  const mask = problem.mask && {
    isBoolean: problem.mask.dtype === "u8",
    values: memory.read(problem.mask.region, problem.mask.dtype),
    strides: problem.mask.strides,
  };
  const tolerance = numerics && gradientTolerance(dtype, numerics);
  const gradients = attentionGradient({ ...problem, mask }, inputs);
  for (const name of Object.keys(gradients) as (keyof Gradients)[]) {
    const { values, errors } = gradients[name];
    // Without keys, or without queries, some gradients have no elements, and perhaps no memory.
    if (values.length === 0) continue;
    const own = rows[name];
    const places = own && placesOf(own);
    const emit = emitting(memory.write(problem[name], dtype), tolerance);
    for (const [i, value] of values.entries()) emit(places?.[i] ?? i, value, errors[i]!);
  }
};

/** The operands on the side of the queries, or of the keys. */
export const isOfKeys = (name: GradientRows): boolean => gradientRows[name] === "keys";
