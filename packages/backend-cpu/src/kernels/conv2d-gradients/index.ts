/** What the two gradients of a convolution share. */
export { planSteps, regionsOf } from "./steps.js";
