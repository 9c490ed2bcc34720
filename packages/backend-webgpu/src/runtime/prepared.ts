import type { ParameterBlock } from "./parameters.js";
import type { Pipeline } from "./pipelines.js";

/** A dispatch and all that it needs. */
export interface PreparedDispatch {
  readonly operation: string;
  readonly pipeline: Pipeline;
  readonly group: GPUBindGroup;
  readonly parameters: ParameterBlock;
  readonly x: number;
  readonly y: number;
  readonly z: number;
  /** Milliseconds that it may take on a slow device. */
  readonly work: number;
}
