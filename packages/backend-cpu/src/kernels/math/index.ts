export { arctangent, arctangentOf } from "./arctangent.js";
export {
  demote,
  polynomial,
  polynomial64,
  promote,
  roundingBias64,
  type SharedConstants,
  sharedConstants,
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
  unlessLarge,
} from "./exponential.js";
export { binaryLogarithm, logarithm, logarithmOfOnePlus, splitExponent } from "./logarithm.js";
export { sineAndCosine } from "./trigonometry.js";
