import type { FloatType, UnaryKind, UnaryProblem } from "@backplane/core";
import { memoized, type Program } from "../../program/index.js";
import type { DeviceMemory, KernelContext } from "../../runtime/index.js";
import { allAligned, elementwise, type Source, workgroupsFor } from "../elementwise/index.js";
import { isSameRegion } from "../same-region.js";
import { unaryFunction } from "./functions.wgsl.js";

const unaryProgram = memoized(
  (kind: UnaryKind, dtype: FloatType, source: Source, wide: boolean): Program =>
    elementwise(
      { name: `unary_${kind}`, dtype, outputType: dtype, sources: [source], wide, axes: 0 },
      unaryFunction(kind),
    ),
);

/** output[i] = kind(x[i]) */
export function runUnary(
  context: KernelContext,
  { kind, dtype, n, input, output }: UnaryProblem<DeviceMemory>,
): void {
  const inPlace = isSameRegion(input, output);
  const wide = allAligned([input, output]);
  context.dispatch(
    unaryProgram(kind, dtype, inPlace ? "output" : "contiguous", wide),
    inPlace ? { output } : { x: input, output },
    { n },
    workgroupsFor(wide, output),
  );
}
