/** What the two gradients of a convolution share. */
export { divideSteps, partOf, runSteps, scratchOfSteps } from "./steps.js";
