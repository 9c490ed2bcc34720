import { binaryRules, unaryRules } from "./elementwise.js";
import * as networks from "./networks.js";
import { linear, matmul } from "./products.js";
import type { Rule } from "./rule.js";
import * as structure from "./structure.js";

/**
 * The rule of every operation that is differentiable, under its name. `undefined` stands for operations whose results do
 * not change with their inputs continuously, such as comparisons: tapes leave them out.
 */
export const rules: Readonly<Record<string, Rule<never> | undefined>> = {
  ...unaryRules,
  ...binaryRules,
  where: structure.select,
  convert: structure.cast,
  cast: structure.cast,
  reshape: structure.reshape,
  permute: structure.permute,
  expand: structure.expand,
  slice: structure.slice,
  place: structure.place,
  concatenate: structure.concatenate,
  gather: structure.gather,
  scatterAdd: structure.scatterAdd,
  "reduce.sum": structure.sum,
  "reduce.mean": structure.mean,
  "reduce.max": structure.extreme,
  "reduce.min": structure.extreme,
  "reduce.prod": structure.prod,
  "reduce.logSumExp": structure.logSumExp,
  "reduce.any": undefined,
  "reduce.all": undefined,
  argReduce: undefined,
  "scan.sum": structure.scanSum,
  matmul,
  linear,
  softmax: networks.softmax,
  logSoftmax: networks.logSoftmax,
  softmaxGradient: networks.softmaxGradient,
  logSoftmaxGradient: networks.logSoftmaxGradient,
  normalize: networks.normalize,
  conv2d: networks.conv2d,
  conv2dInputGradient: networks.ofConv2dInputGradient,
  conv2dFilterGradient: networks.ofConv2dFilterGradient,
  pool2d: networks.pool2d,
  resize2d: networks.resize2d,
  attention: networks.attention,
  rope: networks.rope,
};
