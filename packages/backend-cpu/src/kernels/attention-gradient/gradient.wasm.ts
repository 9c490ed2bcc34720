import type { FloatType } from "@backplane/core";
import { type FunctionBuilder, f32x4, i32, i32x4, type Local, type Value, v128 } from "../../wasm/index.js";
import {
  blockQueries as blockRows,
  emitMasked,
  emitPacked,
  maskOfHead,
  keyTile as otherTile,
  queryTile as ownTile,
  rowBytes,
  scoreRows,
} from "../attention/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel, type KernelContext, type ParameterLocals } from "../kernel.js";
import { exponential } from "../math/index.js";
import { emitTile, tileColumns, tileRows } from "../tile/index.js";
import { mapVectors } from "../vector/index.js";

/** Whose gradients a kernel computes. */
export type Side = "keys" | "queries";

const parameterTypes = {
  /** Operands on the own side, and on the other: k, v and q, outGradient for keys, the other way round for queries. */
  own1: "i32",
  own2: "i32",
  other1: "i32",
  other2: "i32",
  /** kGradient, or qGradient. */
  result1: "i32",
  /** vGradient; not used for queries. */
  result2: "i32",
  /** Of each query: logSumExp, Infinity if it sees no key, and D. */
  logs: "i32",
  deltas: "i32",
  heads: "i32",
  /** Query heads for each key head. */
  group: "i32",
  queryLength: "i32",
  keyLength: "i32",
  headSize: "i32",
  scale: "f32",
  /** Query i sees the keys i + oldest <= j <= i + visible; signed. */
  visible: "i32",
  oldest: "i32",
  /** Tiles of own rows per head. */
  tiles: "i32",
  /** See `HidingTypes`. */
  maskKind: "i32",
  mask: "i32",
  maskBatch: "i32",
  maskHead: "i32",
  maskQuery: "i32",
  maskKey: "i32",
  /** Address of the first worker's workspace, and bytes to the next one's. */
  workspace: "i32",
  workspaceBytes: "i32",
  /** Offsets within it, see `GradientLayout`. */
  packed2: "i32",
  sums1: "i32",
  sums2: "i32",
  probabilities: "i32",
  changes: "i32",
  rows1: "i32",
  rows2: "i32",
  paddedSize: "i32",
} as const;

export type GradientTypes = typeof parameterTypes;

/** Probabilities of one block. */
const scoreBytes = rowBytes * scoreRows;

/**
 * The gradients of one tile of rows of one head, keys or queries, from all rows of the other side, tile by tile, as the
 * backward pass of T. Dao, "FlashAttention-2" (2023) finds them, in one pass for keys and another one for queries:
 *
 *   P = e^(scale q k - L)    S = P (outGradient v - D)    result1 += S other1    result2 += P other2
 *
 * For keys, rows of the other side are the queries of all heads that share the key head, one head after the other. Lanes run
 * along 8 own rows for P and S, and along the head for the sums. P and S of what is not seen are 0.
 */
export function gradientKernel(side: Side, dtype: FloatType): Kernel<GradientTypes> {
  return defineKernel({
    name: `attention_gradient_${side}_${dtype}`,
    parameters: parameterTypes,
    emit: (f, context) => emitGradient(f, context, side, dtype),
  });
}

function emitGradient(
  f: FunctionBuilder,
  { parameters, chunk, worker, features }: KernelContext<GradientTypes>,
  side: Side,
  dtype: FloatType,
): void {
  const { headSize, group, queryLength, keyLength, visible, oldest, tiles, paddedSize } = parameters;
  const isOfKeys = side === "keys";
  const [ownLength, otherLength] = isOfKeys ? [keyLength, queryLength] : [queryLength, keyLength];
  const elements = elementsOf(f, dtype);
  const float32 = elementsOf(f, "f32");
  const exp = exponential(f);
  const scale = f.let(f32x4.splat(parameters.scale));

  const packed1 = f.let(i32.add(parameters.workspace, i32.mul(worker, parameters.workspaceBytes)));
  const inWorkspace = (offset: Local<"i32">) => f.let(i32.add(packed1, offset));
  const packed2 = inWorkspace(parameters.packed2);
  const sums1 = inWorkspace(parameters.sums1);
  const sums2 = inWorkspace(parameters.sums2);
  const probabilities = inWorkspace(parameters.probabilities);
  const changes = inWorkspace(parameters.changes);
  const blockBytes = f.let(i32.mul(paddedSize, rowBytes));
  const paddedBytes = f.let(i32.shl(paddedSize, 2));

  const ownHead = f.let(i32.divU(chunk, tiles));
  const first = f.let(i32.mul(i32.remU(chunk, tiles), ownTile));
  const count = f.let(i32.minU(i32.sub(ownLength, first), ownTile));
  const blocks = f.let(i32.shrU(i32.add(count, blockRows - 1), 3));
  const firstRow = f.let(i32.add(i32.mul(ownHead, ownLength), first));
  const ownOffset = f.let(i32.shl(i32.mul(firstRow, headSize), elements.shift));
  for (const [operand, to] of [
    [parameters.own1, packed1],
    [parameters.own2, packed2],
  ] as const)
    emitPacked(f, elements, {
      ...{ from: f.let(i32.add(operand, ownOffset)), to, headSize, count, blocks, blockBytes },
    });
  const results = isOfKeys ? [sums1, sums2] : [sums1];
  for (const sums of results) f.memoryFill(sums, 0, i32.mul(blocks, blockBytes));

  // The rows of the other side that the first or the last row meets; others meet those between.
  const last = f.let(i32.sub(i32.add(first, count), 1));
  const [from, until] = isOfKeys
    ? [i32.sub(first, visible), i32.sub(last, oldest)]
    : [i32.add(first, oldest), i32.add(last, visible)];
  const start = f.let(i32.maxS(from, 0));
  const end = f.let(i32.minS(i32.add(until, 1), otherLength));

  f.forRange(0, isOfKeys ? group : 1, (member) => {
    const queryHead = f.let(isOfKeys ? i32.add(i32.mul(ownHead, group), member) : ownHead);
    const otherHead = f.let(isOfKeys ? queryHead : i32.divU(ownHead, group));
    const mask = f.let(maskOfHead(parameters, parameters.heads, queryHead));
    f.forRange(
      start,
      end,
      (firstOther) => {
        const otherCount = f.let(i32.minU(i32.sub(end, firstOther), otherTile));
        const row = f.let(i32.add(i32.mul(otherHead, otherLength), firstOther));
        const offset = f.let(i32.shl(i32.mul(row, headSize), elements.shift));
        const rows = (operand: Local<"i32">, widened: Local<"i32">): Local<"i32"> => {
          const at = f.let(i32.add(operand, offset));
          if (!elements.converted) return at;
          const to = f.let(i32.add(packed1, widened));
          mapVectors(f, {
            count: f.let(i32.mul(otherCount, headSize)),
            inputs: [{ at, elements }],
            output: { at: f.let(to), elements: float32 },
            compute: (values) => values!,
            unroll: 2,
          });
          return to;
        };
        const rows1 = rows(parameters.other1, parameters.rows1);
        const rows2 = rows(parameters.other2, parameters.rows2);
        f.forRange(0, blocks, (block) => {
          const ownFirst = f.let(i32.add(first, i32.shl(block, 3)));
          const at = f.let(i32.mul(block, scoreBytes));
          const packedAt = f.let(i32.mul(block, blockBytes));
          const blockProbabilities = f.let(i32.add(probabilities, at));
          const blockChanges = f.let(i32.add(changes, at));
          const common = { count: otherCount, headSize, tile: tileRows(features) };
          emitProducts(f, {
            ...{ ...common, rows: rows1, columns: f.let(i32.add(packed1, packedAt)) },
            ...{ to: blockProbabilities, scale },
          });
          emitProducts(f, {
            ...{ ...common, rows: rows2, columns: f.let(i32.add(packed2, packedAt)) },
            to: blockChanges,
          });
          f.if(parameters.maskKind, () =>
            emitMask(f, parameters, side, {
              ...{ scores: blockProbabilities, mask, ownFirst, last, firstOther, otherCount },
            }),
          );
          emitChanges(f, exp, parameters, side, {
            ...{ probabilities: blockProbabilities, changes: blockChanges, ownFirst, firstOther, otherCount },
            queryRow: f.let(isOfKeys ? row : i32.add(firstRow, i32.shl(block, 3))),
          });
        });
        const sum = { headSize, paddedBytes, count, depth: otherCount, tile: tileRows(features) };
        emitSums(f, { ...sum, weights: changes, rows: rows1, sums: sums1 });
        if (isOfKeys) emitSums(f, { ...sum, weights: probabilities, rows: rows2, sums: sums2 });
      },
      { step: otherTile, signed: true },
    );
  });

  const rowSize = f.let(i32.shl(headSize, elements.shift));
  const store = (sums: Local<"i32">, result: Local<"i32">, scaled: boolean) =>
    f.forRange(0, count, (row) =>
      mapVectors(f, {
        count: headSize,
        inputs: [{ at: f.let(i32.add(sums, i32.mul(row, paddedBytes))), elements: float32 }],
        output: { at: f.let(i32.add(i32.add(result, ownOffset), i32.mul(row, rowSize))), elements },
        compute: (sum) => (scaled ? f32x4.mul(sum!, scale) : sum!),
        unroll: 1,
      }),
    );
  store(sums1, parameters.result1, true);
  if (isOfKeys) store(sums2, parameters.result2, false);
}

/** to[r][lane] = scale * rows[r] . columns[lane], `tile` rows x 8 lanes at a time. */
function emitProducts(
  f: FunctionBuilder,
  product: {
    readonly rows: Local<"i32">;
    /** [headSize][8] */
    readonly columns: Local<"i32">;
    readonly to: Local<"i32">;
    readonly count: Local<"i32">;
    readonly headSize: Local<"i32">;
    readonly tile: number;
    /** Default: 1. */
    readonly scale?: Local<"v128">;
  },
): void {
  const { rows, count, headSize, tile, scale } = product;
  const to = f.let(product.to);
  f.forRange(
    0,
    count,
    (first) => {
      // The last tile may have fewer rows: the last one is repeated, its copies are not used.
      const addresses = Array.from({ length: tile }, (_, r) => {
        const row = i32.minU(i32.add(first, r), i32.sub(count, 1));
        return f.let(i32.add(rows, i32.shl(i32.mul(row, headSize), 2)));
      });
      const columns = f.let(product.columns);
      const register = { rows: addresses, rowStep: 4, columns, columnStep: rowBytes, depth: headSize };
      for (const [r, sums] of emitTile(f, register).entries())
        for (const [c, sum] of sums.entries())
          f.store(to, scale === undefined ? sum : f32x4.mul(sum, scale), rowBytes * r + 16 * c);
      f.add(to, tile * rowBytes);
    },
    { step: tile },
  );
}

/** Adds the mask to the scores of a block, own row by own row. */
function emitMask(
  f: FunctionBuilder,
  parameters: ParameterLocals<GradientTypes>,
  side: Side,
  block: {
    readonly scores: Local<"i32">;
    /** Address of the mask of the head. */
    readonly mask: Local<"i32">;
    readonly ownFirst: Local<"i32">;
    /** The last own row of the tile, which lanes past it repeat. */
    readonly last: Local<"i32">;
    readonly firstOther: Local<"i32">;
    readonly otherCount: Local<"i32">;
  },
): void {
  const { maskQuery, maskKey } = parameters;
  const [ownStep, otherStep] = side === "keys" ? [maskKey, maskQuery] : [maskQuery, maskKey];
  f.forRange(0, blockRows, (lane) => {
    const own = i32.minU(i32.add(block.ownFirst, lane), block.last);
    const place = i32.add(i32.mul(own, ownStep), i32.mul(block.firstOther, otherStep));
    emitMasked(f, parameters, {
      ...{ scores: f.let(i32.add(block.scores, i32.shl(lane, 2))), scoreBytes: rowBytes },
      ...{ count: block.otherCount, mask: f.let(i32.add(block.mask, place)), maskStep: otherStep },
    });
  });
}

/** Turns scores into P, and outGradient . v into S. */
function emitChanges(
  f: FunctionBuilder,
  exp: (x: Value<"v128">) => Value<"v128">,
  { visible, oldest, logs, deltas }: ParameterLocals<GradientTypes>,
  side: Side,
  block: {
    readonly probabilities: Local<"i32">;
    readonly changes: Local<"i32">;
    readonly ownFirst: Local<"i32">;
    readonly firstOther: Local<"i32">;
    readonly otherCount: Local<"i32">;
    /** The first query, over all heads: of the other rows for keys, and else of the block. */
    readonly queryRow: Local<"i32">;
  },
): void {
  const isOfKeys = side === "keys";
  const queryAt = f.let(i32.shl(block.queryRow, 2));
  const logAt = f.let(i32.add(logs, queryAt));
  const deltaAt = f.let(i32.add(deltas, queryAt));
  const upper = f.let(i32x4.splat(visible));
  const lower = f.let(i32x4.splat(oldest));
  // Key minus query in each lane, for the first of the other rows.
  const numbers = [i32x4.const(0, 1, 2, 3), i32x4.const(4, 5, 6, 7)];
  const apart = numbers.map((lanes) => {
    const own = i32x4.add(i32x4.splat(block.ownFirst), lanes);
    const other = i32x4.splat(block.firstOther);
    return f.let(isOfKeys ? i32x4.sub(own, other) : i32x4.sub(other, own));
  });
  const step = f.let(i32x4.const(1));
  const halves = [0, 16];
  const ofBlock = isOfKeys
    ? undefined
    : halves.map((half) => ({ log: f.let(v128.load(logAt, half)), delta: f.let(v128.load(deltaAt, half)) }));
  const at = f.let(block.probabilities);
  const changeAt = f.let(block.changes);
  f.forRange(0, block.otherCount, () => {
    const ofRow = ofBlock ?? [
      { log: f.let(v128.load32Splat(logAt)), delta: f.let(v128.load32Splat(deltaAt)) },
    ];
    for (const [i, half] of halves.entries()) {
      const { log, delta } = ofRow[i] ?? ofRow[0]!;
      const isUnseen = v128.or(i32x4.gtS(apart[i]!, upper), i32x4.gtS(lower, apart[i]!));
      const exponential = f.let(exp(f.let(f32x4.sub(v128.load(at, half), log))));
      const p = f.let(v128.andnot(exponential, isUnseen));
      if (isOfKeys) f.store(at, p, half);
      f.store(changeAt, f32x4.mul(p, f32x4.sub(v128.load(changeAt, half), delta)), half);
      f.set(apart[i]!, isOfKeys ? i32x4.sub(apart[i]!, step) : i32x4.add(apart[i]!, step));
    }
    f.add(at, rowBytes);
    f.add(changeAt, rowBytes);
    if (isOfKeys) {
      f.add(logAt, 4);
      f.add(deltaAt, 4);
    }
  });
}

/** sums[r] += sum over the other rows of weights[r][other] * rows[other], for `tile` own rows at a time. */
function emitSums(
  f: FunctionBuilder,
  product: {
    readonly weights: Local<"i32">;
    readonly rows: Local<"i32">;
    readonly sums: Local<"i32">;
    readonly headSize: Local<"i32">;
    readonly paddedBytes: Local<"i32">;
    readonly count: Local<"i32">;
    readonly depth: Local<"i32">;
    readonly tile: number;
  },
): void {
  const { paddedBytes, count, depth, tile } = product;
  const otherBytes = f.let(i32.shl(product.headSize, 2));
  f.forRange(
    0,
    count,
    (first) => {
      const weights = Array.from({ length: tile }, (_, r) => {
        const row = f.let(i32.add(first, r));
        const block = i32.mul(i32.shrU(row, 3), scoreBytes);
        return f.let(i32.add(i32.add(product.weights, block), i32.shl(i32.and(row, 7), 2)));
      });
      const firstSums = f.let(i32.add(product.sums, i32.mul(first, paddedBytes)));
      f.forRange(
        0,
        paddedBytes,
        (column) => {
          const rows = weights.map((at) => f.let(at));
          const columns = f.let(i32.add(product.rows, column));
          const parts = emitTile(f, { rows, rowStep: rowBytes, columns, columnStep: otherBytes, depth });
          const to = f.let(i32.add(firstSums, column));
          for (const row of parts) {
            for (const [c, part] of row.entries())
              f.store(to, f32x4.add(v128.load(to, 16 * c), part), 16 * c);
            f.add(to, paddedBytes);
          }
        },
        { step: 4 * tileColumns },
      );
    },
    { step: tile },
  );
}
