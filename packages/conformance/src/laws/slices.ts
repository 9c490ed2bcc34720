import { dtypeBytes, type OperationName, operationNames } from "@backplane/core";
import type { Law } from "../law.js";
import { checkResult, expectedResult } from "./bench.js";
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
        const dtypes = backend.capabilities.dtypes.filter((dtype) =>
          backend.supports(operation, dtype, kind),
        );
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
    exempt: (capabilities, backend) =>
      capabilities.dtypes.some((dtype) => backend.supports(operation, dtype, kind))
        ? undefined
        : `${operation} is not supported`,
  };
}

/** Operands need not be whole allocations; where in one they lie must not matter. */
export const sliceLaws: readonly Law[] = operationNames.map(slicesLaw);
