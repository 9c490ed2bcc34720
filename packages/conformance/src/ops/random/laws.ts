import {
  type DType,
  dtypeBytes,
  type RandomArguments,
  type RandomKind,
  type RandomType,
  randomKinds,
  randomTypes,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { extent, fixedPlacement, oddPlacement, placement } from "../../arbitraries/shapes.js";
import { check as demand } from "../../kit/checks.js";
import type { Law, LawContext } from "../../law.js";
import { collect, execute, measure, type Placement } from "../../workspace.js";
import { type Distribution, elements, randomTolerance } from "./formula.js";
import { type Block, counterOf, type Sequence, words } from "./philox.js";

interface RandomCase {
  readonly count: number;
  readonly seed: number | bigint;
  readonly offset: number | bigint;
  /** Of the kinds that have them. */
  readonly mean: number;
  readonly deviation: number;
  readonly probability: number;
  readonly placement: Placement;
}

const plainCase: Omit<RandomCase, "count"> = {
  ...{ seed: 1, offset: 0, mean: 0, deviation: 1, probability: 0.5, placement: fixedPlacement },
};

/** All words of a sequence, and all sequences. */
const [places, seeds] = [1n << 130n, 1n << 64n];

/** Numbers, and bigints of which all words count. */
const seed: Arbitrary<number | bigint> = fc.oneof(
  fc.noShrink(fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER })),
  fc.noShrink(fc.bigInt({ min: 0n, max: seeds - 1n })),
);

/** The start of a sequence, any place, and places from which a word of the counter overflows. */
const offset: Arbitrary<number | bigint> = fc.oneof(
  fc.nat(9),
  fc.bigInt({ min: 0n, max: places - 1n }),
  fc
    .tuple(fc.constantFrom(34n, 66n, 98n, 130n), fc.bigInt({ min: 1n, max: 60n }))
    .map(([bits, before]) => (1n << bits) - before),
);

function cases(where: Arbitrary<Placement> = placement): Arbitrary<RandomCase> {
  return fc.record({
    count: extent(),
    ...{ seed, offset },
    mean: fc.constantFrom(0, 1, -2.5),
    deviation: fc.constantFrom(0, 1, 0.1, 3),
    probability: fc.constantFrom(0.5, 0.1, 2 ** -9, 0.999),
    placement: where,
  });
}

/** At each end of a word of the counter, from another word of a block. */
const carries: readonly RandomCase[] = [34n, 66n, 98n, 130n].map((bits, i) => {
  const offset = (1n << bits) - 6n - BigInt(i);
  return { ...plainCase, count: 21, seed: 2n ** 64n - 3n, offset };
});

/** Sizes above what kernels may compute at once, in words, in vectors and in chunks. */
const largeCases: readonly RandomCase[] = [
  { count: 70_003, offset: 2 },
  { count: 2 ** 18 + 5, offset: (1n << 34n) - 40_001n },
  { count: 2 ** 20 + 1, offset: 3 },
].map((given) => ({ ...plainCase, ...given }));

/** The arguments of a call, without operands. */
function argumentsFor(
  kind: RandomKind,
  dtype: RandomType,
  { count, seed, offset, mean, deviation, probability }: RandomCase,
): Omit<RandomArguments, "output"> {
  return {
    ...{ kind, count, seed },
    // What may be left out is, now and then.
    ...(offset === 0 ? {} : { offset }),
    ...(dtype === randomTypes[kind][0] ? {} : { dtype }),
    ...(kind === "normal" && mean !== 0 ? { mean } : {}),
    ...(kind === "normal" && deviation !== 1 ? { deviation } : {}),
    ...(kind === "bernoulli" && probability !== 0.5 ? { probability } : {}),
  };
}

/** Computed here, independently of core. */
function sequenceOf(seed: number | bigint, offset: number | bigint): Sequence {
  const word = (value: number | bigint, i: number) => Number((BigInt(value) >> BigInt(32 * i)) & 0xffffffffn);
  const counter = BigInt(offset) >> 2n;
  return {
    key: [word(seed, 0), word(seed, 1)],
    counter: [word(counter, 0), word(counter, 1), word(counter, 2), word(counter, 3)],
    skip: word(offset, 0) & 3,
  };
}

function distributionOf(kind: RandomKind, dtype: RandomType, value: RandomCase): Distribution {
  const [mean, deviation] = [Math.fround(value.mean), Math.fround(value.deviation)];
  return { kind, dtype, mean, deviation, threshold: Math.round(Math.fround(value.probability) * 2 ** 32) };
}

async function check(
  context: LawContext,
  kind: RandomKind,
  dtype: RandomType,
  value: RandomCase,
): Promise<void> {
  const { seed, offset, count } = value;
  const sequence = sequenceOf(seed, offset);
  const all = words(sequence, count);
  const expected = collect((emit) =>
    elements(distributionOf(kind, dtype, value), all, sequence.skip, count, emit),
  );
  const args = argumentsFor(kind, dtype, value);
  const got = await execute({
    ...{ backend: context.backend, dtype, placement: value.placement },
    ...{ output: "output", written: expected.places },
    operands: { output: new Float64Array(count).fill(Number.NaN) },
    call: ({ output }) => context.backend.random({ ...args, output }),
  });
  measure(context, [count, sequence.skip], got, expected, randomTolerance(kind, dtype, context.numerics));
}

/** Runs several calls, each on as many elements as it has, one after the other in one output. */
async function sideBySide(
  { backend }: LawContext,
  dtype: DType,
  before: number,
  calls: readonly Omit<RandomArguments, "output">[],
): Promise<Float64Array> {
  const total = calls.reduce((sum, { count }) => sum + count, 0);
  return await execute({
    ...{ backend, dtype, placement: { before: [before], shared: false } },
    ...{ output: "output", written: Array.from({ length: total }, (_, i) => i) },
    operands: { output: new Float64Array(total).fill(Number.NaN) },
    call({ output }) {
      let { byteOffset } = output;
      for (const call of calls) {
        backend.random({ ...call, output: { ...output, byteOffset } });
        byteOffset += call.count * dtypeBytes[dtype];
      }
    },
  });
}

interface CutCase extends RandomCase {
  /** Where the second call begins, and the third. */
  readonly cuts: readonly [number, number];
}

const cutCases: Arbitrary<CutCase> = fc
  .tuple(cases(), fc.nat(40), fc.nat(40))
  .map(([value, first, second]) => {
    const cut = first % (value.count + 1);
    return { ...value, cuts: [cut, cut + (second % (value.count - cut + 1))] as const };
  });

async function checkCuts(context: LawContext, kind: RandomKind, dtype: RandomType, value: CutCase) {
  const { offset, count, cuts } = value;
  const args = argumentsFor(kind, dtype, value);
  const parts = [0, ...cuts, count].slice(0, -1).map((from, i, starts) => ({
    ...args,
    offset: (BigInt(offset) + BigInt(from)) % places,
    count: (starts[i + 1] ?? count) - from,
  }));
  const before = value.placement.before[0]!;
  const whole = await sideBySide(context, dtype, before, [args]);
  const cut = await sideBySide(context, dtype, before, parts);
  const at = cut.findIndex((element, i) => !Object.is(element, whole[i]));
  demand(
    at < 0,
    `element ${at} is ${cut[at]} if the sequence is cut at ${cuts.join(", ")}, not ${whole[at]}`,
  );
}

/** From Random123 (https://github.com/DEShawResearch/random123), tests/kat_vectors: philox4x32 with 10 rounds. */
export const knownAnswers: readonly (readonly [counter: Block, key: Sequence["key"], answer: Block])[] = [
  [
    [0, 0, 0, 0],
    [0, 0],
    [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8],
  ],
  [
    [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
    [0xffffffff, 0xffffffff],
    [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
  ],
  [
    [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
    [0xa4093822, 0x299f31d0],
    [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
  ],
];

/** A number by its 32-bit words, the lowest first. */
function joined(parts: readonly number[]): bigint {
  return parts.reduceRight((sum, part) => (sum << 32n) | BigInt(part), 0n);
}

/** The offset at which the sequence of a key has these four words. */
function offsetOf(key: Sequence["key"], block: Block): bigint {
  return joined(counterOf(key, block)) << 2n;
}

/** Words at which the formulas change: the ends, the halves, the bits that are kept, quarter turns. */
const cornerWords: readonly number[] = [
  ...[0, 1, 0xff, 0x100, 0x1fffff, 0x200000, 0x1fffffff, 0x20000000],
  ...[0x3fffffff, 0x40000000, 0x7fffffff, 0x80000000, 0x80000001],
  // The root of 1/2, where logarithms change their exponent.
  ...[0xb504f333, 0xb504f334, 0xbfffffff, 0xc0000000, 0xfeffffff, 0xffdfffff],
  ...[0xffe00000, 0xfffffeff, 0xffffff00, 0xffffff7f, 0xffffff80, 0xfffffffe, 0xffffffff],
];

/** Every corner in each place of a block, beside one that is far from it. */
const cornerBlocks: readonly Block[] = cornerWords.flatMap((word, i): readonly Block[] => {
  const other = cornerWords[(i + 8) % cornerWords.length]!;
  return [
    [word, word, other, word],
    [other, word, word, other],
  ];
});

const cornerKey: Sequence["key"] = [0x13579bdf, 0x2468ace0];

async function checkCorners(
  context: LawContext,
  kind: RandomKind,
  dtype: RandomType,
  value: RandomCase,
): Promise<void> {
  const calls = cornerBlocks.map((block) =>
    argumentsFor(kind, dtype, { ...value, seed: joined(cornerKey), offset: offsetOf(cornerKey, block) }),
  );
  const got = await sideBySide(context, dtype, 3, calls);
  const all = Uint32Array.from(cornerBlocks.flat());
  const expected = collect((emit) => elements(distributionOf(kind, dtype, value), all, 0, all.length, emit));
  measure(context, [all.length, 0], got, expected, randomTolerance(kind, dtype, context.numerics));
}

/** Thresholds between neighbouring words, at both ends of what there is. */
const cornerProbabilities = [0.5, 2 ** -32, 3 * 2 ** -32, 2 ** -24, 1 - 2 ** -24, 0.25] as const;

const types: readonly RandomType[] = [...new Set(Object.values(randomTypes).flat())];

export const randomLaws: readonly Law[] = [
  ...randomKinds.flatMap((kind) => randomTypes[kind].flatMap((dtype) => lawsFor(kind, dtype))),
  ...types.map((dtype) => touchesNothingElse(dtype)),
];

function touchesNothingElse(dtype: RandomType): Law {
  const having = (backend: LawContext["backend"]) =>
    randomKinds.filter((kind) => backend.supports("random", { dtype, kind }));
  return {
    ...{
      topic: "random",
      name: "touches nothing but the elements of its output",
      operation: "random",
      dtype,
    },
    exempt: (_capabilities, backend) =>
      having(backend).length > 0 ? undefined : `no kind in ${dtype} is supported`,
    run: (context) =>
      context.forAll(
        fc.record({ kind: fc.constantFrom(...having(context.backend)), value: cases(oddPlacement) }),
        ({ kind, value }) => check(context, kind, dtype, value),
      ),
  };
}

function lawsFor(kind: RandomKind, dtype: RandomType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "random", name: `${kind}: ${name}`, operation: "random", dtype, run },
    exempt: (_capabilities, backend) =>
      backend.supports("random", { dtype, kind }) ? undefined : `${kind} in ${dtype} is not supported`,
  });
  const close = kind === "normal" ? "stays within the error bound" : "is exact";
  return [
    law(`${close} at any place of a sequence`, (context) =>
      context.forAll(cases(), (value) => check(context, kind, dtype, value), { examples: carries }),
    ),
    law(`${close} over many elements`, (context) =>
      context.forEach(largeCases, (value) => check(context, kind, dtype, value), { quick: 2 }),
    ),
    law("does not depend on where a sequence is cut", (context) =>
      context.forAll(cutCases, (value) => checkCuts(context, kind, dtype, value), { runs: 0.5 }),
    ),
    law(`${close} at the ends of what words hold`, (context) => {
      const values: readonly Omit<RandomCase, "count">[] =
        kind === "bernoulli"
          ? cornerProbabilities.map((probability) => ({ ...plainCase, probability }))
          : [plainCase];
      return context.forEach(values, (value) => checkCorners(context, kind, dtype, { ...value, count: 4 }));
    }),
    ...(kind === "bits" ? [law("gives the answers that are published", answers)] : []),
    ...(kind === "bernoulli" ? [law("is always 0 or always 1 if it must be", certain)] : []),
  ];
}

async function answers(context: LawContext): Promise<void> {
  await context.forEach(knownAnswers, async ([counter, key, answer]) => {
    const call = { kind: "bits", count: 4, seed: joined(key), offset: joined(counter) << 2n } as const;
    const got = await sideBySide(context, "u32", 0, [call]);
    const shown = (block: Iterable<number>) => [...block].map((word) => word.toString(16)).join(" ");
    demand(shown(got) === shown(answer), `the block is ${shown(got)}, not ${shown(answer)}`);
  });
}

async function certain(context: LawContext): Promise<void> {
  await context.forEach([0, 1], async (probability) => {
    const calls = [3, 1, 64].map((count) => ({ kind: "bernoulli", count, seed: 5, probability }) as const);
    const got = await sideBySide(context, "u8", 1, calls);
    demand(
      got.every((element) => element === probability),
      `with probability ${probability} some elements are not ${probability}`,
    );
  });
}
