import { type FunctionBuilder, i32, type Local, type Value, v128 } from "../../wasm/index.js";

/** Bytes from which on the engine's own copy, which is a call, is faster than vectors. */
const longRow = 8192;

/**
 * Copies by the engine to a place that is 1 to 31 bytes further into its page than the source take 2.4 times as long on AMD's Zen 3
 * (`rep movsb`): vectors do not.
 */
const slowAhead = 32;
const pageBytes = 4096;

/** Copies one element of 1, 2 or 4 bytes. */
export function moveOne(f: FunctionBuilder, bytes: 1 | 2 | 4, to: Value<"i32">, from: Value<"i32">): void {
  if (bytes === 4) f.store(to, i32.load(from));
  else if (bytes === 2) f.store16(to, i32.load16U(from));
  else f.store8(to, i32.load8U(from));
}

/** Copies bytes that follow one another. The locals are used up. */
export function emitMove(f: FunctionBuilder, at: Local<"i32">, out: Local<"i32">, bytes: Local<"i32">): void {
  const advance = (step: number) => {
    f.add(at, step);
    f.add(out, step);
    f.set(bytes, i32.sub(bytes, step));
  };
  // Of what lies exactly as far into a page, or further than a vector of the engine's copy beyond it, nothing is slow.
  const ahead = i32.and(i32.sub(out, at), pageBytes - 1);
  const isSlow = i32.ltU(i32.sub(ahead, 1), slowAhead - 1);
  f.if(
    i32.and(i32.geU(bytes, longRow), i32.eqz(isSlow)),
    () => f.memoryCopy(out, at, bytes),
    () => {
      f.if(
        i32.geU(bytes, 16),
        () => {
          f.while(i32.geU(bytes, 64), () => {
            const vectors = [0, 16, 32, 48].map((offset) => f.let(v128.load(at, offset)));
            for (const [i, vector] of vectors.entries()) f.store(out, vector, 16 * i);
            advance(64);
          });
          f.while(i32.geU(bytes, 16), () => {
            f.store(out, v128.load(at));
            advance(16);
          });
          // The last vector ends with the row, over bytes that are there already.
          f.if(bytes, () =>
            f.store(i32.add(out, i32.sub(bytes, 16)), v128.load(i32.add(at, i32.sub(bytes, 16)))),
          );
        },
        () => {
          f.if(i32.and(bytes, 8), () => {
            f.storeLane(64, 0, out, v128.load64Zero(at));
            advance(8);
          });
          for (const part of [4, 2, 1] as const)
            f.if(i32.and(bytes, part), () => {
              moveOne(f, part, out, at);
              advance(part);
            });
        },
      );
    },
  );
}
