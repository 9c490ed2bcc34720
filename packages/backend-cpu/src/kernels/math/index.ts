export { arctangent, arctangentOf } from "./arctangent.js";
export {
  demote,
  polynomial,
  polynomial64,
  promote,
  roundingBias64,
  type SharedConstants,
  sharedConstants,
  tree,
  unlessAny,
  type Vector,
  type VectorLocal,
} from "./emit.js";
export {
  decay,
  exponential,
  exponentialOfTwo,
  normalExponential,
  normalLimit,
  roundingBias,
  type ScaledExponential,
  scaledExponential,
  splitExponential,
} from "./exponential.js";
export {
  binaryLogarithm,
  finiteLogarithmOfOnePlus,
  logarithm,
  logarithmOfOnePlus,
  outsideOfNormal,
  splitExponent,
  splitNormal,
} from "./logarithm.js";
export { sineAndCosine } from "./trigonometry.js";
