import {
  type Binder,
  type DeviceHandle,
  type DType,
  dtypeBytes,
  Fill,
  type OperationArguments,
  type OperationName,
  type OperationProblems,
  type Region,
  resolveOperation,
} from "@backplane/core";

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
  const binder: Binder<Place> = {
    region: (_argument, operand, elements, dtype) => ({
      memory: typeof operand === "object" ? operand.handle : operand,
      byteOffset: typeof operand === "object" ? operand.byteOffset : 0,
      byteLength: elements * dtypeBytes[dtype],
    }),
  };
  const resolved = resolveOperation(name, args, binder);
  return resolved instanceof Fill
    ? { problem: undefined, fills: [{ ...resolved } as Filled] }
    : { problem: resolved, fills: [] };
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
