export { unaryFunctions } from "./functions.js";
export { unary } from "./unary.js";
