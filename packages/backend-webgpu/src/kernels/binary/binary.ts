import type { BinaryKind, BinaryProblem } from "@backplane/core";
import { type ComputedType, memoized, type Program } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { elementwise, type Source, vectorBytes, workgroupsFor } from "../elementwise/index.js";
import { binaryFunction } from "./functions.wgsl.js";
import { outputTypeOf, planBinary } from "./select.js";

const binaryProgram = memoized(
  (kind: BinaryKind, dtype: ComputedType, a: Source, b: Source, wide: boolean, axes: number): Program => {
    const outputType = outputTypeOf({ kind, dtype });
    return elementwise(
      { name: `binary_${kind}`, dtype, outputType, sources: [a, b], wide, axes },
      binaryFunction(kind, dtype),
    );
  },
);

/** output[i] = kind(a[i], b[i]), with broadcasting */
export function runBinary(context: KernelContext, problem: BinaryProblem<DeviceMemory>): void {
  const { kind, dtype, n, output } = problem;
  const { outputType, sources, wide, axes, table } = planBinary(problem);
  const regions: Record<string, BufferRegion> = { output };
  const parameters: Record<string, number | readonly number[]> = { n };
  for (const [i, name] of (["a", "b"] as const).entries()) {
    const input = problem[name];
    if ("scalar" in input) parameters[`${name}_scalar`] = input.scalar;
    else if (sources[i] !== "output") regions[name] = input.region;
  }
  if (axes > 0) Object.assign(parameters, { rank: table.length, axes: table.flatMap((row) => [...row, 0]) });
  context.dispatch(
    binaryProgram(kind, dtype, sources[0], sources[1], wide, axes),
    regions,
    parameters,
    workgroupsFor(wide, output, vectorBytes[outputType]),
  );
}
