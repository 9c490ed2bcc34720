import type { Pool2dProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";

/** A problem, or a part of its windows, after a division of these. */
export interface Problem extends Pool2dProblem<DeviceMemory> {
  /** The results of earlier parts are in the output. Default: false. */
  readonly continues?: boolean;
  /** The place in the image of the first element of the input. Default: 0. */
  readonly firstPlace?: number;
  /** How many rows, and columns, of whole windows a mean is of. Default: as many as are here. */
  readonly rowsCounted?: number;
  readonly columnsCounted?: number;
  /** The output is f32. Default: false. */
  readonly isPartial?: boolean;
}
