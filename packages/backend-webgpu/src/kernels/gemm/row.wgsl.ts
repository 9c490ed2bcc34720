import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  memoized,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { epilogueName } from "../epilogue.wgsl.js";
import { type ResultForm, resultParameters, resultText } from "./results.wgsl.js";

/** A workgroup of `threads` invocations computes `columns` results, whole quads of them, and sums over all of k. */
export interface RowTile {
  readonly columns: number;
  readonly threads: number;
}

export function rowName({ columns, threads }: RowTile): string {
  return `${columns}x${threads}`;
}

/** Invocations that add up what all of a workgroup have, and then one of them what these have. */
const ADDING = 16;

/** Workgroup memory in bytes. */
export function rowBytes({ columns, threads }: RowTile): number {
  return 4 * columns * threads;
}

/** WGSL expressions of the quads of elements in a variable of 16 bytes. */
const quadsOfBlock: Readonly<Record<FloatType, (name: string) => readonly string[]>> = {
  f32: (name) => [name],
  f16: (name) => [`quad_of(${name}.xy)`, `quad_of(${name}.zw)`],
};

/**
 * One row of A times rows of B (transB), both in whole blocks of 16 bytes. Each invocation multiplies blocks of A, `threads`
 * of them apart, by those of all columns of its workgroup. Sums are never left in parts, so that nothing is to be joined,
 * and neighbouring results come together, so that f16 ones fill their words.
 */
export const rowProgram: (tile: RowTile, form: ResultForm) => Program = memoized(
  (tile: RowTile, form: ResultForm): Program => {
    const { columns, threads } = tile;
    const { dtype } = form;
    const { block, functions } = floatLayouts[dtype];
    const result = resultText(form);
    const quads = columns / 4;
    const eachColumn = (line: (c: number) => string) => lines(columns, line);
    const multiplied = (unit: string, name: string) => {
      const quadsOf = (value: string) => quadsOfBlock[dtype](value);
      const steps = quadsOf("").map((_, i) =>
        [
          `      let quad_${name}_${i} = ${quadsOf(`a_${name}`)[i]};`,
          eachColumn((c) => `      sum_${c} += dot(quad_${name}_${i}, ${quadsOf(`b_${name}_${c}`)[i]});`),
        ].join("\n"),
      );
      return {
        load: `      let a_${name} = a[a_base + ${unit}];\n${eachColumn((c) => `      let b_${name}_${c} = b[b_${c} + ${unit}];`)}`,
        add: steps.join("\n"),
      };
    };
    const [first, second] = [multiplied("unit", "0"), multiplied(`unit + ${threads}u`, "1")];
    return program({
      name: `gemm_row_${rowName(tile)}_${dtype}${form.vectorC ? "_c4" : ""}${form.target === "scratch" ? "_scratch" : ""}${form.readsC ? "_c" : ""}${epilogueName(form)}`,
      bindings: {
        a: input(block), // batch x 1 x k
        b: input(block), // batch x n x k
        ...result.bindings,
      },
      parameters: {
        ...resultParameters,
        /** Blocks of k, and from one row or matrix to the next. */
        units: "u32",
        b_pitch: "u32",
        a_step: "u32",
        b_step: "u32",
        batch: "u32",
      },
      body: wgsl`
${workgroupIndex}
${functions}
${result.functions}
var<workgroup> partial: array<vec4f, ${quads * threads}>; // quads of columns x invocations

@compute @workgroup_size(${threads})
fn main(${linearBuiltins}) {
  let groups = (parameters.n + ${columns - 1}u) / ${columns}u;
  let index = workgroup_index(workgroup, workgroups);
  if (index >= groups * parameters.batch) { return; }
  let matrix = index / groups;
  let column = index % groups * ${columns}u;
  let a_base = parameters.a_offset + matrix * parameters.a_step;
  let b_base = parameters.b_offset + matrix * parameters.b_step;
${eachColumn((c) => `  let b_${c} = b_base + min(column + ${c}u, parameters.n - 1u) * parameters.b_pitch;`)}
${eachColumn((c) => `  var sum_${c} = 0.0;`)}
  var unit = lane;
  for (; unit + ${threads}u < parameters.units; unit += ${2 * threads}u) {
    // All loads first, so that they are under way together.
    {
${first.load}
${second.load}
${first.add}
${second.add}
    }
  }
  if (unit < parameters.units) {
${first.load}
${first.add}
  }
${lines(quads, (q) => `  partial[${q * threads}u + lane] = vec4f(sum_${4 * q}, sum_${4 * q + 1}, sum_${4 * q + 2}, sum_${4 * q + 3});`)}
  workgroupBarrier();
  let quad = lane / ${ADDING}u;
  let start = quad * ${threads}u + lane % ${ADDING}u;
  if (quad < ${quads}u) {
    var total = partial[start];
    for (var i = ${ADDING}u; i < ${threads}u; i += ${ADDING}u) { total += partial[start + i]; }
    partial[start] = total;
  }
  workgroupBarrier();
  if (quad < ${quads}u && lane % ${ADDING}u == 0u) {
    var total = partial[start];
    for (var i = 1u; i < ${ADDING}u; i++) { total += partial[start + i]; }
    store_quad(matrix, 0u, column + 4u * quad, total);
  }
}
`,
    });
  },
);
