import type { ComputeBackend } from "@backplane/core";

/** A backend that is wrong on purpose. */
export interface Mutant {
  readonly name: string;
  /** The defect, and where such a one has been seen. */
  readonly description: string;
  /** Ids of the laws (see `lawId`) that must be broken by it, among others perhaps. */
  readonly killedBy: readonly string[];
  readonly create: () => ComputeBackend;
}
