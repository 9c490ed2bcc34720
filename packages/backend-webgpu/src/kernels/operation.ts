import type { Accuracy, OperationName, OperationProblems } from "@backplane/core";
import type { DeviceFeatures } from "../device/index.js";
import type { DeviceMemory, KernelContext, KernelDefinition, OperationContext } from "../runtime/index.js";
import type { ShapeFields } from "./fields.js";
import type { Segmentation, SegmentTools } from "./segments/index.js";
import type { Variant } from "./variant.js";

/**
 * One operation of this package: everything that other folders know about it. The index.ts of its folder
 * declares it, and `list.ts` lists it. `Shape` is what the choice between its variants depends on.
 */
export interface OperationEntry<
  Name extends OperationName = OperationName,
  Problem = OperationProblems<DeviceMemory>[Name],
  Shape extends object = object,
> extends KernelDefinition<Problem> {
  /** Also its name in the option `variants` and in tuning. */
  readonly operation: Name;
  /** Other operations with the same problems, which it computes too. Default: none. */
  readonly alike?: readonly OperationName[];
  /** Enqueues a problem whose operands fit into bindings. `forced` names the row of `variants` to take wherever it fits. */
  run(context: KernelContext, problem: Problem, forced?: string): void;
  /** The division of problems whose operands do not fit. */
  segments(tools: SegmentTools<Problem>): Segmentation<Problem>;
  /** Default: there is one way to compute it. */
  readonly variants?: VariantTable<Problem, Shape>;
  /** Default: none is declared. */
  readonly accuracy?: Name extends keyof Accuracy ? NonNullable<Accuracy[Name]> : never;
  /** Returns what it adds to the description of a device. Default: nothing. */
  details?(features: DeviceFeatures): Readonly<Record<string, string>>;
  /** Called before the first problem on a device: loads what only few devices need. Default: there is no such thing. */
  load?(features: DeviceFeatures): Promise<void>;
}

/** The ways to compute an operation. */
export interface VariantTable<Problem, Shape extends object> {
  readonly rows: readonly Variant<Shape>[];
  /** All that the choice depends on, in the order of the keys in tuning data. */
  readonly fields: ShapeFields<Shape>;
  /**
   * Returns a problem that takes as long, and whose results stay finite when `tune` runs it again and again on
   * the same output. Default: the problem itself.
   */
  repeatable?(problem: Problem): Problem;
}

/** Records the commands of `enqueue` in the name of an operation that takes `flops` floating-point operations. */
export type RecordOperation = (
  operation: string,
  enqueue: (context: OperationContext) => void,
  flops: number,
) => void;
