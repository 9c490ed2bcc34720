import {
  type DeviceHandle,
  dtypeBytes,
  elementTypes,
  type OperationName,
  operationNames,
} from "@backplane/core";
import { bytesOf, law, pattern, sameBytes } from "../kit/checks.js";
import type { Law } from "../law.js";
import { CallBench, checkResults, expectedResults, operandSize } from "./bench.js";
import {
  invoke,
  layOut,
  operandBytes,
  operandType,
  smallCalls,
  supportedTypes,
  type TestCall,
  unlessSupported,
} from "./calls.js";

/** Elements between operands: neighbours, word and vector boundaries, and a GPU's offset alignment. */
const gaps = [0, 1, 2, 3, 4, 7, 64] as const;

function slicesLaw(operation: OperationName): Law {
  const call = smallCalls[operation];
  return {
    ...law(
      "slices",
      `${operation}: all operands may be slices of one allocation`,
      async ({ backend, forEach }) => {
        const cases = supportedTypes(backend, call).flatMap((dtype) =>
          gaps.flatMap((gap) => [false, true].map((reversed) => ({ dtype, gap, reversed }))),
        );
        await forEach(cases, async ({ dtype, gap, reversed }) => {
          // Outputs usually come last; here they come first as well.
          const names = Object.keys(call.operands);
          const order = Object.fromEntries(
            (reversed ? names.toReversed() : names).map((name) => [name, call.operands[name]!]),
          );
          const { bytes, offsets } = layOut({ ...call, operands: order }, dtype, gap);
          const image = pattern(bytes, gap);
          for (const [index, name] of names.entries())
            image.set(
              operandBytes(call.operands[name]!, index, operandType(call, dtype, name)),
              offsets[name]!,
            );
          const handle = backend.alloc(bytes);
          try {
            backend.copyHtoD(handle, image);
            const places = Object.fromEntries(
              names.map((name) => [name, { handle, byteOffset: offsets[name]! }]),
            );
            invoke(backend, call, dtype, places);
            const got = await bytesOf(backend, handle, bytes);
            const results = call.outputs.map((name): [string, Uint8Array<ArrayBuffer>] => {
              const [start, end] = [offsets[name]!, offsets[name]! + operandSize(call, dtype, name)];
              const result = got.slice(start, end);
              got.set(image.subarray(start, end), start);
              return [name, result];
            });
            const expected = await expectedResults(call, dtype);
            checkResults(call, dtype, Object.fromEntries(results), expected, "the result in a slice");
            sameBytes(got, image, "everything but the output");
          } finally {
            backend.free(handle);
          }
        });
      },
    ),
    operation,
    exempt: unlessSupported(call),
  };
}

/** Two inputs that begin at the same element, or one element apart; only outputs must not overlap. */
function sharedInputsLaw(operation: OperationName): Law {
  const call = smallCalls[operation];
  return {
    ...law("slices", `${operation}: inputs may share their elements`, async ({ backend, forEach }) => {
      const cases = supportedTypes(backend, call).flatMap((dtype) => {
        const sizeOf = (name: string) => operandSize(call, dtype, name);
        const [largest, ...others] = inputsOf(call).toSorted((a, b) => sizeOf(b) - sizeOf(a));
        // The bits of other numbers may be any float, infinities and NaN too.
        const typeOf = (name: string) => operandType(call, dtype, name);
        const fitting = others.filter(
          (name) => elementTypes[typeOf(name)].range !== undefined || typeOf(name) === typeOf(largest!),
        );
        return fitting.flatMap((name) => [0, 1].map((element) => ({ dtype, largest, name, element })));
      });
      await forEach(cases, async ({ dtype, largest, name, element }) => {
        // If both have the same size, one cannot begin inside the other.
        const room = operandSize(call, dtype, largest!) - operandSize(call, dtype, name);
        const byteOffset = Math.min(element * dtypeBytes[operandType(call, dtype, name)], room);
        const change = (places: Readonly<Record<string, DeviceHandle>>) => ({
          [name]: { handle: places[largest!]!, byteOffset },
        });
        const bench = new CallBench(backend, call, dtype);
        try {
          bench.invoke(change(bench.places));
          const expected = await expectedResults(call, dtype, change);
          const what = `the result where ${name} is part of ${largest}`;
          checkResults(call, dtype, await bench.results(), expected, what);
        } finally {
          bench.free();
        }
      });
    }),
    operation,
    exempt: unlessSupported(call),
  };
}

/** Operands need not be whole allocations; their place within one must not matter. */
export const sliceLaws: readonly Law[] = [
  ...operationNames.map(slicesLaw),
  ...operationNames.filter((name) => inputsOf(smallCalls[name]).length > 1).map(sharedInputsLaw),
];

function inputsOf({ operands, outputs }: TestCall): readonly string[] {
  return Object.keys(operands).filter((name) => !outputs.includes(name));
}
