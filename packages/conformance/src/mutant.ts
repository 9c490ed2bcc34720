import type {
  Accuracy,
  ComputeBackend,
  DriverKernels,
  OperationName,
  OperationProblems,
  UnaryKind,
} from "@backplane/core";
import type { ReferenceMemory } from "./elements.js";

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
  /** Present if laws of other topics never meet the defect. */
  readonly topic?: string;
  /** Ids of the laws (see `lawId`) that must be broken by it, among others perhaps. */
  readonly killedBy: readonly string[];
  /** It leaves promises open, so that the laws against it end with their patience. */
  readonly hangs?: true;
  readonly create: () => ComputeBackend;
}

type Problem<Name extends OperationName> = OperationProblems<ReferenceMemory>[Name];

/** Makes defective backends from the reference, which operations themselves do not know. */
export interface Builder {
  /** Returns the reference with some kernels replaced, and other units declared of some functions. */
  withKernels(replaced: DriverKernels<ReferenceMemory>, declared?: Accuracy): ComputeBackend;
  /** Returns the reference with problems of one operation, or of several, tampered with. */
  tampered<Name extends OperationName>(
    names: Name | readonly Name[],
    change: (problem: Problem<Name>) => Problem<Name>,
  ): ComputeBackend;
  /** Replaces the kernel of one operation, or of several; `run` is that of the reference. */
  replaced<Name extends OperationName>(
    names: Name | readonly Name[],
    body: (problem: Problem<Name>, run: (problem: Problem<Name>) => void) => void,
    declared?: Accuracy,
  ): ComputeBackend;
  /** Replaces one unary function by another. `units`, if given, is declared as its accuracy. */
  replacedFunction(kind: UnaryKind, apply: (x: number) => number, units?: number): ComputeBackend;
  /** Returns the reference with some of its methods replaced. */
  altered(alter: (right: ComputeBackend) => Partial<ComputeBackend>): ComputeBackend;
}
