import { isTest, type UnaryKind, type UnaryProblem } from "@backplane/core";
import { memoized, type Program } from "../../program/index.js";
import type { DeviceMemory, KernelContext } from "../../runtime/index.js";
import {
  allAligned,
  elementwise,
  type OutputType,
  type Source,
  vectorBytes,
  workgroupsFor,
} from "../elementwise/index.js";
import { isSameRegion } from "../same-region.js";
import { type UnaryType, unaryFunction } from "./functions.wgsl.js";

const unaryProgram = memoized(
  (kind: UnaryKind, dtype: UnaryType, source: Source, wide: boolean): Program =>
    elementwise(
      {
        ...{ name: `unary_${kind}`, dtype, outputType: outputTypeOf({ kind, dtype }) },
        ...{ sources: [source], wide, axes: 0 },
      },
      unaryFunction(kind, dtype),
    ),
);

/** Returns the type of the results. */
export function outputTypeOf({ kind, dtype }: Pick<UnaryProblem<unknown>, "kind" | "dtype">): OutputType {
  return isTest(kind) ? "u8" : dtype;
}

/** output[i] = kind(x[i]) */
export function runUnary(context: KernelContext, problem: UnaryProblem<DeviceMemory>): void {
  const { kind, dtype, n, input, output } = problem;
  const inPlace = isSameRegion(input, output);
  const wide = allAligned([input, output]);
  context.dispatch(
    unaryProgram(kind, dtype, inPlace ? "output" : "contiguous", wide),
    inPlace ? { output } : { x: input, output },
    { n },
    workgroupsFor(wide, output, vectorBytes[outputTypeOf(problem)]),
  );
}
