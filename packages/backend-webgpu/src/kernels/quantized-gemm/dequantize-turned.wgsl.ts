import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { type DequantizeForm, weightsEach } from "./dequantize.wgsl.js";
import {
  quadOfRun,
  type WeightForm,
  weightBindings,
  weightFunctions,
  weightName,
  weightParameters,
} from "./weights.wgsl.js";

/** Rows of B that one invocation takes side by side: eight halves are written at once. */
export const turnedRows = 8;

/** Runs next to one another that neighbours take: so 32 invocations read and write nothing but whole sectors of 32 bytes. */
const RUNS = 8;
const UNITS: number = WORKGROUP_SIZE / RUNS;

type Parameter = "units" | "runs" | "block_shift";

/** Workgroups for B with so many units of rows, and so many runs in each. */
export function turnedGroups(units: number, runs: number): number {
  return Math.ceil(units / UNITS) * Math.ceil(runs / RUNS);
}

/**
 * As `dequantizeProgram`, with rows and columns exchanged, so that gemm has no need to turn the weights: weights[p][j] = B[j][p],
 * for multiples of `turnedRows` rows.
 */
export function dequantizeTurnedProgram(form: DequantizeForm): Program<string, Parameter> {
  const { dtype, scaleType } = form;
  const { block, functions } = floatLayouts[dtype];
  const stored: WeightForm = { ...form, run: weightsEach, alignedB: false };
  const rows = Array.from({ length: turnedRows }, (_, j) => j);
  return program<string, Parameter>({
    name: `dequantize_turned_${weightName(stored)}_${dtype}`,
    light: true,
    bindings: { ...weightBindings(stored), weights: output(block) },
    /** Units: eighths of the rows of B. Runs: eighths of such a row. */
    parameters: { units: "u32", runs: "u32", ...weightParameters },
    body: wgsl`
${workgroupIndex}
${functions}
${scaleType === dtype ? "" : floatLayouts[scaleType].functions}
${weightFunctions(stored)}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let across = (parameters.runs + ${RUNS - 1}u) / ${RUNS}u;
  let run = group % across * ${RUNS}u + lane % ${RUNS}u;
  let unit = group / across * ${UNITS}u + lane / ${RUNS}u;
  if (run >= parameters.runs || unit >= parameters.units) { return; }
  let shift = parameters.block_shift - ${Math.log2(weightsEach)}u;
${lines(turnedRows, (j) => {
  const at = `(unit * ${turnedRows}u + ${j}u) * parameters.runs + run`;
  return `  let at_${j} = ${at};
  let run_${j} = run_of(at_${j});
  let scale_${j} = scale_of(at_${j} >> shift);
  let magic_${j} = magic_of(at_${j} >> shift);`;
})}
${lines(2, (half) =>
  lines(
    turnedRows,
    (j) => `  let quad_${half}_${j} = ${quadOfRun(stored, `run_${j}`, half, `magic_${j}`)} * scale_${j};`,
  ),
)}
${lines(weightsEach, (p) => {
  const values = rows.map((j) => `quad_${Math.floor(p / 4)}_${j}.${"xyzw"[p % 4]}`);
  return `  {
    let at = parameters.weights_offset + ((run * ${weightsEach}u + ${p}u) * parameters.units + unit) * ${unitBlocks[dtype]}u;
${written[dtype](values)}
  }`;
})}
}
`,
  });
}

/** Blocks of a unit where weights are written. */
const unitBlocks: Readonly<Record<FloatType, number>> = { f32: 2, f16: 1 };

const written: Readonly<Record<FloatType, (values: readonly string[]) => string>> = {
  f32: (values) => `    weights[at] = vec4f(${values.slice(0, 4).join(", ")});
    weights[at + 1u] = vec4f(${values.slice(4).join(", ")});`,
  f16: (values) => {
    const pairs = [0, 2, 4, 6].map((j) => `pack_halves(${values[j]}, ${values[j + 1]})`);
    return `    weights[at] = vec4u(${pairs.join(", ")});`;
  },
};
