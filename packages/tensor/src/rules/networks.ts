import { arange } from "../creation.js";
import type {
  AttentionAttributes,
  NormalizeAttributes,
  RopeAttributes,
  SoftmaxAttributes,
} from "../ops/networks.js";
import { rope as ropeOperation } from "../ops/networks.js";
import { apply, type Tensor, where } from "../tensor.js";
import { type Rule, rule } from "./rule.js";

/** y (g - sum of g y) */
export const softmax: Rule<SoftmaxAttributes> = rule({ output: true }, (context) => {
  const y = context.output();
  const weighted = context.gradient.mul(y);
  return [weighted.sub(y.mul(weighted.sum(context.attributes.axis, { keepAxes: true })))];
});

/** g - e^y sum of g */
export const logSoftmax: Rule<SoftmaxAttributes> = rule({ output: true }, (context) => {
  const { gradient, attributes } = context;
  return [
    gradient.sub(
      context
        .output()
        .exp()
        .mul(gradient.sum(attributes.axis, { keepAxes: true })),
    ),
  ];
});

/** With n = (x - mean) / deviation and d = g weight: at x (d - mean of d - n mean of d n) / deviation; without a mean in rms. */
export const normalize: Rule<NormalizeAttributes> = rule({ inputs: [0, 1] }, (context) => {
  const { gradient, attributes, needs } = context;
  const { kind, hasWeight, hasBias } = attributes;
  const x = context.input(0);
  const inverse = context.saved(0).cast(x.dtype);
  const n = kind === "layer" ? x.sub(context.saved(1).cast(x.dtype)).mul(inverse) : x.mul(inverse);
  const rows = Array.from({ length: x.rank - 1 }, (_, axis) => axis);
  const d = hasWeight ? gradient.mul(context.input(1)) : gradient;
  const along = d.mul(n).mean(-1, { keepAxes: true });
  const centred = kind === "layer" ? d.sub(d.mean(-1, { keepAxes: true })) : d;
  const results: (Tensor | undefined)[] = [centred.sub(n.mul(along)).mul(inverse)];
  if (hasWeight) results.push(needs(1) ? gradient.mul(n).sum(rows) : undefined);
  if (hasBias) results.push(gradient.sum(rows));
  return results;
});

/** The score of a key that is not seen: e to the power of it is 0. */
const hidden = -1e37;

/** The scores are computed again: with P = softmax(S), at v P^T g, at S P (g v^T - sum of P g v^T). */
export const attention: Rule<AttentionAttributes> = rule({ inputs: [0, 1, 2, 3] }, (context) => {
  const { attributes, count, shapeOf } = context;
  const [batch, heads, rows, size] = shapeOf(0) as readonly [number, number, number, number];
  const [, kvHeads, keys] = shapeOf(1) as readonly [number, number, number];
  const scale = attributes.scale ?? 1 / Math.sqrt(size);
  const grouped = (x: Tensor): Tensor => x.reshape(batch, kvHeads, heads / kvHeads, rows, x.shape.at(-1)!);
  const [q, g] = [grouped(context.input(0)), grouped(context.gradient)];
  const [k, v] = [context.input(1).unsqueeze(2), context.input(2).unsqueeze(2)];
  let scores = q.matmul(k.transpose()).mul(scale);
  let seen = visible(q, rows, keys, attributes);
  if (count === 4) {
    const mask = grouped(context.input(3).expand(batch, heads, rows, keys));
    if (mask.dtype !== "u8") scores = scores.add(mask.cast(scores.dtype));
    else seen = seen === undefined ? mask : seen.binary("logicalAnd", mask);
  }
  const all = seen === undefined ? scores.softmax() : where(seen, scores, hidden).softmax();
  // A row that sees no key has no weights at all.
  const weights = seen === undefined ? all : where(seen, all, 0);
  const atWeights = g.matmul(v.transpose());
  const products = atWeights.mul(weights);
  const atScores = products.sub(weights.mul(products.sum(-1, { keepAxes: true }))).mul(scale);
  const atQ = atScores.matmul(k).reshape(batch, heads, rows, size);
  const atK = atScores.transpose().matmul(q).sum(2);
  const atV = weights.transpose().matmul(g).sum(2);
  return count === 4 ? [atQ, atK, atV, undefined] : [atQ, atK, atV];
});

/** u8 [rows, keys]: which keys each row sees. */
function visible(
  { backend }: Tensor,
  rows: number,
  keys: number,
  { causal, window }: AttentionAttributes,
): Tensor | undefined {
  if (causal === undefined || causal === false) return undefined;
  const shift = causal === "lower-right" ? keys - rows : 0;
  const ahead = arange(backend, keys).sub(arange(backend, rows).unsqueeze(1).add(shift));
  const seen = ahead.binary("lessEqual", 0);
  return window === undefined ? seen : seen.binary("logicalAnd", ahead.greater(-window));
}

/** Turns back. */
export const rope: Rule<RopeAttributes> = rule({ inputs: [1, 2] }, (context) => {
  const { gradient, attributes } = context;
  const inverse = { ...attributes, inverse: !attributes.inverse };
  return [
    apply(ropeOperation, [gradient, context.input(1), context.input(2)], inverse),
    undefined,
    undefined,
  ];
});
