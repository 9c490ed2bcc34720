import { type OnDemand, onDemand } from "./on-demand.js";

/**
 * Kernels for devices with matrix units, of all operations in one: with a file for each, pages of other operations would load
 * 1.3 KB more, as what these share with the page would be in more files.
 */
export const matrixUnits: OnDemand<typeof import("./matrix-units.js")> = onDemand(
  () => import("./matrix-units.js"),
);
