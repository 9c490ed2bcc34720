import { type OnDemand, onDemand } from "../../on-demand.js";

/** Kernels of split numbers. */
export const splitting: OnDemand<typeof import("./split.js")> = onDemand(() => import("./split.js"));
