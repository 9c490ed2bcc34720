import {
  type DeviceHandle,
  dtypeBytes,
  floatTypes,
  type OperationName,
  operationNames,
} from "@backplane/core";
import type { Law } from "../law.js";
import { CallBench, checkResult, expectedResult, operandSize } from "./bench.js";
import { invoke, layOut, operandBytes, smallCalls } from "./calls.js";
import { bytesOf, law, pattern, sameBytes } from "./support.js";

/** Elements between operands: neighbours, word and vector boundaries, and a GPU's offset alignment. */
const gaps = [0, 1, 2, 3, 4, 7, 64] as const;

function slicesLaw(operation: OperationName): Law {
  const call = smallCalls[operation];
  const kind = call.rest.kind as string | undefined;
  return {
    ...law(
      "slices",
      `${operation}: all operands may be slices of one allocation`,
      async ({ backend, forEach }) => {
        const dtypes = floatTypes.filter((dtype) => backend.supports(operation, { dtype, kind }));
        const cases = dtypes.flatMap((dtype) =>
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
            image.set(operandBytes(call.operands[name]!, index, dtype), offsets[name]!);
          const handle = backend.alloc(bytes);
          try {
            backend.copyHtoD(handle, image);
            const places = Object.fromEntries(
              names.map((name) => [name, { handle, byteOffset: offsets[name]! }]),
            );
            invoke(backend, call, dtype, places);
            const got = await bytesOf(backend, handle, bytes);
            const start = offsets[call.output]!;
            const end = start + call.operands[call.output]! * dtypeBytes[dtype];
            checkResult(
              call,
              dtype,
              got.slice(start, end),
              await expectedResult(call, dtype),
              "the result in a slice",
            );
            got.set(image.subarray(start, end), start);
            sameBytes(got, image, "everything but the output");
          } finally {
            backend.free(handle);
          }
        });
      },
    ),
    operation,
    exempt: (_capabilities, backend) =>
      floatTypes.some((dtype) => backend.supports(operation, { dtype, kind }))
        ? undefined
        : `${operation} is not supported`,
  };
}

/** Two inputs that begin at the same element, or one element apart; only outputs must not overlap. */
function sharedInputsLaw(operation: OperationName): Law {
  const call = smallCalls[operation];
  const kind = call.rest.kind as string | undefined;
  const inputs = Object.keys(call.operands).filter((name) => name !== call.output);
  const [largest, ...others] = inputs.toSorted((a, b) => call.operands[b]! - call.operands[a]!);
  return {
    ...law("slices", `${operation}: inputs may share their elements`, async ({ backend, forEach }) => {
      const dtypes = floatTypes.filter((dtype) => backend.supports(operation, { dtype, kind }));
      const cases = dtypes.flatMap((dtype) =>
        others.flatMap((name) => [0, 1].map((element) => ({ dtype, name, element }))),
      );
      await forEach(cases, async ({ dtype, name, element }) => {
        // If both have the same size, one cannot begin inside the other.
        const room = call.operands[largest!]! - call.operands[name]!;
        const byteOffset = Math.min(element, room) * dtypeBytes[dtype];
        const change = (places: Readonly<Record<string, DeviceHandle>>) => ({
          [name]: { handle: places[largest!]!, byteOffset },
        });
        const bench = new CallBench(backend, call, dtype);
        try {
          bench.invoke(change(bench.places));
          const got = await bytesOf(
            backend,
            bench.places[call.output]!,
            operandSize(call, dtype, call.output),
          );
          const expected = await expectedResult(call, dtype, change);
          checkResult(call, dtype, got, expected, `the result where ${name} is part of ${largest}`);
        } finally {
          bench.free();
        }
      });
    }),
    operation,
    exempt: (_capabilities, backend) =>
      floatTypes.some((dtype) => backend.supports(operation, { dtype, kind }))
        ? undefined
        : `${operation} is not supported`,
  };
}

/** Operands need not be whole allocations; their place within one must not matter. */
export const sliceLaws: readonly Law[] = [
  ...operationNames.map(slicesLaw),
  ...(["gemm", "batchedGemm", "conv2d", "attention", "binary"] as const).map(sharedInputsLaw),
];
