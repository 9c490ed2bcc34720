import type { AttentionProblem } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../../runtime/index.js";
import { attentionProgram } from "../attention.wgsl.js";
import { type AttentionShape, outputColumns, type SplitVariant } from "../variants.js";
import { EXTENT, extentsProgram, factsProgram, splitRowsProgram } from "./parts.wgsl.js";
import { attentionSplitProgram } from "./product.wgsl.js";

type Problem = AttentionProblem<DeviceMemory>;

/** Attention in f32 through f16 parts, with contiguous rows. */
export function enqueueSplitAttention(
  context: KernelContext,
  problem: Problem,
  shape: AttentionShape,
  { tile, columns, plain }: SplitVariant,
): void {
  const { q, k, v, out, queryLength, keyLength, keyPitch, headSize, visible } = problem;
  const { matrices, rows } = shape;
  const chunks = (length: number) => Math.ceil((length * headSize) / EXTENT);
  const [queryChunks, keyChunks] = [chunks(rows), chunks(keyLength)];
  const extents = context.scratch(8 * matrices * (queryChunks + 2 * keyChunks));
  const facts = context.scratch(16 * matrices);
  const tiles = Math.ceil(rows / tile.queries);
  const left = context.scratch(4 * matrices * tiles);
  const lookAt = (source: BufferRegion, first: number, length: number, pitch: number) => {
    const count = matrices * chunks(length);
    const region = {
      memory: extents.memory,
      byteOffset: extents.byteOffset + 8 * first,
      byteLength: 8 * count,
    };
    const parameters = { matrices, quads: (length * headSize) / 4, step: (pitch * headSize) / 4 };
    context.dispatch(extentsProgram, { source, extents: region }, parameters, count);
  };
  lookAt(q, 0, rows, rows);
  lookAt(k, matrices * queryChunks, keyLength, keyPitch);
  lookAt(v, matrices * (queryChunks + keyChunks), keyLength, keyPitch);
  const scale = problem.scale * Math.LOG2E;
  context.dispatch(
    factsProgram,
    { extents, facts },
    {
      ...{ matrices, query_chunks: queryChunks, key_chunks: keyChunks },
      scale_exponent: scale === 0 ? 0 : Math.floor(Math.log2(Math.abs(scale))),
    },
    matrices,
  );
  const split = (source: BufferRegion, fact: number) => {
    const parts = context.scratch(4 * matrices * keyLength * columns);
    context.dispatch(
      splitRowsProgram,
      { source, facts, parts },
      { matrices, rows: keyLength, head_size: headSize, step: keyPitch * headSize, columns, fact },
      Math.ceil((matrices * keyLength * (columns / 8)) / WORKGROUP_SIZE),
    );
    return parts;
  };
  const parameters = {
    ...{ matrices, rows, query_length: queryLength, key_length: keyLength, head_size: headSize },
    ...{ part_keys: keyLength, scale, visible },
  };
  context.dispatch(
    attentionSplitProgram(tile, columns),
    { q, k: split(k, 1), v: split(v, 2), facts, results: out, left },
    { ...parameters, key_pitch: keyLength },
    matrices * tiles,
  );
  const outColumns = outputColumns(plain).find((count) => count >= headSize)!;
  context.dispatch(
    attentionProgram(plain, {
      ...{ dtype: "f32", vector: true, columns: outColumns, results: "quads", onlyLeft: tile.queries },
    }),
    { q, k, v, results: out, left },
    { ...parameters, key_pitch: keyPitch },
    Math.ceil(rows / plain.queries) * Math.ceil(headSize / outColumns) * matrices,
  );
}
