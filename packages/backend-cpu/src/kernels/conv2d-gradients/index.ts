/** What the two gradients of a convolution share. */
export { kernelsOfSteps, planSteps, regionsOf } from "./steps.js";
