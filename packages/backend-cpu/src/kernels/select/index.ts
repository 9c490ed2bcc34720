import { type MapProblem, selectTypes } from "@backplane/core";
import type { CpuMemory, CpuOperation } from "../kernel.js";
import { map } from "../map/index.js";

/** Its problems are those of `map`. */
export const select: CpuOperation<MapProblem<CpuMemory>> = {
  ...map,
  supports: [{ dtype: selectTypes }],
};
