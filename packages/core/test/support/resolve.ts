import {
  type DeviceHandle,
  type DType,
  dtypeBytes,
  type Operation,
  type OperationArguments,
  type OperationName,
  type OperationProblems,
  operations,
  type Region,
} from "@backplane/core";
import type { Binder } from "#src/ops/operation.js";

/** Stands for an allocation in tests of descriptors; regions of one number share one memory. */
export type Place = number;

export interface Filled {
  readonly region: Region<Place>;
  readonly value: number;
  readonly dtype: DType;
}

/** What a descriptor makes of arguments; operands are numbered memories, optionally with offsets. */
export function resolve<Name extends OperationName>(
  name: Name,
  args: OperationArguments[Name],
): { problem: OperationProblems<Place>[Name] | undefined; fills: Filled[] } {
  const fills: Filled[] = [];
  const binder: Binder<Place> = {
    region: (_argument, operand, elements, dtype) => ({
      memory: typeof operand === "object" ? operand.handle : operand,
      byteOffset: typeof operand === "object" ? operand.byteOffset : 0,
      byteLength: elements * dtypeBytes[dtype],
    }),
    fill: (region, value, dtype) => fills.push({ region, value, dtype }),
  };
  const operation: Operation<Name> = operations[name];
  return { problem: operation.resolve(args, binder), fills };
}

/** The problem, which must not be empty. */
export function problemOf<Name extends OperationName>(
  name: Name,
  args: OperationArguments[Name],
): OperationProblems<Place>[Name] {
  const { problem } = resolve(name, args);
  if (problem === undefined) throw new Error("there is nothing to compute");
  return problem;
}

/** A handle for `resolve`. */
export function place(id: number): DeviceHandle {
  return id as DeviceHandle;
}

export function slice(id: number, byteOffset: number): { handle: DeviceHandle; byteOffset: number } {
  return { handle: place(id), byteOffset };
}
