import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { logBindings, logFunction, logName } from "./log-sum-exp.wgsl.js";

/** The form of the results, as in `AttentionForm`. */
export interface MergeForm {
  /** Four head elements at a time; headSize is a multiple of four. Without: one. */
  readonly vector: boolean;
  /** Element type of the results. Without `vector`: f32. */
  readonly stored: FloatType;
  /** One invocation joins all parts of a place: for at most `FEW_PARTS`. */
  readonly few: boolean;
  /** Whether the logarithms of the sums are stored too. */
  readonly logs: boolean;
}

export const FEW_PARTS = 4;

const INVOCATIONS = 256;

/** How invocations share the parts of a place, and how many each reads before it adds the first of them. */
function shares({ few }: Pick<MergeForm, "few">): { readonly groups: number; readonly reads: number } {
  return few ? { groups: 1, reads: FEW_PARTS } : { groups: 16, reads: 8 };
}

/** Returns the workgroups for this many results. */
export function mergeGroups(results: number, form: MergeForm): number {
  return Math.ceil(results / (form.vector ? 4 : 1) / (INVOCATIONS / shares(form).groups));
}

/** In names of programs. */
const suffixes: Readonly<Record<FloatType, string>> = { f32: "", f16: "_f16" };

/** Joins the parts that an attention was split into along the keys; each is scaled to the common maximum. */
export const mergeProgram: (form: MergeForm) => Program = memoized((form: MergeForm): Program => {
  const { vector, stored, few, logs } = form;
  const { groups, reads } = shares(form);
  const places = INVOCATIONS / groups;
  const value = vector ? "vec4f" : "f32";
  const { single, quad, functions, packed } = floatLayouts[stored];
  return program<string, string>({
    name: `attention_merge${vector ? "_4" : ""}${suffixes[stored]}${few ? "_few" : ""}${logName(logs)}`,
    bindings: {
      sums: input(value), // parts x rows x head_size, not normalised
      statistics: input("vec2f"), // parts x rows: maximum score times log2(e), sum of weights
      results: output(vector ? quad : single), // rows x head_size
      ...logBindings(logs), // rows
    },
    parameters: {
      parts: "u32",
      /** Rows of all matrices. */
      rows: "u32",
      head_size: "u32",
    },
    body: wgsl`
${workgroupIndex}
${functions}
var<workgroup> highs: array<f32, ${INVOCATIONS}>;
var<workgroup> totals: array<f32, ${INVOCATIONS}>;
var<workgroup> part_sums: array<${value}, ${INVOCATIONS}>;

${logFunction(logs, "two")}
fn scaled(high: f32, highest: f32) -> f32 { return exp2(max(high - highest, -126.0)); }

// Each invocation joins every ${groups}th part of one place in a row, and the first ones join these.
@compute @workgroup_size(${INVOCATIONS})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${places}u + lane % ${places}u;
  let in_row = parameters.head_size${vector ? " / 4u" : ""};
  let count = parameters.rows * in_row;
  let place = min(index, count - 1u);
  let row = parameters.statistics_offset + place / in_row;
  // A part of which no key is seen has the lowest maximum, and sums of zero.
  var high = -1.0e38;
  var total = 0.0;
  var sum = ${value}();
  let last = parameters.parts - 1u;
  for (var first = lane / ${places}u; first <= last; first += ${groups * reads}u) {
${lines(reads, (i) => `    let part_${i} = min(first + ${i * groups}u, last);`)}
${lines(reads, (i) => `    let statistic_${i} = statistics[row + part_${i} * parameters.rows];`)}
${lines(reads, (i) => `    let sum_${i} = sums[parameters.sums_offset + part_${i} * count + place];`)}
    var highest = high;
${lines(reads, (i) => `    highest = max(highest, statistic_${i}.x);`)}
    let before = scaled(high, highest);
    sum *= before;
    total *= before;
    high = highest;
    // What stands for parts past the last one counts for nothing.
${lines(reads, (i) => `    let factor_${i} = select(0.0, scaled(statistic_${i}.x, highest), first + ${i * groups}u <= last);`)}
${lines(reads, (i) => `    sum += factor_${i} * sum_${i};\n    total += factor_${i} * statistic_${i}.y;`)}
  }
  highs[lane] = high;
  totals[lane] = total;
  part_sums[lane] = sum;
  workgroupBarrier();
  if (lane >= ${places}u || index >= count) { return; }
  for (var i = 1u; i < ${groups}u; i++) { high = max(high, highs[lane + i * ${places}u]); }
  sum = ${value}();
  total = 0.0;
  for (var i = 0u; i < ${groups}u; i++) {
    let factor = scaled(highs[lane + i * ${places}u], high);
    sum += factor * part_sums[lane + i * ${places}u];
    total += factor * totals[lane + i * ${places}u];
  }
  var result = ${value}(); // for a row that sees no key
  if (total > 0.0) { result = sum / total; }
  results[parameters.results_offset + index] = ${packed("result")};
${logs ? "  if (index % in_row == 0u) { store_log(index / in_row, high, total); }\n" : ""}}
`,
  });
});
