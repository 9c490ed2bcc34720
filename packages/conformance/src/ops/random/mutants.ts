import { dtypeBytes, type RandomKind, type RandomProblem } from "@backplane/core";
import { type ReferenceMemory, storeInto } from "../../elements.js";
import type { Builder, Mutant } from "../../mutant.js";
import { elements } from "./formula.js";
import { type Block, following, philox, words } from "./philox.js";

type Problem = RandomProblem<ReferenceMemory>;

const f32 = Math.fround;

/** Stores what becomes of the words of the whole blocks, of which the first one that counts is at `skip`. */
function fromWords(p: Problem, all: Uint32Array, skip: number = p.skip): void {
  elements(p, all, skip, p.count, storeInto(p.output, p.dtype));
}

/** Stores what a formula makes of each word and the next one. */
function byWords(p: Problem, formula: (word: number, at: number, all: Uint32Array) => number): void {
  const all = words(p, p.count);
  const store = storeInto(p.output, p.dtype);
  for (let i = 0; i < p.count; i++) store(i, formula(all[p.skip + i]!, p.skip + i, all));
}

/** The element at `at` of normally distributed ones, with a step or two of one's own. */
function normal(
  p: Problem,
  all: Uint32Array,
  at: number,
  steps: {
    readonly radius?: (a: number) => number;
    readonly angle?: (b: number) => number;
    readonly isSine?: boolean;
  } = {},
): number {
  const {
    radius = (a) => Math.sqrt(-2 * Math.log((a + 0.5) / 2 ** 32)),
    angle = (b) => (2 * Math.PI * b) / 2 ** 32,
    isSine = at % 2 === 1,
  } = steps;
  const turned = angle(all[at | 1]!);
  return p.mean + p.deviation * radius(all[at & ~1]!) * (isSine ? Math.sin(turned) : Math.cos(turned));
}

/** Defects of random. */
export const randomMutants = (builder: Builder): readonly Mutant[] => {
  const { tampered, replaced } = builder;
  const mutant = (given: Omit<Mutant, "operation">): Mutant => ({ ...given, operation: "random" });
  /** Replaces the formula of one kind. */
  const formula =
    (kind: RandomKind, of: (word: number, p: Problem, at: number, all: Uint32Array) => number) => () =>
      replaced("random", (p, run) =>
        p.kind === kind ? byWords(p, (word, at, all) => of(word, p, at, all)) : run(p),
      );
  return [
    mutant({
      name: "stops after nine rounds",
      defect: "edge",
      description: "Bits that look as random.",
      killedBy: [
        "random u32: bits: gives the answers that are published",
        "random f32: uniform: is exact at any place of a sequence",
        "random f32: normal: stays within the error bound at any place of a sequence",
      ],
      create: () =>
        replaced("random", (p) =>
          fromWords(
            p,
            words(p, p.count, (key, counter) => philox(key, counter, 9)),
          ),
        ),
    }),
    mutant({
      name: "takes the words of the seed in the other order",
      defect: "indexing",
      description: "The lowest one last.",
      killedBy: [
        "random u32: bits: gives the answers that are published",
        "random u32: bits: is exact at any place of a sequence",
      ],
      create: () => tampered("random", (p) => ({ ...p, key: [p.key[1], p.key[0]] })),
    }),
    mutant({
      name: "takes seeds of 32 bits",
      defect: "numerics",
      description: "What is above them is lost.",
      killedBy: ["random f16: uniform: is exact at any place of a sequence"],
      create: () => tampered("random", (p) => ({ ...p, key: [p.key[0], 0] })),
    }),
    mutant({
      name: "carries nothing into the second word of the counter",
      defect: "edge",
      description: "After 2^34 elements a sequence begins again.",
      killedBy: [
        "random u32: bits: is exact over many elements",
        "random u8: bernoulli: is exact over many elements",
      ],
      create: () =>
        replaced("random", (p) => {
          const wrapping = ([a, ...others]: Block): Block => [(a + 1) >>> 0, ...others];
          fromWords(p, words(p, p.count, philox, wrapping));
        }),
    }),
    mutant({
      name: "carries into the second word of the counter alone",
      defect: "edge",
      description: "A counter of 64 bits: after 2^66 elements a sequence begins again.",
      killedBy: ["random u32: bits: is exact at any place of a sequence"],
      create: () =>
        replaced("random", (p) => {
          const wrapping = ([a, b, c, d]: Block): Block => {
            const [first, second] = following([a, b, c, d]);
            return [first, second, c, d];
          };
          fromWords(p, words(p, p.count, philox, wrapping));
        }),
    }),
    mutant({
      name: "begins every call with a whole block",
      defect: "stride",
      description: "As if offsets were multiples of four.",
      killedBy: [
        "random f32: uniform: does not depend on where a sequence is cut",
        "random u8: bernoulli: does not depend on where a sequence is cut",
      ],
      create: () => tampered("random", (p) => ({ ...p, skip: 0 })),
    }),
    mutant({
      name: "pairs elements of the call, not of the sequence",
      defect: "stride",
      description: "From an odd offset on, each z is made of the wrong two words.",
      killedBy: [
        "random f32: normal: does not depend on where a sequence is cut",
        "random f16: normal: stays within the error bound at any place of a sequence",
      ],
      create: () =>
        replaced("random", (p, run) => {
          if (p.kind !== "normal") return run(p);
          // One more, so that the last element has a partner.
          fromWords(p, words(p, p.count + 1).slice(p.skip), 0);
        }),
    }),
    mutant({
      name: "repeats what one dispatch computes",
      defect: "indexing",
      description: "Each 65,536 elements are the same.",
      killedBy: [
        "random f32: uniform: is exact over many elements",
        "random f16: normal: stays within the error bound over many elements",
      ],
      create: () =>
        replaced("random", (p) => {
          const all = words(p, p.count);
          fromWords(
            p,
            all.map((_, i) => all[i % 65_536]!),
          );
        }),
    }),
    mutant({
      name: "keeps the words of an earlier call",
      defect: "lifecycle",
      description: "By the seed: a later call finds them, wherever it begins.",
      killedBy: [
        "random u32: bits: does not depend on where a sequence is cut",
        "random f32: normal: stays within the error bound at the ends of what words hold",
      ],
      create: () => {
        const kept = new Map<string, Uint32Array>();
        return replaced("random", (p) => {
          const seed = p.key.join();
          const all = words(p, p.count);
          const known = kept.get(seed) ?? all;
          kept.set(seed, known);
          fromWords(p, known.length < all.length ? all : known);
        });
      },
    }),
    mutant({
      name: "rounds 32 bits to f32",
      defect: "numerics",
      description: "The largest words give 1.",
      killedBy: [
        "random f32: uniform: is exact at any place of a sequence",
        "random f32: uniform: is exact at the ends of what words hold",
      ],
      create: formula("uniform", (word) => f32(word / 2 ** 32)),
    }),
    mutant({
      name: "rounds uniform numbers of f32 to f16",
      defect: "numerics",
      description: "The largest ones give 1.",
      killedBy: ["random f16: uniform: is exact at the ends of what words hold"],
      create: formula("uniform", (word) => Math.floor(word / 2 ** 8) / 2 ** 24),
    }),
    mutant({
      name: "takes the logarithm of 0",
      defect: "numerics",
      description: "u is a / 2^32, and z infinite for a = 0.",
      killedBy: [
        "random f32: normal: stays within the error bound at the ends of what words hold",
        "random f16: normal: stays within the error bound at the ends of what words hold",
      ],
      create: formula("normal", (_word, p, at, all) =>
        normal(p, all, at, { radius: (a) => Math.sqrt(-2 * Math.log(a / 2 ** 32)) }),
      ),
    }),
    mutant({
      name: "rounds u to f32 close to 1",
      defect: "numerics",
      description: "Where 1 - u has all that counts, z loses its bits, and at last is 0.",
      killedBy: ["random f32: normal: stays within the error bound at the ends of what words hold"],
      create: formula("normal", (_word, p, at, all) =>
        normal(p, all, at, { radius: (a) => Math.sqrt(-2 * Math.log(f32((a + 0.5) / 2 ** 32))) }),
      ),
    }),
    mutant({
      name: "rounds angles before it reduces them",
      defect: "numerics",
      description: "Close to whole turns, the sine of 2 pi b / 2^32 in f32 has few bits that are right.",
      killedBy: [
        "random f32: normal: stays within the error bound at any place of a sequence",
        "random f32: normal: stays within the error bound at the ends of what words hold",
      ],
      create: formula("normal", (_word, p, at, all) =>
        normal(p, all, at, { angle: (b) => f32((2 * Math.PI * b) / 2 ** 32) }),
      ),
    }),
    mutant({
      name: "takes the sine first",
      defect: "indexing",
      description: "As some do: no worse, but other numbers.",
      killedBy: ["random f32: normal: stays within the error bound at any place of a sequence"],
      create: formula("normal", (_word, p, at, all) => normal(p, all, at, { isSine: at % 2 === 0 })),
    }),
    mutant({
      name: "takes the deviation for a variance",
      defect: "numerics",
      description: "z is multiplied by its root.",
      killedBy: [
        "random f32: normal: stays within the error bound at any place of a sequence",
        "random f16: normal: stays within the error bound at any place of a sequence",
      ],
      create: () => tampered("random", (p) => ({ ...p, deviation: Math.sqrt(p.deviation) })),
    }),
    mutant({
      name: "counts the threshold in",
      defect: "edge",
      description: "One word too many gives 1.",
      killedBy: ["random u8: bernoulli: is exact at the ends of what words hold"],
      create: formula("bernoulli", (word, p) => (word <= p.threshold ? 1 : 0)),
    }),
    mutant({
      name: "compares uniform numbers with the probability",
      defect: "numerics",
      description: "Of 24 bits: probabilities below 2^-24 count as that.",
      killedBy: ["random u8: bernoulli: is exact at the ends of what words hold"],
      create: formula("bernoulli", (word, p) =>
        Math.floor(word / 2 ** 8) / 2 ** 24 < p.threshold / 2 ** 32 ? 1 : 0,
      ),
    }),
    mutant({
      name: "writes a whole word at the end",
      defect: "edge",
      description: "Elements that share it with the last ones are lost.",
      killedBy: [
        "random u8: touches nothing but the elements of its output",
        "random f16: touches nothing but the elements of its output",
      ],
      create: () =>
        replaced("random", (p, run) => {
          run(p);
          const { memory, byteOffset, byteLength } = p.output;
          const end = byteOffset + byteLength;
          if (dtypeBytes[p.dtype] < 4) memory.fill(0, end, Math.ceil(end / 4) * 4);
        }),
    }),
  ];
};
