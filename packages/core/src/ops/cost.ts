import { type DType, dtypeBytes } from "../dtype.js";
import type { Operand } from "../handles.js";
import type { Region } from "../region.js";
import { Checks } from "./checks.js";
import type { OperationArguments, OperationName } from "./index.js";
import { operationOf } from "./lookup.js";
import { Fill, type Operation } from "./operation.js";
import type { Binder } from "./reader.js";

/** The least cost of a call. */
export interface Cost {
  /** Floating-point operations: a multiply-add counts 2, any other function of one element 1. */
  readonly flops: number;
  /** Each input element is read once and each output element written once. */
  readonly bytes: number;
}

/** Returns the cost of a call with these arguments. Checks the arguments but does not look up handles. */
export function costOf<Name extends OperationName>(name: Name, args: OperationArguments[Name]): Cost;
export function costOf<Arguments extends object>(operation: Operation<Arguments>, args: Arguments): Cost;
export function costOf(given: OperationName | Operation, args: object): Cost {
  const operation: Operation = operationOf("costOf", given);
  new Checks(operation.name).object("arguments", args);
  const problem = operation.resolve(args, unboundRegions);
  return problem === undefined || problem instanceof Fill
    ? { flops: 0, bytes: 0 }
    : { flops: operation.flops(problem), bytes: operation.bytes(problem) };
}

const unboundRegions: Binder<unknown> = {
  // Each operand has a memory of its own, so that no two overlap.
  region: (_argument: string, _operand: Operand, elements: number, dtype: DType): Region<unknown> => ({
    memory: Symbol("unbound"),
    byteOffset: 0,
    byteLength: elements * dtypeBytes[dtype],
  }),
};
