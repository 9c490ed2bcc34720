import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { operandText } from "../tiles/index.js";

/** How an operand lies before it is packed. Its lines are the rows of op(A), or the columns of op(B). */
export interface UnpackedForm {
  readonly dtype: FloatType;
  /** Consecutive k lie next to each other in memory; else consecutive lines do. */
  readonly contiguousDepth: boolean;
  /** Every run of four in that direction is whole and aligned to four elements. */
  readonly vector: boolean;
}

/** Quads of k and of lines that one workgroup packs: neighbours read neighbouring addresses. */
function extentOf({ contiguousDepth }: UnpackedForm): { deep: number; wide: number } {
  const deep = contiguousDepth ? 8 : 1;
  return { deep, wide: WORKGROUP_SIZE / deep };
}

/** Returns the workgroups that pack this many lines and k of this many matrices. */
export function packGroups(form: UnpackedForm, lineCount: number, k: number, matrices: number): number {
  const { deep, wide } = extentOf(form);
  return matrices * Math.ceil(k / (4 * deep)) * Math.ceil(lineCount / (4 * wide));
}

/**
 * packed[matrix][k][line] = the operand's element at k of that line, as f32; zeros from `k` up to `packed_k`,
 * a multiple of 4. Each k has whole quads of lines: the last quad is filled with copies of the last line. One
 * invocation packs four k of four lines.
 */
export const kMajorProgram: (
  form: UnpackedForm,
) => Program<"source" | "packed", "lines" | "k" | "packed_k" | "pitch" | "step" | "matrices"> = memoized(
  (form: UnpackedForm) => {
    const { dtype, contiguousDepth, vector } = form;
    const source = operandText("source", dtype, vector);
    const { deep, wide } = extentOf(form);
    const [along, across] = contiguousDepth ? (["depth", "line"] as const) : (["line", "depth"] as const);
    const end = { depth: "parameters.k", line: "parameters.lines" };
    // Past an end: the last one again, or the last quad.
    const load = (i: number) => {
      const start = `base + min(${across} + ${i}u, ${end[across]} - 1u) * parameters.pitch`;
      if (vector) return `source_load4(${start} + min(${along}, ${end[along]} - 4u))`;
      return fours((j) => `source_load1(${start} + min(${along} + ${j}u, ${end[along]} - 1u))`);
    };
    const isReal = (i: number) => (contiguousDepth ? "is_real" : `is_real[${i}]`);
    const result = (i: number) => (contiguousDepth ? fours((j) => `value_${j}.${"xyzw"[i]}`) : `value_${i}`);
    return program({
      name: `gemm_k_major_${dtype}_${contiguousDepth ? "k" : "lines"}${vector ? "4" : ""}`,
      bindings: { source: source.storage, packed: output("vec4f") },
      // pitch and step: elements of the source from one stored row, and from one matrix, to the next.
      parameters: { lines: "u32", k: "u32", packed_k: "u32", pitch: "u32", step: "u32", matrices: "u32" },
      light: true,
      body: wgsl`
${workgroupIndex}${floatLayouts[dtype].functions}${source.functions}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let groups_deep = (parameters.packed_k + ${4 * deep - 1}u) / ${4 * deep}u;
  let groups = groups_deep * ((parameters.lines + ${4 * wide - 1}u) / ${4 * wide}u);
  let group = workgroup_index(workgroup, workgroups);
  let matrix = group / groups;
  let depth = (group % groups_deep * ${deep}u + lane % ${deep}u) * 4u;
  let line = (group % groups / groups_deep * ${wide}u + lane / ${deep}u) * 4u;
  if (matrix >= parameters.matrices || depth >= parameters.packed_k || line >= parameters.lines) { return; }
  let base = parameters.source_offset * source_unit + matrix * parameters.step;
  let is_real = vec4u(depth) + vec4u(0u, 1u, 2u, 3u) < vec4u(parameters.k);
${lines(4, (i) => `  let value_${i} = select(vec4f(), ${load(i)}, ${isReal(i)});`)}
  let quads = (parameters.lines + 3u) / 4u;
  let at = parameters.packed_offset + (matrix * parameters.packed_k + depth) * quads + line / 4u;
${lines(4, (i) => `  packed[at + ${i}u * quads] = ${result(i)};`)}
}
`,
    });
  },
);

function fours(text: (i: number) => string): string {
  return `vec4f(${[0, 1, 2, 3].map(text).join(", ")})`;
}
