import type { AttentionProblem, FloatType, MaskAxes, MaskType, Rows } from "@backplane/core";
import type { DeviceFeatures } from "#src/device/features.js";
import { attentionShape } from "#src/kernels/attention/attention.js";
import { attention, attentionVariants } from "#src/kernels/attention/index.js";
import type { KernelContext } from "#src/runtime/context.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { type Expected, epsilon, finalRounding, gamma, type ProductDevice, signed } from "./products.js";

export interface Case {
  readonly batch?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly queryLength: number;
  readonly keyLength: number;
  readonly headSize: number;
  readonly scale?: number;
  /** Query i sees the keys j <= i + visible. Default: all. */
  readonly visible?: number;
  /** It sees no key before i + oldest. Default: there is no such limit. */
  readonly oldest?: number;
  /** Its elements; -Infinity, or 0 of u8, hides keys, among others the first ones and all of some queries. */
  readonly mask?: MaskType | undefined;
  /** Whether the logarithms of the sums are stored. */
  readonly logs?: boolean;
  readonly dtype?: FloatType;
  /** Elements in front of every operand. */
  readonly offset?: number;
  /** Rows in the order [batch, row, head], with room for another head: of all operands, or of an aligned output alone. */
  readonly apart?: boolean | "out";
  /** Largest magnitude in q and k. */
  readonly amplitude?: number;
  /** Elements by their index, of operands that are not random. */
  readonly data?: Partial<Readonly<Record<"q" | "k" | "v", (index: number) => number>>>;
}

export type Operands = Readonly<Record<"q" | "k" | "v", Float32Array>>;
export type Sizes = Required<Omit<Case, "amplitude" | "oldest" | "mask" | "logs" | "apart" | "data">> &
  Pick<Case, "oldest" | "mask">;

/** Rows in the order [batch, row, head], with room for another head. */
function besides(extents: Rows["extents"], size: number): Rows {
  const [, heads, rows] = extents;
  const pitch = (heads + 1) * size;
  return { extents, size, strides: [rows * pitch, size, pitch] };
}

/** The place of a contiguous element among such rows. */
function placeIn({ extents: [, heads, rows], size, strides }: Rows, index: number): number {
  const row = Math.floor(index / size);
  const head = Math.floor(row / rows);
  const [b, h, r] = [Math.floor(head / heads), head % heads, row % rows];
  return b * strides[0] + h * strides[1] + r * strides[2] + (index % size);
}

function spread(values: Float32Array, rows: Rows): Float32Array {
  const [batch] = rows.extents;
  const apart = new Float32Array(batch * rows.strides[0]).fill(Number.NaN);
  for (const [index, value] of values.entries()) apart[placeIn(rows, index)] = value;
  return apart;
}

/** Strides of a mask that is the same for all heads of a batch. */
function maskStrides({ batch, queryLength, keyLength }: Sizes): MaskAxes {
  return [batch > 1 ? queryLength * keyLength : 0, 0, queryLength > 1 ? keyLength : 0, keyLength > 1 ? 1 : 0];
}

function maskElements({ mask, batch, queryLength, keyLength }: Sizes): Float32Array {
  const hidden = mask === "u8" ? 0 : Number.NEGATIVE_INFINITY;
  return Float32Array.from({ length: batch * queryLength * keyLength }, (_, at) => {
    const [row, key] = [Math.floor(at / keyLength), at % keyLength];
    if (row % 7 === 3 || (row % 3 === 0 && key < Math.min(40, keyLength - 1)) || (row + 3 * key) % 5 === 0)
      return hidden;
    return mask === "u8" ? 1 + (at % 255) : ((at * 7) % 16) / 8 - 1;
  });
}

/** The formula, in f64, and in `logs` the logarithms of its sums, with a bound on the error that follows from those of scores, exponentials and sums. */
function* reference(shape: Sizes, { q, k, v }: Operands, logs: Expected[] = []): Generator<Expected> {
  const { batch, heads, kvHeads, queryLength, keyLength, headSize, scale, visible, dtype } = shape;
  const { oldest = Number.NEGATIVE_INFINITY } = shape;
  const strides = maskStrides(shape);
  const elements = shape.mask === undefined ? [] : maskElements(shape);
  for (let row = 0; row < batch * heads * queryLength; row++) {
    const head = Math.floor(row / queryLength);
    const keyHead = Math.floor(head / heads) * kvHeads + Math.floor((head % heads) / (heads / kvHeads));
    const seen = Math.min(keyLength, Math.max(0, (row % queryLength) + visible + 1));
    const scores = new Float64Array(seen);
    const magnitudes = new Float64Array(seen);
    for (let j = 0; j < seen; j++) {
      const place = Math.floor(row / queryLength / heads) * strides[0] + (row % queryLength) * strides[2] + j;
      const isHidden = (shape.mask === "u8" && elements[place] === 0) || j < (row % queryLength) + oldest;
      const added = isHidden ? Number.NEGATIVE_INFINITY : shape.mask === "u8" ? 0 : (elements[place] ?? 0);
      scores[j]! += added;
      if (added === Number.NEGATIVE_INFINITY) continue;
      magnitudes[j]! += Math.abs(added);
      for (let d = 0; d < headSize; d++) {
        const term = scale * q[row * headSize + d]! * k[(keyHead * keyLength + j) * headSize + d]!;
        scores[j]! += term;
        magnitudes[j]! += Math.abs(term);
      }
    }
    const highest = scores.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
    // Hidden keys have weight 0, also where there are no others.
    const below = scores.map((score) => (score === Number.NEGATIVE_INFINITY ? score : score - highest));
    const total = below.reduce((sum, x) => sum + Math.exp(x), 0);
    const weights = below.map((x) => (total === 0 ? 0 : Math.exp(x) / total));
    const scoreError = below.reduce(
      (worst, x, j) =>
        x === Number.NEGATIVE_INFINITY
          ? worst
          : Math.max(worst, gamma(headSize + 4) * magnitudes[j]! + epsilon * Math.abs(x)),
      0,
    );
    const exponentials = below.map((x) => (x < -1e4 ? 0 : (3 + 2 * Math.abs(x)) * epsilon));
    const weightError = weights.reduce((sum, weight, j) => sum + weight * exponentials[j]!, 0);
    // The sum of a kernel may be relative to another score than the highest, up to 2^16 times heavier or lighter.
    const log = highest + Math.log(total);
    const ofSum = scoreError + 2 * (weightError + 2 * gamma(keyLength));
    logs.push({
      ...{ index: row, value: total === 0 ? Number.NEGATIVE_INFINITY : log },
      tolerance: total === 0 ? 0 : ofSum + (8 + 3 * (Math.abs(highest) + Math.abs(log) + 16)) * epsilon,
    });
    for (let d = 0; d < headSize; d++) {
      let value = 0;
      let magnitude = 0;
      let tolerance = 0;
      for (let j = 0; j < seen; j++) {
        const term = weights[j]! * v[(keyHead * keyLength + j) * headSize + d]!;
        const relative = Math.expm1(2 * scoreError) + exponentials[j]! + 4 * epsilon + 2 * gamma(keyLength);
        value += term;
        magnitude += Math.abs(term);
        tolerance += Math.abs(term) * relative;
      }
      tolerance += weightError * magnitude + finalRounding(dtype, value);
      yield { index: row * headSize + d, value, tolerance };
    }
  }
}

export type Run = (context: KernelContext, problem: AttentionProblem<DeviceMemory>) => void;

/** Answers false, and does nothing, where the forced variant does not fit: others would run in its place. */
export async function check(
  device: ProductDevice,
  shape: Case,
  forced?: string,
  features?: (real: DeviceFeatures) => DeviceFeatures,
  run: Run = (context, problem) => attention.run(context, problem, forced),
): Promise<boolean> {
  const { batch = 1, heads = 1, kvHeads = heads, queryLength, keyLength, headSize } = shape;
  const { visible = keyLength, dtype = "f32", offset = 0, amplitude = 1 } = shape;
  const scale = Math.fround(shape.scale ?? 1 / Math.sqrt(headSize));
  const queries = batch * heads * queryLength * headSize;
  const keys = batch * kvHeads * keyLength * headSize;
  const own = (name: "q" | "k" | "v", random: Float32Array) => {
    const element = shape.data?.[name];
    return element === undefined ? random : random.map((_, index) => element(index));
  };
  const operands = {
    q: own("q", signed(queries, dtype, 1, amplitude)),
    k: own("k", signed(keys, dtype, 2, amplitude)),
    v: own("v", signed(keys, dtype, 3)),
  };
  const hides = {
    ...(shape.oldest === undefined ? {} : { oldest: shape.oldest }),
    ...(shape.mask === undefined ? {} : { mask: shape.mask }),
  };
  const ofQueries = besides([batch, heads, queryLength], headSize);
  const ofKeys = besides([batch, kvHeads, keyLength], headSize);
  const areApart = shape.apart === true;
  const isOutApart = areApart || shape.apart === "out";
  const place = (values: Float32Array, rows: Rows) =>
    device.place(areApart ? spread(values, rows) : values, dtype, offset);
  const nothing = new Float32Array(queries).fill(Number.NaN);
  const regions = {
    q: place(operands.q, ofQueries),
    k: place(operands.k, ofKeys),
    v: place(operands.v, ofKeys),
    out: shape.apart === "out" ? device.place(spread(nothing, ofQueries), dtype) : place(nothing, ofQueries),
  };
  const rows = {
    ...(areApart ? { q: ofQueries, k: ofKeys, v: ofKeys } : {}),
    ...(isOutApart ? { out: ofQueries } : {}),
  };
  const logSumExp = shape.logs
    ? device.place(new Float32Array(batch * heads * queryLength).fill(Number.NaN), "f32", offset)
    : undefined;
  const sizes = {
    batch,
    heads,
    kvHeads,
    queryLength,
    keyLength,
    headSize,
    scale,
    visible,
    dtype,
    offset,
    ...hides,
  };
  const problem = {
    ...{ ...sizes, ...regions, keyPitch: keyLength, oldest: shape.oldest, logSumExp },
    rows: isOutApart ? rows : undefined,
    mask: shape.mask && {
      ...{ dtype: shape.mask, strides: maskStrides(sizes) },
      // Some start at multiples of 16 bytes, as do all their rows.
      region: device.place(maskElements(sizes), shape.mask, keyLength % 16 === 0 ? 16 : offset + 1),
    },
  };
  const variant = attentionVariants.find(({ name }) => name === forced);
  const fits = variant === undefined || variant.fits(attentionShape(problem));
  if (fits) {
    const label = JSON.stringify({ ...shape, forced });
    const logs: Expected[] = [];
    const expected = Array.from(reference(sizes, operands, logs), ({ index, ...rest }) => ({
      ...rest,
      index: isOutApart ? placeIn(ofQueries, index) : index,
    }));
    await device.check(regions.out, dtype, expected, label, () =>
      device.run((context) => run(context, problem), features),
    );
    if (logSumExp !== undefined) await device.check(logSumExp, "f32", logs, label, () => {});
  }
  if (logSumExp !== undefined) device.free(logSumExp);
  device.free(...Object.values(regions), ...(problem.mask === undefined ? [] : [problem.mask.region]));
  return fits;
}
