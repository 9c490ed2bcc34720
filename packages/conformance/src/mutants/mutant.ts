import type { ComputeBackend, OperationName } from "@backplane/core";

/**
 * What kind of mistake it is. `indexing`: the wrong element; `edge`: the last one of something;
 * `stride`: the right element of the wrong row, matrix, image or alignment; `numerics`: the wrong number
 * from the right elements; `lifecycle`: of what outlives a call; `order`: of what happens when; `memory`:
 * of bytes, copies and allocations; `errors`: of what is refused, declared or reported.
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
  /** The defect, and where such a one has been seen. */
  readonly description: string;
  readonly defect: Defect;
  /** Where the defect is in one operation. */
  readonly operation?: OperationName;
  /** Ids of the laws (see `lawId`) that must be broken by it, among others perhaps. */
  readonly killedBy: readonly string[];
  /** It leaves promises open, so that the laws against it end with their patience. */
  readonly hangs?: true;
  readonly create: () => ComputeBackend;
}
