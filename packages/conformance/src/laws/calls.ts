import {
  type ComputeBackend,
  type DType,
  dtypeBytes,
  dtypes,
  type Operand,
  type OperationName,
  operationNames,
} from "@backplane/core";
import { encoded } from "../elements.js";
import { argumentsOf, outputsOf } from "../kit/arguments.js";
import type { Law } from "../law.js";
import { testedOperations } from "../ops/index.js";
import type { Call, Change, SmallCall } from "../ops/operation.js";

/** A call of an operation, for laws that bind every operation alike. */
export interface TestCall extends Call, Pick<SmallCall, "inPlace"> {
  readonly operation: OperationName;
  readonly kind: string | undefined;
  /** The operands that are written, the others come before and after them. */
  readonly outputs: readonly string[];
}

export const smallCalls: Readonly<Record<OperationName, TestCall & SmallCall>> = callsOf(
  ({ small }) => small,
);

/** Calls large enough for kernels that work in several steps and need memory of their own for it. */
export const mediumCalls: Readonly<Record<OperationName, TestCall>> = callsOf(({ small, medium }) => ({
  ...small,
  ...medium,
}));

function callsOf<Given extends Call>(
  choose: (tested: (typeof testedOperations)[OperationName]) => Given,
): Readonly<Record<OperationName, Given & TestCall>> {
  return Object.fromEntries(
    operationNames.map((operation) => {
      const tested = testedOperations[operation];
      const call = choose(tested);
      const outputs = outputsOf(tested.operation, call.operands);
      return [operation, { ...call, operation, kind: call.rest.kind as string | undefined, outputs }];
    }),
  ) as Record<OperationName, Given & TestCall>;
}

/** The element types in which a backend supports the call. */
export function supportedTypes(backend: ComputeBackend, { operation, kind }: TestCall): readonly DType[] {
  return dtypes.filter((dtype) => backend.supports(operation, { dtype, kind }));
}

/** For laws on one call of an operation. */
export function unlessSupported(call: TestCall): NonNullable<Law["exempt"]> {
  return (_capabilities, backend) =>
    supportedTypes(backend, call).length > 0 ? undefined : `${call.operation} is not supported`;
}

/** The element type of an operand. */
export function operandType({ types }: Call, dtype: DType, name: string): DType {
  return types?.[name] ?? dtype;
}

/** Makes the call, with changes to its arguments. */
export function invoke(
  backend: ComputeBackend,
  call: TestCall,
  dtype: DType,
  operands: Readonly<Record<string, Operand>>,
  change: Change = {},
): void {
  const method = backend[call.operation].bind(backend) as (args: unknown) => void;
  method(argumentsOf({ dtype, ...call.rest, ...operands, ...change }));
}

/** Small whole numbers for the i-th operand, on which most operations are exact; as stored. */
export function operandBytes(count: number, index: number, dtype: DType): Uint8Array<ArrayBuffer> {
  const values = Float32Array.from({ length: count }, (_, i) => ((i * 7 + index * 3) % 9) - 4 || 1);
  return encoded(values, dtype);
}

/** The places of operands within one allocation. */
export interface Layout {
  readonly bytes: number;
  readonly offsets: Readonly<Record<string, number>>;
}

/** All operands of a call one after another in one allocation, each at least `gap` elements after the last. */
export function layOut(call: TestCall, dtype: DType, gap: number): Layout {
  const offsets: Record<string, number> = {};
  const space = gap * dtypeBytes[dtype];
  let bytes = space;
  for (const [name, count] of Object.entries(call.operands)) {
    const size = dtypeBytes[operandType(call, dtype, name)];
    offsets[name] = Math.ceil(bytes / size) * size;
    bytes = offsets[name] + count * size + space;
  }
  return { bytes, offsets };
}
