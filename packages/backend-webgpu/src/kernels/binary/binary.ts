import type { BinaryKind, BinaryProblem } from "@backplane/core";
import { memoized, type Program } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { elementwise, type Source, vectorBytes, workgroupsFor } from "../elementwise/index.js";
import { type BinaryType, binaryFunction } from "./functions.wgsl.js";
import { outputTypeOf, planBinary } from "./select.js";

/** What calls need to know, found by one look-up. */
interface BinaryKernel {
  readonly program: Program;
  readonly vectorBytes: number;
}

const binaryKernel = memoized(
  (kind: BinaryKind, dtype: BinaryType, a: Source, b: Source, wide: boolean, axes: number): BinaryKernel => {
    const outputType = outputTypeOf({ kind, dtype });
    const tile = { name: `binary_${kind}`, dtype, outputType, sources: [a, b], wide, axes };
    const program = elementwise(tile, binaryFunction(kind, dtype));
    return { program, vectorBytes: vectorBytes[outputType] };
  },
);

/** output[i] = kind(a[i], b[i]), with broadcasting */
export function runBinary(context: KernelContext, problem: BinaryProblem<DeviceMemory>): void {
  const { kind, dtype, n, output } = problem;
  const { sources, wide, axes, table } = planBinary(problem);
  const regions: Record<string, BufferRegion> = { output };
  const parameters: Record<string, number | readonly number[]> = { n };
  for (const [i, name] of (["a", "b"] as const).entries()) {
    const input = problem[name];
    if ("scalar" in input) parameters[`${name}_scalar`] = input.scalar;
    else if (sources[i] !== "output") regions[name] = input.region;
  }
  if (axes > 0) Object.assign(parameters, { rank: table.length, axes: table.flatMap((row) => [...row, 0]) });
  const kernel = binaryKernel(kind, dtype, sources[0], sources[1], wide, axes);
  context.dispatch(kernel.program, regions, parameters, workgroupsFor(wide, output, kernel.vectorBytes));
}
