import type { AttentionProblem } from "@backplane/core";
import type { BufferRegion, KernelContext, KernelDefinition } from "../../context.js";
import { storeHalves } from "../../halves.js";
import type { DeviceMemory } from "../../memory.js";
import { WORKGROUP_SIZE } from "../../wgsl.js";
import { attentionProgram } from "./attention.wgsl.js";
import { mergeProgram } from "./merge.wgsl.js";
import { attentionGroups, selectAttention } from "./select.js";
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
  const { dtype, batch, out } = problem;
  if (dtype === "f32") {
    enqueue(context, problem, out, forced);
    return;
  }
  // f32 results in scratch are rounded into the output, as much at once as one binding may hold.
  const bytes = 2 * out.byteLength;
  if (bytes > context.features.limits.maxStorageBufferBindingSize && batch > 1) {
    const first = Math.ceil(batch / 2);
    runAttention(context, someOf(problem, 0, first), forced);
    runAttention(context, someOf(problem, first, batch), forced);
    return;
  }
  const results = context.scratch(bytes);
  enqueue(context, problem, results, forced);
  storeHalves(context, results, out, { batch: 1, rows: 1, columns: out.byteLength / 2 });
}

/** The part of a problem that is about the entries of the batch from `first` to before `end`. */
function someOf(problem: Problem, first: number, end: number): Problem {
  const part = (region: BufferRegion): BufferRegion => {
    const bytes = region.byteLength / problem.batch;
    return { ...region, byteOffset: region.byteOffset + first * bytes, byteLength: (end - first) * bytes };
  };
  const { q, k, v, out } = problem;
  return { ...problem, batch: end - first, q: part(q), k: part(k), v: part(v), out: part(out) };
}

/** Enqueues what leaves f32 results, in the order of the output, in `results`. */
function enqueue(
  context: KernelContext,
  problem: Problem,
  results: BufferRegion,
  forced: string | undefined,
): void {
  const { dtype, batch, heads, kvHeads, queryLength, keyLength, headSize, q, k, v } = problem;
  const shape: AttentionShape = {
    ...{ dtype, matrices: batch * kvHeads, rows: (heads / kvHeads) * queryLength, keyLength, headSize },
  };
  const { variant, columns, partKeys } = selectAttention(shape, context.features, forced);
  const parts = Math.ceil(keyLength / partKeys);
  const unit = dtype === "f32" ? 16 : 8;
  const vector = headSize % 4 === 0 && [q, k, v].every(({ byteOffset }) => byteOffset % unit === 0);
  const program = attentionProgram(variant.tile, { dtype, vector, columns, parts: parts > 1 });
  const rows = shape.matrices * shape.rows;
  const parameters = {
    ...{ matrices: shape.matrices, rows: shape.rows, query_length: queryLength, key_length: keyLength },
    ...{ head_size: headSize, part_keys: partKeys, scale: problem.scale, visible: problem.visible },
  };
  const groups = parts * attentionGroups(shape, variant, columns);
  if (parts === 1) {
    context.dispatch(program, { q, k, v, results }, parameters, groups);
    return;
  }
  const sums = context.scratch(4 * parts * rows * headSize);
  const statistics = context.scratch(8 * parts * rows);
  context.dispatch(program, { q, k, v, results: sums, statistics }, parameters, groups);
  context.dispatch(
    mergeProgram,
    { sums, statistics, results },
    { parts, rows, head_size: headSize },
    Math.ceil((rows * headSize) / WORKGROUP_SIZE),
  );
}
