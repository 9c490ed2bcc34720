import type { ComputeBackend, OperationName } from "@backplane/core";

/**
 * The kind of mistake. `indexing`: the wrong element. `edge`: the last one of something. `stride`: the right
 * element of the wrong row, matrix, image or alignment. `numerics`: the wrong number from the right elements.
 * `lifecycle`: state that outlives a call. `order`: the order of effects. `memory`: bytes, copies and
 * allocations. `errors`: refusals, declarations and reports.
 */
export type Defect =
  | "indexing"
  | "edge"
  | "stride"
  | "numerics"
  | "lifecycle"
  | "order"
  | "memory"
  | "errors";

/** A backend that is wrong on purpose; `loseReferenceDevice` makes it lose its device. */
export interface Mutant {
  readonly name: string;
  /** The defect, and an example of such a defect in practice. */
  readonly description: string;
  readonly defect: Defect;
  /** Present if the defect is in one operation. */
  readonly operation?: OperationName;
  /** Ids of the laws (see `lawId`) that must be broken by it, among others perhaps. */
  readonly killedBy: readonly string[];
  /** It leaves promises open, so that the laws against it end with their patience. */
  readonly hangs?: true;
  readonly create: () => ComputeBackend;
}
