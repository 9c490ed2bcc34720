import type { RandomKind, RandomType } from "@backplane/core";
import { type FunctionBuilder, i32, select, shuffle32 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import type { VectorLocal } from "../math/index.js";
import { distributions } from "./distributions.js";
import { philoxBlocks } from "./philox.wasm.js";

const parameterTypes = {
  output: "i32",
  /** Words of whole blocks: the element of word i is i - skip. */
  skip: "i32",
  words: "i32",
  /** Words of one chunk, a multiple of `wordsAtOnce`. */
  chunkWords: "i32",
  key0: "i32",
  key1: "i32",
  counter0: "i32",
  counter1: "i32",
  counter2: "i32",
  counter3: "i32",
  mean: "f32",
  deviation: "f32",
  threshold: "i32",
} as const;

export type RandomTypes = typeof parameterTypes;

/** Four blocks. */
const wordsAtOnce = 16;

/** A chunk computes the elements of its words. The first and the last vectors go through scratch, if they are not whole. */
export function randomKernel(kind: RandomKind, dtype: RandomType): Kernel<RandomTypes> {
  return defineKernel({
    name: `random_${kind}_${dtype}`,
    parameters: parameterTypes,
    scratchBytes: 4 * wordsAtOnce,
    emit(f, { parameters, chunk, scratch }) {
      const { output, skip, words, chunkWords } = parameters;
      const stored = elementsOf(f, dtype);
      const blocks = philoxBlocks(f, parameters);
      const elements = distributions[kind](f, parameters, dtype);
      const at = f.let(i32.mul(chunk, chunkWords));
      const end = f.let(i32.add(at, i32.minU(i32.sub(words, at), chunkWords)));
      const addressOf = (word: typeof at) => i32.add(output, i32.shl(i32.sub(word, skip), stored.shift));
      f.forLocal(
        at,
        end,
        () => {
          const vectors = elements(blocks(f.let(i32.shrU(at, 2)))).map((vector) => f.let(vector));
          const last = f.let(i32.add(at, wordsAtOnce));
          const isPart = f.let(i32.or(i32.ltU(at, skip), i32.gtU(last, words)));
          const target = f.let(select(scratch, addressOf(at), isPart));
          for (const [i, vector] of transposed(f, vectors).entries())
            stored.store(target, vector, 4 * i * stored.bytes);
          f.if(isPart, () => {
            const from = f.let(i32.maxU(at, skip));
            const bytes = i32.shl(i32.sub(i32.minU(last, words), from), stored.shift);
            f.memoryCopy(addressOf(from), i32.add(scratch, i32.shl(i32.sub(from, at), stored.shift)), bytes);
          });
        },
        { step: wordsAtOnce },
      );
    },
  });
}

/** From the words of four blocks to one block after the other. */
function transposed(f: FunctionBuilder, rows: readonly VectorLocal[]): readonly VectorLocal[] {
  const [a, b, c, d] = rows as readonly [VectorLocal, VectorLocal, VectorLocal, VectorLocal];
  return (["low", "high"] as const).flatMap((half) => {
    const pairs = half === "low" ? ([0, 4, 1, 5] as const) : ([2, 6, 3, 7] as const);
    const [left, right] = [f.let(shuffle32(pairs, a, b)), f.let(shuffle32(pairs, c, d))];
    return [f.let(shuffle32([0, 1, 4, 5], left, right)), f.let(shuffle32([2, 3, 6, 7], left, right))];
  });
}
