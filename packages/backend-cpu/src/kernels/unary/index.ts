export { activationFunctions } from "./activations.js";
export { unaryFunctions } from "./functions.js";
export { unary } from "./unary.js";
