import { type DType, type MapOutput, type MapStep, type MapType, structureOf } from "@backplane/core";
import type { DeviceMemory, KernelContext } from "../../runtime/index.js";
import { isSameRegion } from "../same-region.js";
import { dependencies } from "./expression.wgsl.js";
import { runWhole } from "./map.js";
import type { MapPart } from "./select.js";

/** Runs a problem of any number of operands, in several parts if the device cannot bind so many at once. */
export function runMap(context: KernelContext, problem: MapPart): void {
  const limit = context.features.limits.maxStorageBuffersPerShaderStage;
  // Inputs under outputs need no binding of their own, but few problems are so large that it matters.
  if (problem.inputs.length + problem.outputs.length <= limit || bindings(problem) <= limit) {
    runWhole(context, problem);
    return;
  }
  let rest = problem;
  // Steps that several inputs lead to become inputs themselves, until each output needs few enough.
  for (let cut = cutOf(rest, limit - 1); cut !== undefined; cut = cutOf(rest, limit - 1))
    rest = withInput(context, rest, cut);
  runGroups(context, rest, limit);
}

function bindings({ inputs, outputs }: MapPart): number {
  const own = inputs.filter(({ region }) => !outputs.some((output) => isSameRegion(output.region, region)));
  return own.length + outputs.length;
}

/**
 * Returns the step to compute first, the one with the most inputs that a kernel can bind; undefined if every output can be
 * computed by a kernel of its own.
 */
function cutOf({ steps, outputs }: MapPart, most: number): number | undefined {
  const needs = dependencies(steps);
  if (outputs.every(({ result }) => needs[result]!.size <= most)) return undefined;
  let best: number | undefined;
  for (const [place, { size }] of needs.entries())
    if (steps[place]!.step !== "input" && size <= most && size > (best === undefined ? 1 : needs[best]!.size))
      best = place;
  return best;
}

/** Computes a step into scratch, which then is an input of what is left. */
function withInput(context: KernelContext, problem: MapPart, cut: number): MapPart {
  const { n, steps, inputs, outputs } = problem;
  const dtype: MapType = steps[cut]!.type;
  const region = context.scratch(n * (dtype === "u8" ? 1 : 4));
  runMap(context, part(problem, steps, [{ dtype, region, result: cut }]));
  // Contiguous, as outputs are.
  let step = 1;
  const strides = problem.shape.toReversed().map((extent) => {
    step *= extent;
    return step / extent;
  });
  const replaced: MapStep[] = [...steps];
  replaced[cut] = { step: "input", type: dtype, input: inputs.length };
  const more = { ...problem, inputs: [...inputs, { dtype, region, strides: strides.toReversed() }] };
  return part(more, replaced, outputs);
}

/** Runs as many outputs at once as fit, the others afterwards. */
function runGroups(context: KernelContext, problem: MapPart, limit: number): void {
  const { steps, inputs, outputs } = problem;
  const needs = dependencies(steps);
  const groups: MapOutput<DeviceMemory>[][] = [];
  let used = new Set<number>();
  for (const output of outputs) {
    const together = new Set([...used, ...needs[output.result]!]);
    const group = groups.at(-1);
    if (group !== undefined && together.size + group.length + 1 <= limit) {
      group.push(output);
      used = together;
    } else {
      groups.push([output]);
      used = new Set(needs[output.result]);
    }
  }
  const moved: (readonly [to: MapOutput<DeviceMemory>, from: MapOutput<DeviceMemory>])[] = [];
  for (const [i, group] of groups.entries()) {
    // What later groups read must stay as it is until they have run.
    const placed = group.map((output) => {
      const isRead =
        i < groups.length - 1 && inputs.some(({ region }) => isSameRegion(region, output.region));
      if (!isRead) return output;
      const aside = { ...output, region: context.scratch(output.region.byteLength) };
      moved.push([output, aside]);
      return aside;
    });
    runWhole(context, part(problem, steps, placed));
  }
  for (const [to, from] of moved) context.copy(to.region, from.region);
}

/** The problem with other outputs, without what they do not need. */
function part(
  problem: MapPart,
  steps: readonly MapStep[],
  outputs: readonly MapOutput<DeviceMemory>[],
): MapPart {
  const types = problem.inputs.map(({ dtype }): DType => dtype);
  const structure = structureOf(
    steps,
    outputs.map(({ result }) => result),
    types,
    outputs.map(({ dtype }) => dtype),
  );
  return {
    ...problem,
    dtype: outputs[0]!.dtype,
    inputs: structure.inputs.map((i) => problem.inputs[i]!),
    outputs: outputs.map((output, j) => ({ ...output, result: structure.results[j]! })),
    parameters: structure.parameters.map((i) => problem.parameters[i]!),
    steps: structure.steps,
    key: structure.key,
  };
}
