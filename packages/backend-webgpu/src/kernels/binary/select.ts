import { type BinaryInput, type BinaryProblem, dtypeBytes, isComparison } from "@backplane/core";
import { allAligned, axisTable, type OutputType, type Source, vectorBytes } from "../elementwise/index.js";
import { isSameRegion } from "../same-region.js";

/** How one binary problem is done. */
export interface BinaryPlan {
  readonly sources: readonly [Source, Source];
  readonly wide: boolean;
  /** Rows of the program's table; 0 if all inputs run along with the output. */
  readonly axes: number;
  /** Extent and both strides of each axis, in the units that the program counts. */
  readonly table: readonly (readonly [extent: number, strideA: number, strideB: number])[];
}

type Problem = Omit<BinaryProblem<unknown>, "n">;

/** Returns the type of the results. */
export function outputTypeOf({ kind, dtype }: Pick<Problem, "kind" | "dtype">): OutputType {
  return isComparison(kind) ? "u8" : dtype;
}

/** Depends on shapes and places alone. */
export function planBinary(problem: Problem): BinaryPlan {
  const { shape, a, b, output } = problem;
  const narrow = [sourceOf(a, problem), sourceOf(b, problem)] as const;
  if (!narrow.includes("strided"))
    return {
      sources: narrow,
      wide: allAligned([output]) && isAligned(a) && isAligned(b),
      axes: 0,
      table: [],
    };

  const strides = [stridesOf(a, shape), stridesOf(b, shape)] as const;
  const outputType = outputTypeOf(problem);
  const vector = vectorBytes[outputType] / dtypeBytes[outputType];
  const wideSource = (source: Source, i: 0 | 1): Source =>
    source === "strided" && strides[i].at(-1) === 0 ? "repeated" : source;
  const wideSources = [wideSource(narrow[0], 0), wideSource(narrow[1], 1)] as const;
  const aligned = [a, b].every((input, i) => wideSources[i] === "repeated" || isAligned(input));
  // Inputs are contiguous. So one that does not repeat along the innermost axis has stride 1 there, and its
  // other strides are multiples of the extent.
  const wide = allAligned([output]) && aligned && shape.at(-1)! % vector === 0;
  const sources = wide ? wideSources : narrow;
  const step = wide ? vector : 1;
  const unit = (i: 0 | 1, axis: number): number => {
    const stride = strides[i][axis]!;
    // A step along the innermost axis is one vector; its stride is 1 in either unit.
    return sources[i] === "strided" && axis < shape.length - 1 ? stride / step : stride;
  };
  const table = shape.map(
    (extent, axis) =>
      [axis === shape.length - 1 ? extent / step : extent, unit(0, axis), unit(1, axis)] as const,
  );
  return { sources, wide, axes: axisTable(shape.length), table };
}

function isAligned(input: BinaryInput<unknown>): boolean {
  return !("region" in input) || allAligned([input.region]);
}

function sourceOf(input: BinaryInput<unknown>, { dtype, shape, output }: Problem): Source {
  if ("scalar" in input) return "scalar";
  if (isSameRegion(input.region, output)) return "output";
  // If it has as many elements as the output, its strides are those of the output.
  const n = shape.reduce((product, extent) => product * extent, 1);
  return input.region.byteLength === n * dtypeBytes[dtype] ? "contiguous" : "strided";
}

function stridesOf(input: BinaryInput<unknown>, shape: readonly number[]): readonly number[] {
  return "region" in input ? input.strides : shape.map(() => 0);
}
