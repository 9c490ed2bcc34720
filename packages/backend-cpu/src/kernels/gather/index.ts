import { dtypeBytes, type GatherProblem, gatherTypes } from "@backplane/core";
import { address, type CpuMemory, type CpuOperation } from "../kernel.js";
import { chunkElements, elementKernels, leastRowBytes, rowsKernel } from "./gather.wasm.js";

type Problem = GatherProblem<CpuMemory>;

/** Bytes of output of one chunk of rows, roughly; longer rows are cut into pieces of as many. */
export const chunkBytes: number = 1 << 17;

/** Roughly, with one worker. */
const nanosecondsPerByte = 0.1;
const nanosecondsPerElement = 1;

export const gather: CpuOperation<Problem> = {
  supports: [{ dtype: gatherTypes }],
  kernels: [rowsKernel, ...new Set(Object.values(elementKernels))],

  plan(problem) {
    const { dtype, outer, length, count, inner, outerStride, axisStride, innerStride } = problem;
    const bytes = dtypeBytes[dtype];
    const rowBytes = inner * bytes;
    const input = address(problem.input);
    const indices = address(problem.indices);
    const output = address(problem.output);
    const rows = outer * count;
    if (innerStride === 0 && rowBytes >= leastRowBytes) {
      const pieces = Math.ceil(rowBytes / chunkBytes);
      const rowsPerChunk = Math.max(1, Math.floor(chunkBytes / rowBytes));
      return [
        rowsKernel.launch(
          {
            input,
            indices,
            output,
            rows,
            length,
            count,
            rowBytes,
            outerStride,
            rowsPerChunk,
            pieces,
            pieceBytes: chunkBytes,
          },
          Math.ceil(rows / rowsPerChunk) * pieces,
          nanosecondsPerByte * rows * rowBytes,
        ),
      ];
    }
    // Where a row is one element, the elements along the axis are a line.
    const isAlongAxis = inner === 1;
    const total = rows * inner;
    return [
      elementKernels[dtype].launch(
        {
          input,
          indices,
          output,
          total,
          rowBytes,
          slabBytes: length * rowBytes,
          // As an unsigned number no index in range is larger than 2^31 - 1, and every negative one is.
          length: Math.min(length, 2 ** 31),
          lineLength: isAlongAxis ? count : inner,
          lines: isAlongAxis ? 1 : count,
          outerIndexBytes: 4 * outerStride,
          lineIndexBytes: isAlongAxis ? 0 : 4 * axisStride,
          indexStep: isAlongAxis ? 4 : 4 * innerStride,
          sourceStep: isAlongAxis ? 0 : bytes,
        },
        Math.ceil(total / chunkElements),
        nanosecondsPerElement * total,
      ),
    ];
  },
};
