import { dtypeBytes, type MapInput, type MapOutput, type MapProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import { isSameRegion } from "../same-region.js";
import { countedAxes } from "./expression.wgsl.js";
import type { MapSource } from "./map.wgsl.js";

/** A problem, or a part of one that begins at some place along each axis. */
export interface MapPart extends MapProblem<DeviceMemory> {
  /** What steps that count along an axis begin with; 0 if it is left out. */
  readonly starts?: readonly number[];
}

/** How one problem is done. */
export interface MapPlan {
  readonly sources: readonly MapSource[];
  readonly wide: 0 | 4 | 8;
  /** Axes of the table. */
  readonly axes: number;
  /** Extents, and strides of strided inputs, axis by axis, as the program counts them. */
  readonly table: readonly number[];
}

type Outputs = readonly Pick<MapOutput<unknown>, "dtype" | "region">[];

/** Depends on shapes and places alone. `outputs`: where the kernel writes, which may be scratch. */
export function planMap(
  problem: Pick<MapProblem<unknown>, "shape" | "n" | "inputs" | "steps">,
  outputs: Outputs,
): MapPlan {
  const { shape, inputs } = problem;
  const narrow: MapSource[] = [];
  let needsTable = false;
  // With loops, not closures: small calls take as long as the host takes for them.
  for (let k = 0; k < inputs.length; k++) {
    const source = sourceOf(inputs[k]!, problem.n, outputs);
    narrow.push(source);
    if (source === "strided") needsTable = true;
  }
  if (!needsTable && shape.length > 1) needsTable = countedAxes(problem.steps).length > 0;
  if (!needsTable) return { sources: narrow, wide: widthOf(narrow, inputs, outputs, 8), axes: 0, table: [] };

  const last = shape.length - 1;
  const wider = narrow.map((source, k): MapSource => {
    return source === "strided" && inputs[k]!.strides[last] === 0 ? "repeated" : source;
  });
  const inner = shape[last]!;
  const wide = inner % 4 === 0 ? widthOf(wider, inputs, outputs, inner % 8 === 0 ? 8 : 4) : 0;
  const sources = wide === 0 ? narrow : wider;
  const strided = inputs.filter((_, k) => sources[k] === "strided" || sources[k] === "repeated");
  const vector = Math.max(wide, 1);
  const table = shape.flatMap((extent, axis) => {
    const step = axis === last ? vector : 1;
    return [extent / step, ...strided.map(({ strides }) => strides[axis]! * step)];
  });
  return { sources, wide, axes: shape.length, table };
}

/** Returns how many elements an invocation takes as vectors, at most; 0 if regions do not start where vectors do. */
function widthOf(
  sources: readonly MapSource[],
  inputs: readonly MapInput<unknown>[],
  outputs: Outputs,
  most: 4 | 8,
): 0 | 4 | 8 {
  // Eight elements are 16 bytes of halves. What else there is has no such vectors.
  let wide: 4 | 8 = most;
  for (let j = 0; j < outputs.length; j++) {
    const { dtype, region } = outputs[j]!;
    if (region.byteOffset % (4 * dtypeBytes[dtype]) !== 0) return 0;
    if (dtype !== "f16" || region.byteOffset % 16 !== 0) wide = 4;
  }
  for (let k = 0; k < inputs.length; k++) {
    if (sources[k] === "single" || sources[k] === "repeated") continue;
    const { dtype, region } = inputs[k]!;
    if (region.byteOffset % (4 * dtypeBytes[dtype]) !== 0) return 0;
    if (dtype !== "f16" || region.byteOffset % 16 !== 0) wide = 4;
  }
  return wide;
}

function sourceOf({ dtype, region, strides }: MapInput<unknown>, n: number, outputs: Outputs): MapSource {
  for (let j = 0; j < outputs.length; j++) if (isSameRegion(outputs[j]!.region, region)) return j;
  // If it has as many elements as the outputs, its strides are theirs.
  if (n > 1 && region.byteLength === n * dtypeBytes[dtype]) return "contiguous";
  return strides.every((stride) => stride === 0) ? "single" : "strided";
}
