/** What the two gradients of a convolution share. */
export { divideSteps, runSteps, scratchOfSteps } from "./steps.js";
