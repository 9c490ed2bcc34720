import { type AttentionProblem, dtypeBytes } from "@backplane/core";
import type { BufferRegion, KernelContext, KernelDefinition } from "../../context.js";
import { storeHalves } from "../../halves.js";
import type { DeviceMemory } from "../../memory.js";
import { attentionProgram } from "./attention.wgsl.js";
import { type MergeForm, mergeGroups, mergeProgram } from "./merge.wgsl.js";
import { selectAttention } from "./select.js";
import { thinLanes, thinProgram } from "./thin.wgsl.js";
import type { AttentionShape } from "./variants.js";

type Problem = AttentionProblem<DeviceMemory>;

/** attention; `forced` names a variant to take wherever it fits (see `attentionVariants`). */
export function attentionKernel(forced?: string): KernelDefinition<Problem> {
  return {
    dtypes: ["f32", "f16"],
    run: (context, problem) => runAttention(context, problem, forced),
  };
}

export function runAttention(context: KernelContext, problem: Problem, forced?: string): void {
  const { dtype, out } = problem;
  // Halves are written one quad at a time, or not by the kernel itself: two share a word.
  if (dtype === "f32" || isVector(problem, 4)) {
    enqueue(context, problem, out, forced);
    return;
  }
  // f32 results in scratch are rounded into the output.
  const results = context.scratch(2 * out.byteLength);
  enqueue(context, problem, results, forced);
  storeHalves(context, results, out, { batch: 1, rows: 1, columns: out.byteLength / 2 });
}

/** Whether everything can be read and written four elements at a time, or eight: 16 bytes at most. */
function isVector({ dtype, headSize, q, k, v, out }: Problem, elements: 4 | 8): boolean {
  const unit = Math.min(16, elements * dtypeBytes[dtype]);
  return headSize % elements === 0 && [q, k, v, out].every(({ byteOffset }) => byteOffset % unit === 0);
}

/** Enqueues what leaves results, in the order of the output, in `results`: the output, or scratch for f32. */
function enqueue(
  context: KernelContext,
  problem: Problem,
  results: BufferRegion,
  forced: string | undefined,
): void {
  const { dtype, batch, heads, kvHeads, queryLength, keyLength, headSize, q, k, v } = problem;
  const vector = isVector(problem, 4);
  const shape: AttentionShape = {
    ...{ dtype, matrices: batch * kvHeads, rows: (heads / kvHeads) * queryLength, keyLength, headSize },
    wholeEights: isVector(problem, 8),
  };
  const choice = selectAttention(shape, context.features, forced);
  const parts = Math.ceil(keyLength / choice.partKeys);
  const rows = shape.matrices * shape.rows;
  const parameters = {
    ...{ matrices: shape.matrices, rows: shape.rows, query_length: queryLength, key_length: keyLength },
    ...{ head_size: headSize, part_keys: choice.partKeys, scale: problem.scale * Math.LOG2E },
    visible: problem.visible,
  };
  const isSplit = choice.kind === "thin" || parts > 1;
  const program =
    choice.kind === "thin"
      ? thinProgram({ dtype, lanes: thinLanes(headSize) })
      : attentionProgram(choice.variant.tile, {
          ...{ dtype, vector, columns: choice.columns },
          results: isSplit ? "parts" : vector ? "quads" : "elements",
        });
  const groups = parts * choice.groups;
  if (!isSplit) {
    context.dispatch(program, { q, k, v, results }, parameters, groups);
    return;
  }
  const sums = context.scratch(4 * parts * rows * headSize);
  const statistics = context.scratch(8 * parts * rows);
  context.dispatch(program, { q, k, v, results: sums, statistics }, parameters, groups);
  const form: MergeForm = { vector, halves: vector && dtype === "f16" };
  context.dispatch(
    mergeProgram(form),
    { sums, statistics, results },
    { parts, rows, head_size: headSize },
    mergeGroups(rows * headSize, form),
  );
}
