import type { SoftmaxAttributes } from "../ops/networks.js";
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
