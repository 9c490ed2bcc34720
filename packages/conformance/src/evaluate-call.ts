import {
  type Binder,
  type DType,
  dtypeBytes,
  Fill,
  type Numerics,
  newHandle,
  type OperationName,
  operationNames,
} from "@backplane/core";
import { type Place, storages } from "./elements.js";
import { argumentsOf } from "./kit/arguments.js";
import { testedOperations } from "./ops/index.js";
import type { TimedCall } from "./ops/operation.js";

/** The exact elements of an output, and how far each of them may be off. */
export interface Evaluated {
  readonly values: Float64Array;
  readonly tolerances: Float64Array;
}

/** The numerics of a backend that promises nothing. */
const unpromised: Numerics = {
  ...{ nan: "unspecified", infinity: "unspecified", subnormals: "flushed", signedZero: "unspecified" },
  ...{ rounding: "unspecified", deterministic: false },
};

/**
 * Evaluates a call in double precision, with the error that the laws allow of every backend. `inputs` has the
 * elements of each operand that is read; `rest` all other arguments but the operands that are written, which
 * are the keys of the result. Outputs that a call may do without, and those in lists, count if `more` names them.
 */
export function evaluateCall(
  name: OperationName,
  rest: Readonly<Record<string, unknown>>,
  inputs: Readonly<Record<string, Float64Array>>,
  more: readonly string[] = [],
): Readonly<Record<string, Evaluated>> {
  const { operation, evaluate } = testedOperations[name];
  const outputs = operation.operands.filter((operand) => {
    const argument = operation.arguments[operand]!;
    return argument.role === "writes" && !("otherwise" in argument) && !("list" in argument);
  });
  const handles = [...Object.keys(inputs), ...outputs, ...more].map(
    (operand) => [operand, newHandle()] as const,
  );
  const regions = new Map<Place, string>();
  const binder: Binder<unknown> = {
    region(argument, _operand, elements, dtype) {
      // Only a name for the operand: nothing is stored.
      const region = { memory: new Uint8Array(0), byteOffset: 0, byteLength: elements * dtypeBytes[dtype] };
      regions.set(region, argument);
      return region;
    },
  };
  const problem = operation.resolve(argumentsOf({ ...rest, ...Object.fromEntries(handles) }), binder);
  if (problem === undefined || problem instanceof Fill) return {};
  const results: Record<string, Evaluated> = {};
  const memory = {
    read: (region: Place) => inputs[regions.get(region)!]!,
    write(region: Place, dtype: DType) {
      const count = region.byteLength / dtypeBytes[dtype];
      const result = { values: new Float64Array(count), tolerances: new Float64Array(count) };
      results[regions.get(region)!] = result;
      const { smallestNormal } = storages[dtype];
      return (index: number, value: number, tolerance: number) => {
        result.values[index] = value;
        result.tolerances[index] = tolerance + smallestNormal;
      };
    },
  };
  evaluate(problem as never, memory, unpromised);
  return results;
}

/** The calls that show how fast an operation is; see `TestedOperation`. */
export const timedCalls: readonly (TimedCall & { readonly operation: OperationName })[] =
  operationNames.flatMap((operation) =>
    (testedOperations[operation].timed ?? []).map((call) => ({ ...call, operation })),
  );
