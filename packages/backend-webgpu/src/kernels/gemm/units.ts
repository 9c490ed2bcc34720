import { type OnDemand, onDemand } from "../on-demand.js";

/** Kernels for devices with matrix units. */
export const matrixUnits: OnDemand<typeof import("./matrix-units.js")> = onDemand(
  () => import("./matrix-units.js"),
);
