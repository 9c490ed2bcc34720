import type { Conv2dProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";

/** A convolution, or a part of something that is computed by convolutions. */
export interface ConvProblem extends Conv2dProblem<DeviceMemory> {
  /** Transforms are not allowed, because the result has the bounds of another operation or element type. Default: false. */
  readonly plain?: boolean;
}
