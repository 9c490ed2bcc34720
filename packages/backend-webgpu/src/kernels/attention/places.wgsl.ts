import { type AttentionProblem, dtypeBytes, type Rows } from "@backplane/core";
import type { ParameterType } from "../../program/index.js";
import type { DeviceMemory } from "../../runtime/index.js";

/*
 * Where the rows of operands lie. Kernels for contiguous ones have no text for others, whose strides are parameters.
 */

type Problem = AttentionProblem<DeviceMemory>;
type Name = "q" | "k" | "v" | "out";

const names: readonly Name[] = ["q", "k", "v", "out"];
/** `shared`: from a query head to the next of those with the same keys. */
const axes = ["batch", "head", "row", "shared"] as const;

/** Elements from each batch, key head and row of every operand to the next, and so on: `q_batch`, ..., `out_shared`. */
export function placeParameters(apart: boolean): Readonly<Record<string, ParameterType>> {
  if (!apart) return {};
  const strides = names.flatMap((name) => axes.map((axis) => [`${name}_${axis}`, "u32"] as const));
  return { kv_heads: "u32", ...Object.fromEntries(strides) };
}

/** The values of `placeParameters`, of a problem with `rows`. */
export function placeValues(problem: Problem): Readonly<Record<string, number>> {
  const values: Record<string, number> = { kv_heads: problem.kvHeads };
  for (const name of names) {
    const [batch, head, row] = stridesOf(problem, name);
    const ofKeys = name === "q" || name === "out" ? head * groupOf(problem) : head;
    for (const [i, stride] of [batch, ofKeys, row, head].entries()) values[`${name}_${axes[i]}`] = stride;
  }
  return values;
}

/** Query heads that share a key head. */
function groupOf({ heads, kvHeads }: Problem): number {
  return heads / kvHeads;
}

function stridesOf(problem: Problem, name: Name): Rows["strides"] {
  const { rows, heads, kvHeads, queryLength, keyPitch, headSize } = problem;
  const own = rows?.[name];
  if (own !== undefined) return own.strides;
  const [count, length] = name === "q" || name === "out" ? [heads, queryLength] : [kvHeads, keyPitch];
  return [count * length * headSize, length * headSize, headSize];
}

/** Whether rows that lie apart start at multiples of 16 bytes. */
export function areAligned(problem: Problem, name: Name, { strides }: Rows): boolean {
  const bytes = dtypeBytes[problem.dtype];
  return problem[name].byteOffset % 16 === 0 && strides.every((stride) => (stride * bytes) % 16 === 0);
}

/** Whether the rows of all query heads that share a key head are the same number of elements apart. */
export function followOneAnother(problem: Problem, { extents, strides }: Rows): boolean {
  return groupOf(problem) === 1 || strides[1] === extents[2] * strides[2];
}

/** In names of programs. */
export function placesName(apart: boolean): string {
  return apart ? "_apart" : "";
}
