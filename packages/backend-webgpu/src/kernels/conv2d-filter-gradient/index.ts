import { type Conv2dFilterGradientProblem, floatTypes } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { runFilterGradient } from "./filter-gradient.js";
import { filterGradientSegments } from "./segments.js";
import { type FilterGradientShape, filterGradientFields, filterGradientVariants } from "./variants.js";

export { type FilterGradientShape, filterGradientVariants } from "./variants.js";

/** filterGradient = the sums over all windows of the input times the output's gradient */
export const conv2dFilterGradient: OperationEntry<
  "conv2dFilterGradient",
  Conv2dFilterGradientProblem<DeviceMemory>,
  FilterGradientShape
> = {
  operation: "conv2dFilterGradient",
  supports: [{ dtype: floatTypes }],
  run: runFilterGradient,
  segments: filterGradientSegments,
  variants: {
    rows: filterGradientVariants,
    fields: filterGradientFields,
    repeatable: (problem) => ({ ...problem, accumulate: false }),
  },
};
