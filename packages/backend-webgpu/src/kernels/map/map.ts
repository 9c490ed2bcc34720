import { dtypeBytes, type MapOutput, mapLimits } from "@backplane/core";
import { type Program, WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { elementsOf, type MapTile, mapProgram } from "./map.wgsl.js";
import { type MapPart, type MapPlan, planMap } from "./select.js";

interface MapKernel {
  readonly program: Program;
  readonly elements: number;
}

/** By the structure of the expression, and then by how its operands lie. */
const kernels = new Map<string, Map<string, MapKernel>>();
let made = 0;

function kernelOf(problem: MapPart, { sources, wide, axes }: MapPlan): MapKernel {
  let known = kernels.get(problem.key);
  if (known === undefined) {
    known = new Map();
    kernels.set(problem.key, known);
  }
  let form = `${wide}${axes}`;
  for (let k = 0; k < sources.length; k++) form += sources[k];
  let kernel = known.get(form);
  if (kernel === undefined) {
    const { inputs, outputs, parameters, steps } = problem;
    const tile: MapTile = {
      ...{ wide, axes, steps, results: outputs.map(({ result }) => result) },
      inputs: inputs.map(({ dtype }, k) => ({ dtype, source: sources[k]! })),
      outputs: outputs.map(({ dtype }) => dtype),
      parameters: parameters.map(({ type }) => type),
    };
    const name = `map_${made++}_${steps.length}_${problem.dtype}_${wide === 0 ? "narrow" : `wide${wide}`}`;
    kernel = { program: mapProgram(name, tile), elements: elementsOf(tile) };
    known.set(form, kernel);
  }
  return kernel;
}

/** The names of bindings and parameters, which longer texts would make anew in every call. */
const names = (start: string, count: number) => Array.from({ length: count }, (_, i) => `${start}${i}`);
// A problem may have steps as inputs, beside those of the call.
const inputNames = names("in", mapLimits.inputs + mapLimits.nodes);
const outputNames = names("out", mapLimits.outputs);
const parameterNames = names("p", mapLimits.parameters);
const startNames = names("start_", mapLimits.axes);

/** Runs a problem all of whose operands the device can bind at once. */
export function runWhole(context: KernelContext, problem: MapPart): void {
  const { n, inputs, parameters, starts } = problem;
  const moved: (readonly [to: BufferRegion, from: BufferRegion])[] = [];
  const outputs = problem.outputs.length === 1 ? problem.outputs : placed(context, problem.outputs, moved);
  const plan = planMap(problem, outputs);
  const { program, elements } = kernelOf(problem, plan);
  const regions: Record<string, BufferRegion> = {};
  for (let k = 0; k < inputs.length; k++)
    if (typeof plan.sources[k] !== "number") regions[inputNames[k]!] = inputs[k]!.region;
  for (let j = 0; j < outputs.length; j++) regions[outputNames[j]!] = outputs[j]!.region;
  // More than the program may have: it takes what it needs.
  const phase = plan.wide === 0 ? phaseOf(outputs) : 0;
  const values: Record<string, number | readonly number[]> = { n, phase };
  for (let k = 0; k < parameters.length; k++) values[parameterNames[k]!] = parameters[k]!.value;
  for (let axis = 0; axis < problem.shape.length; axis++) values[startNames[axis]!] = starts?.[axis] ?? 0;
  if (plan.axes > 0) values.axes = plan.table;
  context.dispatch(program, regions, values, Math.ceil((n + phase) / elements / WORKGROUP_SIZE));
  for (let i = 0; i < moved.length; i++) context.copy(moved[i]![0], moved[i]![1]);
}

type Output = MapOutput<DeviceMemory>;

/**
 * Returns how many elements before the outputs a word begins in each of them that has several to a word. The first output of
 * bytes decides it, and else the first one of halves.
 */
function phaseOf(outputs: readonly Output[]): number {
  const decisive =
    outputs.find(({ dtype }) => dtype === "u8") ?? outputs.find(({ dtype }) => dtype === "f16");
  return decisive === undefined ? 0 : (decisive.region.byteOffset % 4) / dtypeBytes[decisive.dtype];
}

/**
 * Returns where the kernel writes. Scratch replaces outputs that share a buffer with another one, for no buffer can be bound
 * twice to be written, and those whose words begin at other elements, for each invocation writes whole words.
 */
function placed(
  context: KernelContext,
  outputs: readonly Output[],
  moved: (readonly [to: BufferRegion, from: BufferRegion])[],
): readonly Output[] {
  const phase = phaseOf(outputs);
  const isBound = ({ dtype, region }: Output, j: number) =>
    (region.byteOffset - phase * dtypeBytes[dtype]) % 4 === 0 &&
    !outputs.some((other, i) => i < j && other.region.memory === region.memory);
  if (outputs.every(isBound)) return outputs;
  return outputs.map((output, j) => {
    if (isBound(output, j)) return output;
    const { dtype, region } = output;
    const before = (phase * dtypeBytes[dtype]) % 4;
    const { memory, byteOffset } = context.scratch(before + region.byteLength);
    const aside = { memory, byteOffset: byteOffset + before, byteLength: region.byteLength };
    moved.push([region, aside]);
    return { ...output, region: aside };
  });
}
