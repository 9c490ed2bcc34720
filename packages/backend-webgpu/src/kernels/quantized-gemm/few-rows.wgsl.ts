import type { Activation, FloatType } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { activated, activationText, epilogueName } from "../epilogue.wgsl.js";
import {
  loadStored,
  type StoredAs,
  type WeightForm,
  weightBindings,
  weightFunctions,
  weightName,
  weightParameters,
} from "./weights.wgsl.js";

/** Rows of A that a workgroup takes. */
export type Rows = 1 | 2 | 4 | 8;

/** How results leave: f32 to C or to scratch, or two f16 in each word of C. */
export type Target = "single" | "pairs";

export interface FewRowsForm extends WeightForm {
  readonly dtype: FloatType;
  readonly rows: Rows;
  readonly storedAs: StoredAs;
  /** Every run of four along the rows of A is whole and aligned. */
  readonly vectorA: boolean;
  readonly target: Target;
  readonly bias: boolean;
  readonly activation: Activation | undefined;
}

/** Invocations that share a sum, along k; groups of these in a workgroup; columns that each group computes. */
const LANES = 32;
const SPAN = 4;
export const columnsEach = 4;
export const columnsPerWorkgroup: number = SPAN * columnsEach;

const THREADS = LANES * SPAN;

export type FewRowsParameter = "m" | "n" | "k" | "units" | "pitch" | "block_shift";

/**
 * A few rows of A times 16 rows of B. One invocation takes every 32nd unit of 16 bytes of 4 rows of B: it loads the
 * four, then multiplies their weights by each row of A. Sums of 32 invocations are added in a tree.
 */
export function fewRowsProgram(form: FewRowsForm): Program<string, FewRowsParameter> {
  const { bits, dtype, rows, storedAs, vectorA, target, bias, activation } = form;
  const layout = floatLayouts[dtype];
  const sums = rows * columnsEach;
  const isPairs = target === "pairs";
  const unit = 128 / bits;
  const quadsPerWord = 8 / bits;
  const word = (column: number, quad: number) => `stored_${column}.x${quad === 0 ? "" : " >> 16u"}`;
  const name = `quantized_gemm_${rows}_rows_${weightName(form)}`;
  return program<string, FewRowsParameter>({
    name: `${name}_${storedAs}${vectorA ? "_v" : ""}_${dtype}${isPairs ? "_pairs" : ""}${epilogueName(form)}`,
    bindings: {
      a: input(vectorA ? layout.quad : layout.single),
      ...weightBindings(form, storedAs),
      ...(bias ? { bias: input(layout.single) } : {}),
      c: output(isPairs ? "half" : "f32"),
    },
    parameters: {
      ...{ m: "u32", n: "u32", k: "u32" },
      /** Of 16 bytes, of a row of B. */
      units: "u32",
      /** Elements from one row of the results to the next. */
      pitch: "u32",
      ...weightParameters,
    },
    body: wgsl`
${workgroupIndex}
${layout.functions}
${form.scaleType === dtype ? "" : floatLayouts[form.scaleType].functions}
${activationText(activation, dtype)}
${weightFunctions(form)}
${loadStored("stored_unit", 4, storedAs)}
var<workgroup> partial: array<f32, ${sums * THREADS}>;

/// Four elements of a row of A; zeros past its end.
fn four_of(row: u32, p: u32) -> vec4f {
${
  vectorA
    ? `  if (p >= parameters.k) { return vec4f(); }
  let quad = a[parameters.a_offset + ((row * parameters.k + p) >> 2u)];
  return ${layout.unpacked("quad")};`
    : `  let at = parameters.a_offset + row * parameters.k + p;
  var quad = vec4f();
  for (var i = 0u; i < 4u; i++) {
    let place = at + i;
    if (p + i < parameters.k) { quad[i] = ${layout.load("a", "place")}; }
  }
  return quad;`
}
}

fn finished(total: f32, column: u32) -> f32 {
  var value = total;
  ${
    bias
      ? `let bias_at = parameters.bias_offset + column;
  value += ${layout.load("bias", "bias_at")};`
      : ""
  }
  return ${activated(activation, "value")};
}

@compute @workgroup_size(${THREADS})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let groups = (parameters.n + ${columnsPerWorkgroup - 1}u) / ${columnsPerWorkgroup}u;
  let row_group = group / groups;
  let first_row = row_group * ${rows}u;
  if (first_row >= parameters.m) { return; }
  let slice = lane & ${LANES - 1}u;
  let column = (group - row_group * groups) * ${columnsPerWorkgroup}u + (lane / ${LANES}u) * ${columnsEach}u;
${lines(rows, (r) => `  let row_${r} = min(first_row + ${r}u, parameters.m - 1u);`)}
${lines(columnsEach, (c) => `  let first_${c} = min(column + ${c}u, parameters.n - 1u) * parameters.units;`)}
${lines(sums, (i) => `  var sum_${i} = 0.0;`)}
  let to_block = parameters.block_shift - ${Math.log2(unit)}u;
  for (var at = slice; at < parameters.units; at += ${LANES}u) {
${lines(columnsEach, (c) => `    var stored_${c} = stored_unit(first_${c} + at);`)}
${lines(
  columnsEach,
  (c) => `    let block_${c} = (first_${c} + at) >> to_block;
    let scale_${c} = scale_of(block_${c});
    let magic_${c} = magic_of(block_${c});`,
)}
    var p = at * ${unit}u;
    // Compilers for GPUs unroll this; written out, software adapters would take minutes to compile it.
    for (var word = 0u; word < 4u; word++) {
${lines(
  quadsPerWord,
  (q) => `    {
${lines(columnsEach, (c) => `      let weights_${c} = weights_of(${word(c, q)}, magic_${c}, scale_${c});`)}
${lines(
  rows,
  (r) => `      let a_${r} = four_of(row_${r}, p + ${4 * q}u);
${lines(columnsEach, (c) => `      sum_${r * columnsEach + c} += dot(a_${r}, weights_${c});`)}`,
)}
    }`,
)}
      p += ${unit / 4}u;
${lines(columnsEach, (c) => `      stored_${c} = stored_${c}.yzwx;`)}
    }
  }
${lines(sums, (i) => `  partial[${i * THREADS}u + lane] = sum_${i};`)}
  for (var half = ${LANES / 2}u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (slice < half) {
${lines(sums, (i) => `      partial[${i * THREADS}u + lane] += partial[${i * THREADS}u + lane + half];`)}
    }
  }
  workgroupBarrier();
  if (slice >= ${sums}u) { return; }
  let own_row = first_row + slice / ${columnsEach}u;
  let own = column + slice % ${columnsEach}u;
  if (own_row >= parameters.m || own >= parameters.n) { return; }
  let at = slice * ${THREADS}u + lane - slice;
  let place = parameters.c_offset + own_row * parameters.pitch + own;
  ${
    isPairs
      ? `if ((slice & 1u) == 0u) {
    c[place >> 1u] = pack_halves(finished(partial[at], own), finished(partial[at + ${THREADS}u], own + 1u));
  }`
      : "c[place] = finished(partial[at], own);"
  }
}
`,
  });
}
