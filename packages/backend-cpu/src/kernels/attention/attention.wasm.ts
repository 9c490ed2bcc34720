import type { FloatType } from "@backplane/core";
import { type FunctionBuilder, f32x4, i32, type Local, type Value, v128 } from "../../wasm/index.js";
import { type Elements, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel, type KernelContext } from "../kernel.js";
import { exponential, logarithm } from "../math/index.js";
import { emitTile, tileColumns, tileRows } from "../tile/index.js";
import { mapVectors } from "../vector/index.js";
import {
  emitForgotten,
  emitMasked,
  type Hiding,
  type HidingTypes,
  hidingTypes,
  maskOfHead,
  totalOrOne,
} from "./hiding.wasm.js";
import { blockQueries, keyTile, queryTile, rowBytes, scoreRows } from "./layout.js";
import { emitPacked } from "./pack.wasm.js";
import { emitMask, emitSoftmax } from "./softmax.wasm.js";

const parameterTypes = {
  q: "i32",
  k: "i32",
  v: "i32",
  out: "i32",
  /** 0: it is not stored. */
  logSumExp: "i32",
  heads: "i32",
  kvHeads: "i32",
  /** Query heads for each key head. */
  group: "i32",
  queryLength: "i32",
  keyLength: "i32",
  /** Rows from one key head to the next. */
  keyPitch: "i32",
  headSize: "i32",
  scale: "f32",
  /** Query i sees the keys j <= i + visible; signed. */
  visible: "i32",
  /** Query tiles per head. */
  tiles: "i32",
  /** Address of the first worker's workspace, and bytes to the next one's. */
  workspace: "i32",
  workspaceBytes: "i32",
  /** Offsets within it, see `AttentionLayout`. */
  sums: "i32",
  scores: "i32",
  statistics: "i32",
  corrections: "i32",
  keys: "i32",
  values: "i32",
  paddedSize: "i32",
} as const;

export type AttentionTypes = typeof parameterTypes;

/** Scores of one block. */
const scoreBytes = rowBytes * scoreRows;

/**
 * One tile of queries of one head against all the keys they see, key tile by key tile, with the
 * online softmax of M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018),
 * fused as in T. Dao et al., "FlashAttention" (2022):
 *
 *   m' = max(m, largest score)    p[j] = e^(score[j] - m')
 *   l' = l e^(m - m') + sum p     o' = o e^(m - m') + sum p[j] v[j]      and at the end  o / l
 *
 * Lanes run along 8 queries for the scores and the softmax, and along the head for the sums. Keys
 * that a query does not see never enter its sums, not even with weight 0: they may hold NaN.
 */
export function attentionKernel(dtype: FloatType): Kernel<AttentionTypes> {
  return defineKernel({
    name: `attention_${dtype}`,
    parameters: parameterTypes,
    emit: (f, context) => emitAttention(f, context, dtype),
  });
}

/** With masks and windows. What a mask hides has weight 0. */
export function hidingAttentionKernel(dtype: FloatType): Kernel<AttentionTypes & HidingTypes> {
  return defineKernel({
    name: `attention_hiding_${dtype}`,
    parameters: { ...parameterTypes, ...hidingTypes },
    emit: (f, context) => emitAttention(f, context, dtype, context.parameters),
  });
}

function emitAttention(
  f: FunctionBuilder,
  { parameters, chunk, worker, features }: KernelContext<AttentionTypes>,
  dtype: FloatType,
  hiding?: Hiding,
): void {
  const { headSize, queryLength, keyLength, visible, tiles, paddedSize } = parameters;
  const elements = elementsOf(f, dtype);
  const exp = exponential(f);
  const scale = f.let(f32x4.splat(parameters.scale));
  const minusInfinity = f.let(f32x4.const(Number.NEGATIVE_INFINITY));
  const zero = f.let(f32x4.const(0));
  const one = f.let(f32x4.const(1));
  // Queries whose sums are computed together: both divide the query tile.
  const sumRows = tileRows(features);

  const queries = f.let(i32.add(parameters.workspace, i32.mul(worker, parameters.workspaceBytes)));
  const sums = f.let(i32.add(queries, parameters.sums));
  const scores = f.let(i32.add(queries, parameters.scores));
  const statistics = f.let(i32.add(queries, parameters.statistics));
  const corrections = f.let(i32.add(queries, parameters.corrections));
  /** From one block of 8 queries to the next, in `queries` and in `sums`. */
  const blockBytes = f.let(i32.mul(paddedSize, rowBytes));
  const paddedBytes = f.let(i32.shl(paddedSize, 2));

  const head = f.let(i32.divU(chunk, tiles));
  const maskHead = hiding && f.let(maskOfHead(hiding, parameters.heads, head));
  const firstQuery = f.let(i32.mul(i32.remU(chunk, tiles), queryTile));
  const queryCount = f.let(i32.minU(i32.sub(queryLength, firstQuery), queryTile));
  const blocks = f.let(i32.shrU(i32.add(queryCount, blockQueries - 1), 3));
  const firstElement = i32.mul(i32.add(i32.mul(head, queryLength), firstQuery), headSize);
  const queryOffset = f.let(i32.shl(firstElement, elements.shift));
  const keyHead = i32.add(
    i32.mul(i32.divU(head, parameters.heads), parameters.kvHeads),
    i32.divU(i32.remU(head, parameters.heads), parameters.group),
  );
  const keyOffset = f.let(i32.shl(i32.mul(i32.mul(keyHead, parameters.keyPitch), headSize), elements.shift));

  emitPacked(f, elements, {
    from: f.let(i32.add(parameters.q, queryOffset)),
    to: queries,
    ...{ headSize, count: queryCount, blocks, blockBytes },
  });
  f.memoryFill(sums, 0, i32.mul(blocks, blockBytes));
  f.forRange(0, blocks, (block) => {
    const at = f.let(i32.add(statistics, i32.shl(block, 6)));
    for (const half of [0, 16]) {
      f.store(at, minusInfinity, half);
      f.store(at, zero, rowBytes + half);
    }
  });

  // The last query of the tile sees the most keys.
  const keyEnd = f.let(clamp(i32.add(i32.add(firstQuery, queryCount), visible), keyLength));
  // Its first query sees the oldest ones.
  const keyStart = hiding === undefined ? 0 : f.let(i32.maxS(i32.add(firstQuery, hiding.oldest), 0));
  f.forRange(
    keyStart,
    keyEnd,
    (firstKey) => {
      const keyCount = f.let(i32.minU(i32.sub(keyEnd, firstKey), keyTile));
      const tileOffset = f.let(i32.add(keyOffset, i32.shl(i32.mul(firstKey, headSize), elements.shift)));
      const tileElements = f.let(i32.mul(keyCount, headSize));
      const rows = (operand: Value<"i32">, widened: Value<"i32">): Local<"i32"> => {
        const from = f.let(i32.add(operand, tileOffset));
        if (!elements.converted) return from;
        const to = f.let(i32.add(queries, widened));
        mapVectors(f, {
          count: tileElements,
          inputs: [{ at: from, elements }],
          output: { at: f.let(to), elements: elementsOf(f, "f32") },
          compute: (values) => values!,
          unroll: 2,
        });
        return to;
      };
      const keys = rows(parameters.k, parameters.keys);
      const values = rows(parameters.v, parameters.values);

      /** Keys of this tile that query `row` of the query tile sees. */
      const seenBy = (row: Value<"i32">): Value<"i32"> =>
        clamp(i32.add(row, i32.sub(i32.add(i32.add(firstQuery, visible), 1), firstKey)), keyCount);
      f.forRange(0, blocks, (block) => {
        const row = f.let(i32.shl(block, 3));
        /** Keys of this tile that the first query of the block sees; may be negative. */
        const seenFirst = f.let(i32.sub(i32.add(i32.add(i32.add(firstQuery, row), visible), 1), firstKey));
        /** Keys of this tile that some query of the block sees. */
        const seen = f.let(seenBy(i32.add(row, blockQueries - 1)));
        const blockCorrections = f.let(i32.add(corrections, i32.shl(row, 2)));
        f.if(
          seen,
          () => {
            const blockScores = f.let(i32.add(scores, i32.mul(block, scoreBytes)));
            emitScores(f, {
              ...{ keys, scores: blockScores, seen, headSize, scale, keyRows: tileRows(features) },
              queries: f.let(i32.add(queries, i32.mul(block, blockBytes))),
            });
            if (hiding !== undefined && maskHead !== undefined)
              emitHidden(f, hiding, {
                ...{ scores: blockScores, seen, firstKey, maskHead },
                ...{ firstQuery, row, queryCount },
              });
            emitMask(f, { scores: blockScores, seen, seenFirst });
            emitSoftmax(f, exp, {
              ...{ scores: blockScores, seen, corrections: blockCorrections },
              statistics: f.let(i32.add(statistics, i32.shl(block, 6))),
            });
          },
          () => {
            // A register tile of the sums may have queries of this block and of the next one.
            for (const half of [0, 16]) f.store(blockCorrections, one, half);
          },
        );
      });
      f.forRange(
        0,
        i32.shl(blocks, 3),
        (row) => {
          f.if(seenBy(i32.add(row, sumRows - 1)), () =>
            emitSums(f, {
              ...{ values, scores, corrections, sums, headSize, paddedBytes, row, sumRows, seenBy },
            }),
          );
        },
        { step: sumRows },
      );
    },
    { step: keyTile, signed: true },
  );

  emitOutput(f, elements, {
    out: f.let(i32.add(parameters.out, queryOffset)),
    ...{ sums, statistics, headSize, paddedBytes, queryCount },
    ...(hiding === undefined ? { firstSeen: f.let(i32.add(firstQuery, visible)) } : {}),
  });
  f.if(parameters.logSumExp, () => {
    const row = i32.add(i32.mul(head, queryLength), firstQuery);
    const to = f.let(i32.add(parameters.logSumExp, i32.shl(row, 2)));
    emitLogSumExp(f, { to, statistics, queryCount });
  });
}

/** A signed number limited to [0, upper]. */
function clamp(value: Value<"i32">, upper: Value<"i32">): Value<"i32"> {
  return i32.minS(i32.maxS(value, 0), upper);
}

/** Hides keys from the queries of a block, each in a lane of its own. */
function emitHidden(
  f: FunctionBuilder,
  hiding: Hiding,
  block: {
    readonly scores: Local<"i32">;
    readonly seen: Local<"i32">;
    readonly firstKey: Local<"i32">;
    /** Address of the mask of the head. */
    readonly maskHead: Local<"i32">;
    readonly firstQuery: Local<"i32">;
    /** The first query of the block, within the tile. */
    readonly row: Local<"i32">;
    readonly queryCount: Local<"i32">;
  },
): void {
  const { seen, firstKey, row, queryCount } = block;
  f.forRange(0, blockQueries, (lane) => {
    // Lanes past the last query repeat it.
    const last = i32.sub(queryCount, 1);
    const query = f.let(i32.add(block.firstQuery, i32.minU(i32.add(row, lane), last)));
    const scores = f.let(i32.add(block.scores, i32.shl(lane, 2)));
    const place = i32.add(i32.mul(query, hiding.maskQuery), i32.mul(firstKey, hiding.maskKey));
    const mask = f.let(i32.add(block.maskHead, place));
    emitMasked(f, hiding, { scores, scoreBytes: rowBytes, count: seen, mask, maskStep: hiding.maskKey });
    const older = clamp(i32.sub(i32.add(query, hiding.oldest), firstKey), seen);
    emitForgotten(f, { scores, scoreBytes: rowBytes, count: f.let(older) });
  });
}

/** scores[j][lane] = scale * q[lane] . k[j] for the keys seen; `keyRows` keys x 8 queries at a time. */
function emitScores(
  f: FunctionBuilder,
  block: {
    readonly keys: Local<"i32">;
    readonly queries: Local<"i32">;
    readonly scores: Local<"i32">;
    readonly seen: Local<"i32">;
    readonly headSize: Local<"i32">;
    readonly scale: Local<"v128">;
    readonly keyRows: number;
  },
): void {
  const { keys, scores, seen, headSize, scale, keyRows } = block;
  const to = f.let(scores);
  f.forRange(
    0,
    seen,
    (key) => {
      // The last tile may have fewer keys: the last one is repeated, its copies are not used.
      const rows = Array.from({ length: keyRows }, (_, r) => {
        const row = i32.minU(i32.add(key, r), i32.sub(seen, 1));
        return f.let(i32.add(keys, i32.shl(i32.mul(row, headSize), 2)));
      });
      const columns = f.let(block.queries);
      const tile = emitTile(f, { rows, rowStep: 4, columns, columnStep: rowBytes, depth: headSize });
      for (const [r, sums] of tile.entries())
        for (const [c, sum] of sums.entries()) f.store(to, f32x4.mul(sum, scale), rowBytes * r + 16 * c);
      f.add(to, keyRows * rowBytes);
    },
    { step: keyRows },
  );
}

/** sums[r] = sums[r] * correction[r] + sum over the keys seen of p[j][r] * v[j], for `sumRows` queries. */
function emitSums(
  f: FunctionBuilder,
  tile: {
    readonly values: Local<"i32">;
    readonly scores: Local<"i32">;
    readonly corrections: Local<"i32">;
    readonly sums: Local<"i32">;
    readonly headSize: Local<"i32">;
    readonly paddedBytes: Local<"i32">;
    /** The first of the queries, within the query tile. */
    readonly row: Local<"i32">;
    readonly sumRows: number;
    readonly seenBy: (row: Value<"i32">) => Value<"i32">;
  },
): void {
  const { values, scores, headSize, paddedBytes, row, seenBy } = tile;
  const valueBytes = f.let(i32.shl(headSize, 2));
  const seenByAll = f.let(seenBy(row));
  const corrections = f.let(i32.add(tile.corrections, i32.shl(row, 2)));
  const firstSums = f.let(i32.add(tile.sums, i32.mul(row, paddedBytes)));
  const probabilities = Array.from({ length: tile.sumRows }, (_, r) => {
    const query = f.let(i32.add(row, r));
    const block = i32.mul(i32.shrU(query, 3), scoreBytes);
    return f.let(i32.add(i32.add(scores, block), i32.shl(i32.and(query, 7), 2)));
  });
  f.forRange(
    0,
    paddedBytes,
    (column) => {
      const rows = probabilities.map((at) => f.let(at));
      const columns = f.let(i32.add(values, column));
      const register = { rows, rowStep: rowBytes, columns, columnStep: valueBytes, depth: seenByAll };
      const parts = emitTile(f, register);
      // The causal limit moves by one key per query: a few more keys for the later ones.
      for (let r = 1; r < tile.sumRows; r++) {
        const from = f.let(i32.add(i32.add(values, column), i32.mul(seenByAll, valueBytes)));
        f.forRange(seenByAll, seenBy(i32.add(row, r)), (key) => {
          const probability = f.let(v128.load32Splat(i32.add(probabilities[r]!, i32.mul(key, rowBytes))));
          for (const [c, sum] of parts[r]!.entries())
            f.set(sum, f.multiplyAdd(probability, v128.load(from, 16 * c), sum));
          f.add(from, valueBytes);
        });
      }
      const to = f.let(i32.add(firstSums, column));
      for (const [r, row] of parts.entries()) {
        const correction = f.let(v128.load32Splat(corrections, 4 * r));
        for (const [c, part] of row.entries())
          f.store(to, f.multiplyAdd(v128.load(to, 16 * c), correction, part), 16 * c);
        f.add(to, paddedBytes);
      }
    },
    { step: 4 * tileColumns },
  );
}

/** to[i] = largest score + ln total, which is -Infinity if no key is seen. */
function emitLogSumExp(
  f: FunctionBuilder,
  tile: {
    readonly to: Local<"i32">;
    readonly statistics: Local<"i32">;
    readonly queryCount: Local<"i32">;
  },
): void {
  const log = logarithm(f);
  f.forRange(0, tile.queryCount, (query) => {
    const block = i32.add(tile.statistics, i32.shl(i32.shrU(query, 3), 6));
    const at = f.let(i32.add(block, i32.shl(i32.and(query, 7), 2)));
    const total = f.let(log(v128.load32Splat(at, rowBytes)));
    f.storeLane(32, 0, tile.to, f.let(f32x4.add(v128.load32Splat(at), total)));
    f.add(tile.to, 4);
  });
}

/** out[i] = sums[i] / total[i]; zeros if no key is seen. */
function emitOutput(
  f: FunctionBuilder,
  elements: Elements,
  tile: {
    readonly out: Local<"i32">;
    readonly sums: Local<"i32">;
    readonly statistics: Local<"i32">;
    readonly headSize: Local<"i32">;
    readonly paddedBytes: Local<"i32">;
    readonly queryCount: Local<"i32">;
    /** The last key that the first query sees; negative if none. Absent: queries may see no key for other reasons. */
    readonly firstSeen?: Local<"i32">;
  },
): void {
  const { out, sums, statistics, headSize, paddedBytes, queryCount, firstSeen } = tile;
  const float32 = elementsOf(f, "f32");
  const rowSize = f.let(i32.shl(headSize, elements.shift));
  const one = f.let(f32x4.const(1));
  f.forRange(0, queryCount, (query) => {
    const block = i32.add(statistics, i32.shl(i32.shrU(query, 3), 6));
    const total = f.let(v128.load32Splat(i32.add(block, i32.shl(i32.and(query, 7), 2)), rowBytes));
    // Without a key the sums are 0: divide by 1.
    if (firstSeen === undefined) totalOrOne(f, total);
    else f.if(i32.ltS(i32.add(firstSeen, query), 0), () => f.set(total, one));
    mapVectors(f, {
      count: headSize,
      inputs: [{ at: f.let(i32.add(sums, i32.mul(query, paddedBytes))), elements: float32 }, total],
      output: { at: f.let(i32.add(out, i32.mul(query, rowSize))), elements },
      compute: (sum, divisor) => f32x4.div(sum!, divisor!),
      unroll: 1,
    });
  });
}
