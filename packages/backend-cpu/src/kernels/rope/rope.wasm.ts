import type { FloatType, RopeKind } from "@backplane/core";
import { f32x4, i32, i32x4, type Local, shuffle32, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";

/**
 * `positions`: 0 if there are none. `pairs`, `rotatedBytes`, `rowBytes`: of a row, the last one all of it. `inputBatch` to
 * `outputRow`: bytes from one batch entry, head and row to the next. `sign`: the sign bit, where sines change their sign.
 */
const types = {
  input: "i32",
  output: "i32",
  cos: "i32",
  sin: "i32",
  positions: "i32",
  positionStride: "i32",
  start: "i32",
  length: "i32",
  heads: "i32",
  rows: "i32",
  total: "i32",
  rowsPerChunk: "i32",
  pairs: "i32",
  rotatedBytes: "i32",
  rowBytes: "i32",
  inputBatch: "i32",
  inputHead: "i32",
  inputRow: "i32",
  outputBatch: "i32",
  outputHead: "i32",
  outputRow: "i32",
  sign: "i32",
} as const;

export type RopeTypes = typeof types;

/** Chunk: `rowsPerChunk` of all rows, in the order batch, head, row. */
export function ropeKernel(kind: RopeKind, dtype: FloatType): Kernel<RopeTypes> {
  return defineKernel({
    name: `rope_${kind}_${dtype}`,
    parameters: types,
    emit(f, { parameters: p, chunk }) {
      const elements = elementsOf(f, dtype);
      const vectorBytes = 4 * elements.bytes;
      const at = f.let(i32.mul(chunk, p.rowsPerChunk));
      const end = f.let(i32.add(at, i32.minU(i32.sub(p.total, at), p.rowsPerChunk)));
      const slab = f.let(i32.divU(at, p.rows));
      const r = f.let(i32.sub(at, i32.mul(slab, p.rows)));
      const b = f.let(i32.divU(slab, p.heads));
      const h = f.let(i32.sub(slab, i32.mul(b, p.heads)));
      const signs = f.let(i32x4.splat(p.sign));
      const position = f.local("i32");
      const found = f.local("i32");
      const from = f.local("i32");
      const to = f.local("i32");
      const cos = f.local("i32");
      const sin = f.local("i32");
      const count = f.local("i32");
      const half = f.let(i32.shl(p.pairs, elements.shift));
      const place = (base: Local<"i32">, ofBatch: Local<"i32">, ofHead: Local<"i32">, ofRow: Local<"i32">) =>
        i32.add(i32.add(base, i32.mul(b, ofBatch)), i32.add(i32.mul(h, ofHead), i32.mul(r, ofRow)));
      f.forLocal(at, end, () => {
        f.set(from, place(p.input, p.inputBatch, p.inputHead, p.inputRow));
        f.set(to, place(p.output, p.outputBatch, p.outputHead, p.outputRow));
        f.set(position, i32.add(p.start, r));
        f.if(p.positions, () => {
          const entry = i32.add(i32.mul(b, p.positionStride), r);
          f.set(position, i32.load(i32.add(p.positions, i32.shl(entry, 2))));
        });
        // All ones if it is in range. Otherwise the first row of the tables is read, and nothing is left of it.
        f.set(found, i32.sub(0, i32.ltU(position, p.length)));
        const masks = f.let(i32x4.splat(found));
        const row = f.let(i32.shl(i32.mul(i32.and(position, found), p.pairs), 2));
        f.set(cos, i32.add(p.cos, row));
        f.set(sin, i32.add(p.sin, row));
        f.if(i32.and(i32.ltU(p.rotatedBytes, p.rowBytes), i32.ne(from, to)), () =>
          f.memoryCopy(
            i32.add(to, p.rotatedBytes),
            i32.add(from, p.rotatedBytes),
            i32.sub(p.rowBytes, p.rotatedBytes),
          ),
        );
        f.set(count, p.pairs);
        /** Four pairs: loads all, then hands the results on. */
        const turn = (store: (first: Local<"v128">, second: Local<"v128">) => void): void => {
          const c = f.let(v128.and(v128.load(cos), masks));
          const s = f.let(v128.xor(v128.and(v128.load(sin), masks), signs));
          const a = f.let(elements.load(from));
          const behind = kind === "halves" ? i32.add(from, half) : i32.add(from, vectorBytes);
          const d = f.let(elements.load(behind));
          const x = kind === "halves" ? a : f.let(shuffle32([0, 2, 4, 6], a, d));
          const y = kind === "halves" ? d : f.let(shuffle32([1, 3, 5, 7], a, d));
          const first = f.let(f.multiplySubtract(y, s, f32x4.mul(x, c)));
          const second = f.let(f.multiplyAdd(x, s, f32x4.mul(y, c)));
          if (kind === "halves") store(first, second);
          else
            store(
              f.let(shuffle32([0, 4, 1, 5], first, second)),
              f.let(shuffle32([2, 6, 3, 7], first, second)),
            );
        };
        f.while(i32.geS(count, 4), () => {
          turn((first, second) => {
            elements.store(to, first);
            if (kind === "halves") elements.store(i32.add(to, half), second);
            else elements.store(to, second, vectorBytes);
          });
          const step = kind === "halves" ? vectorBytes : 2 * vectorBytes;
          f.add(from, step);
          f.add(to, step);
          f.add(cos, 16);
          f.add(sin, 16);
          f.add(count, -4);
        });
        f.if(i32.gtS(count, 0), () =>
          turn((first, second) => {
            if (kind === "halves") {
              elements.storeFirst(to, first, count);
              elements.storeFirst(i32.add(to, half), second, count);
              return;
            }
            f.if(
              i32.geS(count, 2),
              () => {
                elements.store(to, first);
                f.if(i32.eq(count, 3), () =>
                  elements.storeFirst(i32.add(to, vectorBytes), second, i32.const(2)),
                );
              },
              () => elements.storeFirst(to, first, i32.const(2)),
            );
          }),
        );
        f.add(r, 1);
        f.if(i32.eq(r, p.rows), () => {
          f.set(r, 0);
          f.add(h, 1);
          f.if(i32.eq(h, p.heads), () => {
            f.set(h, 0);
            f.add(b, 1);
          });
        });
      });
    },
  });
}
