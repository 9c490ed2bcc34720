import type { FloatType } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  f32x4,
  i32,
  i32x4,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { byFloatType, type Elements, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { sumOfLanes } from "../vector/index.js";
import { finishRows } from "./finish.js";
import { blocking, fewRows } from "./variants.js";

const skinnyTypes = {
  m: "i32",
  n: "i32",
  k: "i32",
  /** Bytes from row to row, along k, and from matrix to matrix. */
  a: "i32",
  aRow: "i32",
  aK: "i32",
  aBatch: "i32",
  /** Bytes from one stored row to the next. */
  b: "i32",
  bStride: "i32",
  bBatch: "i32",
  c: "i32",
  stride: "i32",
  cBatch: "i32",
  alpha: "f32",
  beta: "f32",
  chunkColumns: "i32",
  columnChunks: "i32",
  /** Parts of k, their size, and the place of their sums; not 0 only if B is stored k x n. */
  parts: "i32",
  partDepth: "i32",
  partials: "i32",
  /** Not 0: rows of B that are added together are apart (addRows). */
  apart: "i32",
  /** The number of rows of B that are added together: `stretchDepth` or `cachedDepth`. */
  depth: "i32",
  bias: "i32",
  biasStep: "i32",
  activation: "i32",
} as const;

type SkinnyKernel = Kernel<typeof skinnyTypes>;

/** Rows of B that are added together: usually, and for a single row of A if B comes from a cache. */
export const stretchDepth = 4;
/** Widening f16 takes the registers of two factors. */
export const cachedDepth: Readonly<Record<FloatType, number>> = { f32: 6, f16: stretchDepth };

/** By element type, and by whether B is stored transposed (n x k) or not (k x n). */
export const skinnyKernels: Readonly<
  Record<FloatType, Readonly<Record<"stored" | "transposed", SkinnyKernel>>>
> = byFloatType((dtype) => ({
  stored: skinnyKernel(dtype, "stored"),
  transposed: skinnyKernel(dtype, "transposed"),
}));

type I32 = Local<"i32">;

interface Sums
  extends Readonly<
    Record<
      | "m"
      | "k"
      | "apart"
      | "depth"
      | "columns"
      | "a"
      | "aRow"
      | "aK"
      | "b"
      | "bStride"
      | "sums"
      | "sumsStride",
      I32
    >
  > {
  readonly module: ModuleBuilder;
  readonly dtype: FloatType;
  readonly elements: Elements;
}

function skinnyKernel(dtype: FloatType, b: "stored" | "transposed"): SkinnyKernel {
  return defineKernel({
    name: `gemm_skinny_${dtype}_${b}`,
    parameters: skinnyTypes,
    scratchBytes: 4 * blocking.skinnySums,
    emit(f, { parameters, chunk, scratch, module }) {
      const elements = elementsOf(f, dtype);
      const { m, n, aRow, aK, bStride, alpha, beta, chunkColumns, columnChunks } = parameters;
      const { parts, partDepth, partials } = parameters;
      const part = f.let(i32.remU(chunk, parts));
      const block = f.let(i32.divU(chunk, parts));
      const p = f.let(i32.mul(part, partDepth));
      const matrix = f.let(i32.divU(block, columnChunks));
      const first = f.let(i32.mul(i32.remU(block, columnChunks), chunkColumns));
      const columns = f.let(i32.minU(i32.sub(n, first), chunkColumns));
      const [columnStep, kStep] =
        b === "stored" ? [i32.const(elements.bytes), bStride] : [bStride, i32.const(elements.bytes)];
      const at = (base: I32, batch: I32, offset: Value<"i32">): I32 =>
        f.let(i32.add(base, i32.add(i32.mul(matrix, batch), offset)));
      const sumsStride = f.let(i32.shl(chunkColumns, 2));
      const target = f.let(scratch);
      f.if(partials, () => f.set(target, i32.add(partials, i32.mul(part, i32.mul(m, sumsStride)))));
      const sums: Sums = {
        a: at(parameters.a, parameters.aBatch, i32.mul(p, aK)),
        b: at(parameters.b, parameters.bBatch, i32.add(i32.mul(first, columnStep), i32.mul(p, kStep))),
        k: f.let(i32.minU(i32.sub(parameters.k, p), partDepth)),
        apart: parameters.apart,
        depth: parameters.depth,
        m,
        columns,
        aRow,
        aK,
        bStride,
        sums: target,
        sumsStride,
        elements,
        module,
        dtype,
      };
      if (b === "stored") addRows(f, sums);
      else multiplyColumns(f, sums);
      f.if(partials, () => f.return());
      const { bias, biasStep, activation } = parameters;
      f.if(bias, () => f.add(bias, i32.mul(first, biasStep)));
      finishRows(f, module, elements, {
        epilogue: { bias, biasStep, activation },
        sums: scratch,
        sumsStride,
        m,
        n: columns,
        c: at(parameters.c, parameters.cBatch, i32.shl(first, elements.shift)),
        stride: parameters.stride,
        alpha,
        beta,
      });
    },
  });
}

/** Rows of A and rows of B whose products are added to sums in one go. */
interface Stretch {
  readonly rows: number;
  readonly depth: number;
}

/**
 * sums[i] = sum over p of a[i, p] * (row p of B), several rows of A and of B at a time.
 *
 * The rows of B that are added together come from equal shares of k, each of which is read from its first row to
 * its last; or they are neighbours. From memory, a 4096 x 4096 matrix is read 14% faster in four shares than in
 * six on an AMD Zen 4 (7% with two threads; one share is 35% slower than six, two 21% slower, three 4% faster),
 * and at 0.91 to 1.01 of the rate of six on an Intel Xeon. From a cache, six shares have fewer sums to load and
 * store: 2048 x 2048 is 10% faster with them. Neighbours are for many rows and a B that may be in a cache.
 */
function addRows(f: FunctionBuilder, operands: Sums): void {
  const { m, k, columns, apart, aRow, aK, bStride, sums, sumsStride } = operands;
  f.memoryFill(sums, 0, i32.mul(m, sumsStride));
  const a = f.let(operands.a);
  const b = f.let(operands.b);
  const aStep = f.let(aK);
  const bStep = f.let(bStride);
  const addSome = (depth: number): void => {
    const row = f.let(sums);
    const factors = f.let(a);
    const i = f.let(i32.const(0));
    const add = (rows: number): void => {
      const callee = addFunction(operands, { rows, depth });
      f.call(callee, factors, aRow, aStep, b, bStep, row, sumsStride, columns);
      f.add(row, i32.mul(sumsStride, rows));
      f.add(factors, i32.mul(aRow, rows));
    };
    if (depth <= stretchDepth) f.forLocal(i, i32.and(m, -2), () => add(2), { step: 2 });
    f.forLocal(i, m, () => add(1));
  };
  const p = f.let(i32.const(0));
  const addStretches = (depth: number): void => {
    const stretches = f.let(i32.divU(k, depth));
    const onward = f.let(i32.const(depth));
    f.if(apart, () => {
      f.set(aStep, i32.mul(aK, stretches));
      f.set(bStep, i32.mul(bStride, stretches));
      f.set(onward, i32.const(1));
    });
    f.forRange(0, stretches, () => {
      addSome(depth);
      f.add(a, i32.mul(aK, onward));
      f.add(b, i32.mul(bStride, onward));
    });
    f.set(p, i32.mul(stretches, depth));
  };
  const longest = cachedDepth[operands.dtype];
  if (longest === stretchDepth) addStretches(stretchDepth);
  else
    f.if(
      i32.eq(operands.depth, longest),
      () => addStretches(longest),
      () => addStretches(stretchDepth),
    );
  f.set(a, i32.add(operands.a, i32.mul(aK, p)));
  f.set(b, i32.add(operands.b, i32.mul(bStride, p)));
  f.forLocal(p, k, () => {
    addSome(1);
    f.add(a, aK);
    f.add(b, bStride);
  });
}

/**
 * sums[i] += sum over p of a[i, p] * (row p of B) for a stretch. The factors stay in registers, and sums are
 * loaded and stored once for all of `depth`. It is a function of its own, so that nothing but this loop
 * competes for registers.
 */
function addFunction({ module, dtype }: Sums, { rows, depth }: Stretch): FunctionReference {
  return module.shared(`gemm_skinny_add_${dtype}_${rows}x${depth}`, (label) =>
    module.function(
      label,
      {
        ...({ a: "i32", aRow: "i32", aK: "i32", b: "i32", bStride: "i32" } as const),
        ...({ sums: "i32", sumsStride: "i32", columns: "i32" } as const),
      },
      (f, { a, aRow, aK, b, bStride, sums, sumsStride, columns }) => {
        const elements = elementsOf(f, dtype);
        const factors = range(rows).map((i) => {
          const at = f.let(i32.add(a, i32.mul(aRow, i)));
          return range(depth).map(() => {
            const factor = f.let(elements.loadSplat(at));
            f.add(at, aK);
            return factor;
          });
        });
        const sources = range(depth).map((p) => f.let(i32.add(b, i32.mul(bStride, p))));
        const targets = range(rows).map((i) => f.let(i32.add(sums, i32.mul(sumsStride, i))));
        const addVectors = (count: number, groups: number): void => {
          for (let group = 0; group < groups; group++) {
            const vectors = range(count).map((v) => group * count + v);
            const sum = targets.map((target) => vectors.map((v) => f.let(v128.load(target, 16 * v))));
            for (const [p, source] of sources.entries()) {
              const row = vectors.map((v) => f.let(elements.load(source, 4 * elements.bytes * v)));
              for (const [i, rowSums] of sum.entries()) {
                for (const [v, value] of rowSums.entries())
                  f.set(value, f.multiplyAdd(factors[i]![p]!, row[v]!, value));
              }
            }
            for (const [i, target] of targets.entries())
              for (const [v, value] of sum[i]!.entries()) f.store(target, value, 16 * vectors[v]!);
          }
          for (const source of sources) f.add(source, 4 * elements.bytes * count * groups);
          for (const target of targets) f.add(target, 16 * count * groups);
        };
        // Two vectors side by side are for engines that fuse them. The V8 of Node 20, which has no fused
        // multiply-add, would spill. Two such pairs a round are 1 to 2% faster (Node 22: 11%), but not for one row.
        const rest = f.let(columns);
        if (f.relaxedSimd && !elements.converted) {
          const groups = rows === 1 ? 1 : 2;
          f.forRange(0, i32.divU(columns, 8 * groups), () => addVectors(2, groups));
          f.set(rest, i32.remU(columns, 8 * groups));
        }
        f.forRange(0, rest, () => addVectors(1, 1), { step: 4 });
      },
    ),
  );
}

function range(length: number): readonly number[] {
  return Array.from({ length }, (_, index) => index);
}

/** What lies so many bytes apart shares the same few places of the first cache. */
const cacheWayBytes = 4096;
/** One column more is much for shares up to this one. */
const longShare = 32;

/**
 * sums[i, j] = (row i of A) . (column j of B), if both lie along k.
 *
 * The columns that are computed together are equal shares apart, so that each of them reads on where the one before it ended, and the
 * processor reads ahead: neighbours took 1.1 to 1.5 times as long where B does not fit the second cache. Many rows take B from
 * the first cache nearly always, and stay with neighbours. Shares that would drive one another from the first cache are a
 * column longer: 1.2 times as fast if B fits the second one.
 */
function multiplyColumns(f: FunctionBuilder, operands: Sums): void {
  const { m, k, columns, aRow, bStride, sumsStride } = operands;
  const multiply = (mostRows: number, width: number, inShares: boolean): void => {
    const b = f.let(operands.b);
    const sums = f.let(operands.sums);
    const last = f.let(i32.sub(columns, 1));
    const share = f.let(i32.const(1));
    if (inShares) {
      f.set(share, i32.divU(i32.add(columns, width - 1), width));
      const collides = i32.eqz(i32.and(i32.mul(share, bStride), cacheWayBytes - 1));
      f.add(share, i32.and(collides, i32.gtU(share, longShare)));
    }
    const step = inShares ? 1 : width;
    f.forRange(
      0,
      inShares ? share : columns,
      () => {
        const a = f.let(operands.a);
        const target = f.let(sums);
        const i = f.let(i32.const(0));
        const dot = (rows: number): void => {
          const callee = dotFunction(operands, { rows, width, inShares });
          f.call(callee, a, aRow, b, bStride, share, last, k, target, sumsStride);
          f.add(a, i32.mul(aRow, rows));
          f.add(target, i32.mul(sumsStride, rows));
        };
        if (mostRows > 1) f.forLocal(i, i32.and(m, -2), () => dot(2), { step: 2 });
        f.forLocal(i, m, () => dot(1));
        f.add(b, i32.mul(bStride, step));
        f.add(sums, 4 * step);
        f.add(last, -step);
      },
      { step },
    );
  };
  f.if(
    i32.eq(m, 1),
    () => multiply(1, 8, true),
    () =>
      f.if(
        i32.leU(m, fewRows),
        () => multiply(2, 4, true),
        () => multiply(2, 4, false),
      ),
  );
}

/** Rows of A and columns of B whose products are computed together. */
interface Dots {
  readonly rows: number;
  readonly width: number;
  /** Otherwise the columns are neighbours. */
  readonly inShares: boolean;
}

/**
 * sums[i, j share] = (row i of A) . (column j share of B) for a few rows and `width` columns: eight products that
 * do not wait for each other. Columns after number `last` repeat it.
 */
function dotFunction({ module, dtype }: Sums, { rows, width, inShares }: Dots): FunctionReference {
  const kind = inShares ? "shares" : "dot";
  return module.shared(`gemm_skinny_${kind}_${dtype}_${rows}x${width}`, (label) =>
    module.function(
      label,
      {
        ...({ a: "i32", aRow: "i32", b: "i32", bStride: "i32", share: "i32", last: "i32" } as const),
        ...({ k: "i32", sums: "i32", sumsStride: "i32" } as const),
      },
      (f, { a, aRow, b, bStride, share, last, k, sums, sumsStride }) => {
        const elements = elementsOf(f, dtype);
        const columns = range(width).map((j) => f.let(i32.minU(last, i32.mul(share, j))));
        const rowAddresses = range(rows).map((i) => f.let(i32.add(a, i32.mul(aRow, i))));
        const columnAddresses = columns.map((column) => f.let(i32.add(b, i32.mul(bStride, column))));
        const dots = rowAddresses.map(() => columnAddresses.map(() => f.let(f32x4.const(0))));
        const firstLane = f.let(i32x4.const(-1, 0, 0, 0));
        const step = (take: (address: I32) => Value<"v128">, bytes: number): void => {
          const factors = rowAddresses.map((row) => f.let(take(row)));
          for (const [j, column] of columnAddresses.entries()) {
            const vector = f.let(take(column));
            for (const [i, factor] of factors.entries())
              f.set(dots[i]![j]!, f.multiplyAdd(factor, vector, dots[i]![j]!));
            f.add(column, bytes);
          }
          for (const row of rowAddresses) f.add(row, bytes);
        };
        const p = f.let(i32.const(0));
        f.forLocal(p, i32.and(k, -4), () => step((at) => elements.load(at), 4 * elements.bytes), { step: 4 });
        // One by one, in the first lane; the others add 0 * 0.
        f.forLocal(p, k, () => step((at) => v128.and(elements.loadSplat(at), firstLane), elements.bytes));
        // Neighbours go to one place together.
        const together = inShares ? 1 : 4;
        const places = range(width / together).map((i) =>
          f.let(i32.add(sums, i32.shl(columns[i * together]!, 2))),
        );
        for (const row of dots) {
          for (let j = 0; j < width; j += 4) {
            const four = f.let(sumOfLanes(f, row.slice(j, j + 4)));
            if (inShares) for (let lane = 0; lane < 4; lane++) f.storeLane(32, lane, places[j + lane]!, four);
            else f.store(places[j / 4]!, four);
          }
          if (rows > 1) for (const place of places) f.add(place, sumsStride);
        }
      },
    ),
  );
}
