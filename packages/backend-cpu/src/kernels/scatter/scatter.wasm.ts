import type { ScatterKind } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i32,
  i32x4,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
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

/** Halves as they are stored, four in the low 64 bits of a vector: a conversion would change those that are NaN. */
function storedHalves(f: FunctionBuilder): Omit<Elements, "loadSplat"> {
  return {
    ...elementFormats.f16,
    load: v128.load64Zero,
    store: (address, values, offset) => f.storeLane(64, 0, address, values, offset),
    storeFirst(address, values, count) {
      const rest = f.let(values);
      const at = f.let(address);
      f.if(i32.and(count, 2), () => {
        f.storeLane(32, 0, at, rest);
        f.add(at, 4);
        f.set(rest, shuffle32([1, 1, 1, 1], rest, rest));
      });
      f.if(i32.and(count, 1), () => f.storeLane(16, 0, at, rest));
    },
  };
}

/**
 * Chunk: `pieceLength` columns of one slab, by all updates of these, in order. No other chunk writes there, so sums have the
 * same bits for any number of threads.
 */
export function scatterKernel(kind: ScatterKind, dtype: ComputedType): Kernel<ScatterTypes> {
  return defineKernel({
    name: `scatter_${kind}_${dtype}`,
    parameters: types,
    emit(f, { parameters: p, chunk }) {
      const elements = kind === "set" && dtype === "f16" ? storedHalves(f) : elementsOf(f, dtype);
      const { shift, lanes } = elementFormats[dtype];
      const o = f.let(i32.divU(chunk, p.pieces));
      const first = f.let(i32.mul(i32.sub(chunk, i32.mul(o, p.pieces)), p.pieceLength));
      const columns = f.let(i32.minU(i32.sub(p.inner, first), p.pieceLength));
      const bytesAt = (row: Value<"i32">) => i32.shl(i32.add(i32.mul(row, p.inner), first), shift);
      const source = f.let(i32.add(p.updates, bytesAt(i32.mul(o, p.count))));
      const target = f.let(i32.add(p.output, bytesAt(i32.mul(o, p.length))));
      const start = i32.add(i32.mul(o, p.outerStride), i32.mul(first, p.innerStride));
      const indexAt = f.let(i32.add(p.indices, i32.shl(start, 2)));
      const rowBytes = f.let(i32.shl(p.inner, shift));
      const indexStep = f.let(i32.shl(p.axisStride, 2));
      const index = f.local("i32");
      const from = f.local("i32");
      const to = f.local("i32");
      const left = f.local("i32");
      const at = f.local("i32");
      const combined = (): Local<"v128"> =>
        f.let(combines[lanes][kind](elements.load(to), elements.load(from)));
      f.forRange(0, p.count, () => {
        f.set(from, source);
        f.if(
          p.innerStride,
          () => {
            f.set(at, indexAt);
            f.set(left, columns);
            f.while(i32.gtS(left, 0), () => {
              f.set(index, i32.load(at));
              f.if(i32.ltU(index, p.length), () => {
                const column = i32.shl(i32.sub(columns, left), shift);
                f.set(to, i32.add(i32.add(target, i32.mul(index, rowBytes)), column));
                elements.storeFirst(to, combined(), i32.const(1));
              });
              f.add(from, elements.bytes);
              f.add(at, 4);
              f.add(left, -1);
            });
          },
          () => {
            f.set(index, i32.load(indexAt));
            f.if(i32.ltU(index, p.length), () => {
              f.set(to, i32.add(target, i32.mul(index, rowBytes)));
              f.set(left, columns);
              f.while(i32.geS(left, 4), () => {
                elements.store(to, combined());
                f.add(from, 4 * elements.bytes);
                f.add(to, 4 * elements.bytes);
                f.add(left, -4);
              });
              f.if(left, () => elements.storeFirst(to, combined(), left));
            });
          },
        );
        f.add(source, rowBytes);
        f.add(indexAt, indexStep);
      });
    },
  });
}
