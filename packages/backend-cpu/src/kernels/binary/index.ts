export { binary } from "./binary.js";
export { binaryFunctions } from "./functions.js";
