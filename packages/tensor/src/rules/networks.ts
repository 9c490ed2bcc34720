import { arange } from "../creation.js";
import {
  attentionGradients,
  type Conv2dGradientAttributes,
  conv2dFilterGradient,
  conv2dInputGradient,
  normalizeGradients,
  pool2dGradient,
  resize2dGradient,
  softmaxGradients,
} from "../ops/gradients.js";
import {
  type AttentionAttributes,
  type Conv2dAttributes,
  conv2d as conv2dOperation,
  hasAttentionGradient,
  type NormalizeAttributes,
  type Pool2dAttributes,
  type Resize2dAttributes,
  type RopeAttributes,
  rope as ropeOperation,
  type SoftmaxAttributes,
} from "../ops/networks.js";
import { isTracked } from "../recorder.js";
import { apply, applyAll, type Tensor, where } from "../tensor.js";
import { type Gradients, type Rule, type RuleContext, rule } from "./rule.js";

export const softmax: Rule<SoftmaxAttributes> = rule({ output: true }, (context) => [
  apply(softmaxGradients.softmax, [context.output(), context.gradient], context.attributes),
]);

export const logSoftmax: Rule<SoftmaxAttributes> = rule({ output: true }, (context) => [
  apply(softmaxGradients.logSoftmax, [context.output(), context.gradient], context.attributes),
]);

/** Of y (g - sum of g y), with G the gradient there: at y G (g - sum of g y) - g sum of G y, at g y (G - sum of G y). */
export const softmaxGradient: Rule<SoftmaxAttributes> = rule({ inputs: [0, 1] }, (context) => {
  const { gradient, attributes, needs } = context;
  const [y, g] = [context.input(0), context.input(1)];
  const sum = (x: Tensor): Tensor => x.sum(attributes.axis, { keepAxes: true });
  const atOutput = needs(0) ? gradient.mul(g.sub(sum(g.mul(y)))).sub(g.mul(sum(gradient.mul(y)))) : undefined;
  return [atOutput, needs(1) ? apply(softmaxGradients.softmax, [y, gradient], attributes) : undefined];
});

/** Of g - e^y sum of g, with G the gradient there: at y -G e^y sum of g, at g G - sum of G e^y. */
export const logSoftmaxGradient: Rule<SoftmaxAttributes> = rule({ inputs: [0, 1] }, (context) => {
  const { gradient, attributes, needs } = context;
  const weighted = gradient.mul(context.input(0).exp());
  const sum = (x: Tensor): Tensor => x.sum(attributes.axis, { keepAxes: true });
  return [
    needs(0) ? weighted.mul(sum(context.input(1))).neg() : undefined,
    needs(1) ? gradient.sub(sum(weighted)) : undefined,
  ];
});

export const normalize: Rule<NormalizeAttributes> = rule(
  { inputs: ({ hasWeight }) => (hasWeight ? [0, 1] : [0]) },
  (context) => {
    const { gradient, attributes, needs } = context;
    const { kind, epsilon, hasWeight, hasBias } = attributes;
    const inputs = [context.input(0), gradient, context.saved(0)];
    if (kind === "layer") inputs.push(context.saved(1));
    if (hasWeight) inputs.push(context.input(1));
    const atBias = hasWeight ? 2 : 1;
    const wanted = { input: needs(0), weight: hasWeight && needs(1), bias: hasBias && needs(atBias) };
    const found = applyAll("normalizeGradient", inputs, (values) =>
      normalizeGradients(values, { kind, epsilon, hasWeight, wanted }),
    );
    return [found[0], ...(hasWeight ? [found[1]] : []), ...(hasBias ? [found[2]] : [])];
  },
);

/** The axes along which a bias is repeated. */
function besideChannels({ layout }: Conv2dAttributes): readonly number[] {
  return layout === "NHWC" ? [0, 1, 2] : [0, 2, 3];
}

export const conv2d: Rule<Conv2dAttributes> = rule({ inputs: [0, 1] }, (context) => {
  const { gradient, attributes, needs, shapeOf, count } = context;
  const atInput = needs(0)
    ? apply(conv2dInputGradient, [gradient, context.input(1)], { ...attributes, shape: shapeOf(0) })
    : undefined;
  const atFilter = needs(1)
    ? apply(conv2dFilterGradient, [context.input(0), gradient], { ...attributes, shape: shapeOf(1) })
    : undefined;
  if (count === 2) return [atInput, atFilter];
  return [atInput, atFilter, needs(2) ? gradient.sum(besideChannels(attributes)) : undefined];
});

/** It is linear in both inputs, and the other way round a convolution. */
export const ofConv2dInputGradient: Rule<Conv2dGradientAttributes> = rule({ inputs: [0, 1] }, (context) => {
  const { gradient, needs, shapeOf } = context;
  const { shape: _, ...geometry } = context.attributes;
  const atGradient = needs(0) ? apply(conv2dOperation, [gradient, context.input(1)], geometry) : undefined;
  const atFilter = needs(1)
    ? apply(conv2dFilterGradient, [gradient, context.input(0)], { ...geometry, shape: shapeOf(1) })
    : undefined;
  return [atGradient, atFilter];
});

export const ofConv2dFilterGradient: Rule<Conv2dGradientAttributes> = rule({ inputs: [0, 1] }, (context) => {
  const { gradient, needs, shapeOf } = context;
  const { shape: _, ...geometry } = context.attributes;
  const atInput = needs(0)
    ? apply(conv2dInputGradient, [context.input(1), gradient], { ...geometry, shape: shapeOf(0) })
    : undefined;
  return [atInput, needs(1) ? apply(conv2dOperation, [context.input(0), gradient], geometry) : undefined];
});

export const pool2d: Rule<Pool2dAttributes> = rule({}, (context) => {
  const { gradient, attributes, shapeOf } = context;
  const inputs = attributes.kind === "max" ? [gradient, context.saved(0)] : [gradient];
  return [apply(pool2dGradient, inputs, { ...attributes, shape: shapeOf(0) })];
});

export const resize2d: Rule<Resize2dAttributes> = rule({}, ({ gradient, attributes, shapeOf }) => [
  apply(resize2dGradient, [gradient], { ...attributes, shape: shapeOf(0) }),
]);

/** The score of a key that is not seen: e to the power of it is 0. */
const hidden = -1e37;

/**
 * By `attentionGradient`, unless the backend lacks it (it may be another one than at the time of recording), or a tape is to
 * differentiate the gradient.
 */
export const attention: Rule<AttentionAttributes> = rule(
  { inputs: [0, 1, 2, 3], output: true },
  (context) => {
    const { count, gradient, attributes } = context;
    const inputs = Array.from({ length: count }, (_, i) => context.input(i));
    const isFused = context.savedCount > 0 && hasAttentionGradient(gradient.backend);
    if (!isFused || isTracked([...inputs, gradient].map(({ value }) => value)))
      return composedAttention(context);
    const [q, k, v, ...mask] = inputs as [Tensor, Tensor, Tensor, ...Tensor[]];
    const operands = [q, k, v, context.output(), context.saved(0), gradient, ...mask];
    const found = applyAll("attentionGradient", operands, (values) => attentionGradients(values, attributes));
    return count === 4 ? [...found, undefined] : found;
  },
);

/** The scores are computed again: with P = softmax(S), at v P^T g, at S P (g v^T - sum of P g v^T). */
function composedAttention(context: RuleContext<AttentionAttributes>): Gradients {
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
}

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

/** Turns back. The tables are constant. */
export const rope: Rule<RopeAttributes> = rule({ inputs: [1, 2], constant: [1, 2] }, (context) => {
  const { gradient, attributes } = context;
  const inverse = { ...attributes, inverse: !attributes.inverse };
  return [
    apply(ropeOperation, [gradient, context.input(1), context.input(2)], inverse),
    undefined,
    undefined,
  ];
});
