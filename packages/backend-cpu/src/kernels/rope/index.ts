import { dtypeBytes, floatTypes, type RopeProblem, ropeKinds } from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation } from "../kernel.js";
import { ropeKernel } from "./rope.wasm.js";

type Problem = RopeProblem<CpuMemory>;

const kernels = {
  neighbours: byFloatType((dtype) => ropeKernel("neighbours", dtype)),
  halves: byFloatType((dtype) => ropeKernel("halves", dtype)),
} as const;

/** Elements of one chunk, roughly. */
const chunkElements = 1 << 14;

/** Roughly, with one worker. */
const nanosecondsPerElement = 0.4;

export const rope: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }],
  kernels: ropeKinds.flatMap((kind) => Object.values(kernels[kind])),

  plan(problem) {
    const { dtype, kind, batch, heads, rows, size, rotated, inverse, length, start } = problem;
    const bytes = dtypeBytes[dtype];
    const total = batch * heads * rows;
    const rowsPerChunk = Math.max(1, Math.floor(chunkElements / size));
    return [
      kernels[kind][dtype].launch(
        {
          input: address(problem.input),
          output: address(problem.output),
          cos: address(problem.cos),
          sin: address(problem.sin),
          positions: problem.positions === undefined ? 0 : address(problem.positions),
          positionStride: problem.positionStride,
          start,
          // As an unsigned number no position in range is larger than 2^31 - 1, and every negative one is.
          length: Math.min(length, 2 ** 31),
          heads,
          rows,
          total,
          rowsPerChunk,
          pairs: rotated / 2,
          rotatedBytes: rotated * bytes,
          rowBytes: size * bytes,
          inputBatch: problem.inputStrides[0] * bytes,
          inputHead: problem.inputStrides[1] * bytes,
          inputRow: problem.inputStrides[2] * bytes,
          outputBatch: problem.outputStrides[0] * bytes,
          outputHead: problem.outputStrides[1] * bytes,
          outputRow: problem.outputStrides[2] * bytes,
          sign: inverse ? 2 ** 31 : 0,
        },
        Math.ceil(total / rowsPerChunk),
        nanosecondsPerElement * total * size,
      ),
    ];
  },
};
