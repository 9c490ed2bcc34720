import { floatTypes, integerTypes, type SortProblem } from "@backplane/core";
import { byComputedType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation } from "../kernel.js";
import { sortKernel, workBytes } from "./sort.wasm.js";

type Problem = SortProblem<CpuMemory>;

const kernels = byComputedType(sortKernel);

/** The number of elements that a chunk should sort at least, roughly. */
const chunkElements = 1 << 13;

/** Roughly, with one worker. */
const nanosecondsPerElement = 10;

/** A chunk sorts some lines, each by itself. */
export const sort: CpuOperation<Problem> = {
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  kernels: Object.values(kernels),

  plan(problem, context) {
    const { dtype, outer, length, inner, count, descending, input, values, indices } = problem;
    const lines = outer * inner;
    const perChunk = Math.min(lines, Math.max(1, Math.floor(chunkElements / length)));
    const chunks = Math.ceil(lines / perChunk);
    const byChunk = chunks <= context.workers;
    const lineBytes = workBytes(length);
    const parameters = {
      input: address(input),
      values: values === undefined ? 0 : address(values),
      indices: indices === undefined ? 0 : address(indices),
      work: context.workspace(Math.min(chunks, context.workers) * lineBytes),
      ...{ lineBytes, byChunk: Number(byChunk), lines, perChunk },
      ...{ length, inner, count, descending: descending ? -1 : 0 },
    };
    return [kernels[dtype].launch(parameters, chunks, nanosecondsPerElement * lines * length)];
  },
};
