import type { MathFunctions } from "./math-function.js";
import { powerFunctions } from "./power.wgsl.js";
import { remainderFunctions } from "./remainder.wgsl.js";

/** Functions of two numbers, for `mathFunctions`. */
export const pairFunctions: MathFunctions = { ...powerFunctions, ...remainderFunctions };
