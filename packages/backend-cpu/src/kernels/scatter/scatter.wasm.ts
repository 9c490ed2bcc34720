import type { ScatterKind } from "@backplane/core";
import { type FunctionBuilder, f32x4, i32, i32x4, type Value, v128 } from "../../wasm/index.js";
import {
  type ComputedType,
  type Elements,
  elementFormats,
  elementsOf,
  type LaneType,
} from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";

const types = {
  indices: "i32",
  updates: "i32",
  output: "i32",
  length: "i32",
  count: "i32",
  inner: "i32",
  outerStride: "i32",
  axisStride: "i32",
  innerStride: "i32",
  ranges: "i32",
  rangeLength: "i32",
  pieces: "i32",
  pieceLength: "i32",
} as const;

export type ScatterTypes = typeof types;

type Combine = (x: Value<"v128">, update: Value<"v128">) => Value<"v128">;

const integers = { set: (_: Value<"v128">, update: Value<"v128">) => update, add: i32x4.add, mul: i32x4.mul };

const combines: Readonly<Record<LaneType, Readonly<Record<ScatterKind, Combine>>>> = {
  f32: { set: integers.set, add: f32x4.add, mul: f32x4.mul, max: f32x4.max, min: f32x4.min },
  i32: { ...integers, max: i32x4.maxS, min: i32x4.minS },
  u32: { ...integers, max: i32x4.maxU, min: i32x4.minU },
};

type Access = Omit<Elements, "storeFirst"> & { storeOne(address: Value<"i32">, values: Value<"v128">): void };

function accessOf(f: FunctionBuilder, dtype: ComputedType): Access {
  const elements = elementsOf(f, dtype);
  return {
    ...elements,
    storeOne: (address, values) => elements.storeFirst(address, values, i32.const(1)),
  };
}

/** Halves as they are stored, four in the low 64 bits of a vector: a conversion would change those that are NaN. */
function storedHalves(f: FunctionBuilder): Access {
  return {
    ...elementFormats.f16,
    load: v128.load64Zero,
    loadSplat: v128.load16Splat,
    store: (address, values, offset) => f.storeLane(64, 0, address, values, offset),
    storeOne: (address, values) => f.storeLane(16, 0, address, values),
  };
}

/** Vectors of a row that are under way at once: 1.1 times as fast as one by one where the cache holds them. */
const UNROLL = 4;

/** Updates of rows whose places are looked at together, where other chunks have some of them. */
const LISTED = 512;
const ENTRY_BYTES = 8;

/**
 * Chunk: `pieceLength` columns of `rangeLength` rows of one slab of the output, by all updates of these, in order. No
 * other chunk writes there, so sums have the same bits for any number of threads.
 */
export function scatterKernel(kind: ScatterKind, dtype: ComputedType): Kernel<ScatterTypes> {
  return defineKernel({
    name: `scatter_${kind}_${dtype}`,
    parameters: types,
    scratchBytes: (LISTED + 1) * ENTRY_BYTES,
    emit(f, { parameters: p, chunk, scratch }) {
      const elements = kind === "set" && dtype === "f16" ? storedHalves(f) : accessOf(f, dtype);
      const { shift, lanes } = elementFormats[dtype];
      const combine = combines[lanes][kind];
      const share = f.let(i32.divU(chunk, p.pieces));
      const first = f.let(i32.mul(i32.sub(chunk, i32.mul(share, p.pieces)), p.pieceLength));
      const o = f.let(i32.divU(share, p.ranges));
      const row = f.let(i32.mul(i32.sub(share, i32.mul(o, p.ranges)), p.rangeLength));
      const height = f.let(i32.minU(i32.sub(p.length, row), p.rangeLength));
      const columns = f.let(i32.minU(i32.sub(p.inner, first), p.pieceLength));
      const bytesAt = (line: Value<"i32">) => i32.shl(i32.add(i32.mul(line, p.inner), first), shift);
      const source = f.let(i32.add(p.updates, bytesAt(i32.mul(o, p.count))));
      const target = f.let(i32.add(p.output, bytesAt(i32.add(i32.mul(o, p.length), row))));
      const start = i32.add(i32.mul(o, p.outerStride), i32.mul(first, p.innerStride));
      const indexAt = f.let(i32.add(p.indices, i32.shl(start, 2)));
      const rowBytes = f.let(i32.shl(p.inner, shift));
      const indexStep = f.let(i32.shl(p.axisStride, 2));
      const index = f.local("i32");
      const from = f.local("i32");
      const to = f.local("i32");
      const left = f.local("i32");
      const at = f.local("i32");
      // No vector: it would be loaded over elements that were stored one by one a moment ago, and have to wait for them.
      const one = () =>
        elements.storeOne(to, f.let(combine(elements.loadSplat(to), elements.loadSplat(from))));
      const vectors = (count: number): void => {
        const places = Array.from({ length: count }, (_, k) => 4 * k * elements.bytes);
        const values = places.map((place) =>
          f.let(combine(elements.load(to, place), elements.load(from, place))),
        );
        for (const [k, place] of places.entries()) elements.store(to, values[k]!, place);
        advance(4 * count);
      };
      const advance = (count: number): void => {
        f.add(from, count * elements.bytes);
        f.add(to, count * elements.bytes);
        f.add(left, -count);
      };
      /** Updates the row `index` by the one at `from`. */
      const updateRow = (): void => {
        f.set(to, i32.add(target, i32.mul(index, rowBytes)));
        f.set(left, columns);
        f.while(i32.geS(left, 4 * UNROLL), () => vectors(UNROLL));
        f.while(i32.geS(left, 4), () => vectors(1));
        f.while(i32.gtS(left, 0), () => {
          one();
          advance(1);
        });
      };
      const next = (): void => {
        f.add(source, rowBytes);
        f.add(indexAt, indexStep);
      };
      const eachElement = (): void =>
        f.forRange(0, p.count, () => {
          f.set(from, source);
          f.set(at, indexAt);
          f.set(left, columns);
          f.while(i32.gtS(left, 0), () => {
            f.set(index, i32.sub(i32.load(at), row));
            f.if(i32.ltU(index, height), () => {
              const column = i32.shl(i32.sub(columns, left), shift);
              f.set(to, i32.add(i32.add(target, i32.mul(index, rowBytes)), column));
              one();
            });
            f.add(from, elements.bytes);
            f.add(at, 4);
            f.add(left, -1);
          });
          next();
        });
      const eachRow = (): void =>
        f.forRange(0, p.count, () => {
          f.set(index, i32.sub(i32.load(indexAt), row));
          f.if(i32.ltU(index, height), () => {
            f.set(from, source);
            updateRow();
          });
          next();
        });
      // Which rows are this chunk's cannot be predicted: they are listed without branches.
      const eachListedRow = (): void => {
        const remaining = f.let(p.count);
        const listed = f.local("i32");
        const end = f.local("i32");
        f.while(remaining, () => {
          f.set(listed, i32.minU(remaining, LISTED));
          f.set(remaining, i32.sub(remaining, listed));
          f.set(end, scratch);
          f.while(listed, () => {
            f.set(index, i32.sub(i32.load(indexAt), row));
            f.store(end, index);
            f.store(end, source, 4);
            f.add(end, i32.mul(i32.ltU(index, height), ENTRY_BYTES));
            next();
            f.add(listed, -1);
          });
          f.set(at, scratch);
          f.forLocal(
            at,
            end,
            () => {
              f.set(index, i32.load(at));
              f.set(from, i32.load(at, 4));
              updateRow();
            },
            { step: ENTRY_BYTES },
          );
        });
      };
      f.if(p.innerStride, eachElement, () => f.if(i32.eq(p.ranges, 1), eachRow, eachListedRow));
    },
  });
}
