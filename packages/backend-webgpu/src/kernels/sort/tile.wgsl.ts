import { lines, WORKGROUP_SIZE, wgsl } from "../../program/index.js";

/*
 * A workgroup sorts a tile of records digit by digit, the lowest first, as D. Merrill and A. Grimshaw do ("High
 * performance and scalable radix sorting", 2011). Each invocation holds ITEMS neighbouring records in registers. For
 * each of 16 digits it counts its own, two counts to a word, in the order of the records; sums of the counts of lower
 * digits, and of equal ones of invocations before it, are the ranks; and the records meet in workgroup memory at
 * their ranks. Whatever has its place in workgroup memory at some time shares the same words, so that a tile of 4096
 * records takes the 16 KiB that every device has.
 */

export interface TileSize {
  /** Records of an invocation. */
  readonly items: 4 | 16;
  /** Whether loops over them are written out: registers have no indices that are known only at run time. */
  readonly unrolled: boolean;
}

export const tileRecords = (items: TileSize["items"]): number => items * WORKGROUP_SIZE;

/** Bits of the digits by which records in workgroup memory move, and words of counts that an invocation has. */
export const DIGIT_BITS = 4;
const COUNT_WORDS = 2 ** DIGIT_BITS / 2;

/** Invocations whose sums one invocation adds up by itself. */
const SUMMED = 16;

const COUNTS = COUNT_WORDS * WORKGROUP_SIZE;
const SUMS = WORKGROUP_SIZE + WORKGROUP_SIZE / SUMMED;

/** A statement for each record of an invocation. */
export function each({ items, unrolled }: TileSize, text: (i: string) => string): string {
  return eachOf(items, unrolled, text);
}

/** A statement for each of `count` numbers from 0 on. */
export function eachOf(count: number, unrolled: boolean, text: (i: string) => string): string {
  if (unrolled) return lines(count, (i) => `  {\n${text(`${i}u`)}\n  }`);
  return `  for (var i = 0u; i < ${count}u; i++) {\n${text("i")}\n  }`;
}

/** `isAlone`: only `words` and `slot` are used. */
export function workgroupWords({ items }: TileSize, isAlone: boolean = false): string {
  const tile = tileRecords(items);
  const common = wgsl`
const LANES = ${WORKGROUP_SIZE}u;
const ITEMS = ${items}u;
const TILE = ${tile}u;

var<workgroup> words: array<u32, ${isAlone ? tile : Math.max(tile, COUNTS + SUMS)}>;

/// Where word \`place\` lies: neighbouring invocations meet no bank twice, whether they read neighbours or every eighth.
fn slot(place: u32) -> u32 { return place ^ ((place >> 5u) & 31u); }
`;
  if (isAlone) return common;
  return wgsl`
${common}
/// What the invocations before this one have, and what all have. Uses no words of counts.
fn sums_of(lane: u32, own: u32) -> vec2<u32> {
  words[${COUNTS}u + lane] = own;
  workgroupBarrier();
  let first = lane - lane % ${SUMMED}u;
  var before = 0u;
  for (var i = 0u; i < ${SUMMED - 1}u; i++) {
    before += select(0u, words[${COUNTS}u + first + i], first + i < lane);
  }
  if (lane % ${SUMMED}u == ${SUMMED - 1}u) { words[${COUNTS + WORKGROUP_SIZE}u + lane / ${SUMMED}u] = before + own; }
  workgroupBarrier();
  var all = 0u;
  for (var i = 0u; i < ${WORKGROUP_SIZE / SUMMED}u; i++) {
    let sum = words[${COUNTS + WORKGROUP_SIZE}u + i];
    before += select(0u, sum, i < lane / ${SUMMED}u);
    all += sum;
  }
  return vec2<u32>(before, all);
}
`;
}

export const registers: string = wgsl`
  var key: array<u32, ITEMS>;
  var tag: array<u32, ITEMS>;
  var rank: array<u32, ITEMS>;`;

/** Moves what registers hold to the words at their ranks, and gets what is at \`place(i)\`. */
export function exchange(size: TileSize, place: (i: string) => string): string {
  return ["key", "tag"]
    .map(
      (name) => wgsl`
  workgroupBarrier();
${each(size, (i) => `    words[slot(rank[${i}])] = ${name}[${i}];`)}
  workgroupBarrier();
${each(size, (i) => `    ${name}[${i}] = words[slot(${place(i)})];`)}`,
    )
    .join("\n");
}

/**
 * Sorts the tile by the digits of `digitOf(i)` in rounds 0 to `rounds`, expressions. Before, record lane * ITEMS + i
 * is in register i; after it, that of `finalPlace(i)`.
 */
export function sortTile(
  size: TileSize,
  rounds: string,
  digitOf: (i: string) => string,
  finalPlace: (i: string) => string,
): string {
  const count = (i: string) => wgsl`
    let digit = ${digitOf(i)};
    let at = slot((digit & ${COUNT_WORDS - 1}u) * LANES + lane);
    let half = (digit / ${COUNT_WORDS}u) * 16u;`;
  return wgsl`
  for (var round = 0u; round < ${rounds}; round++) {
    workgroupBarrier();
    for (var i = 0u; i < ${COUNT_WORDS}u; i++) { words[slot(i * LANES + lane)] = 0u; }
${each(
  size,
  (i) => wgsl`${count(i)}
    let counts = words[at];
    rank[${i}] = (counts >> half) & 0xffffu;
    words[at] = counts + (1u << half);`,
)}
    workgroupBarrier();
    // Neighbouring words: digits one after the other, and of each digit the invocations.
    var own = 0u;
    for (var i = 0u; i < ${COUNT_WORDS}u; i++) { own += words[slot(${COUNT_WORDS}u * lane + i)]; }
    let sums = sums_of(lane, own);
    // The digits of the upper halves come after all of the lower ones.
    var before = sums.x + (sums.y << 16u);
    for (var i = 0u; i < ${COUNT_WORDS}u; i++) {
      let at = slot(${COUNT_WORDS}u * lane + i);
      let counts = words[at];
      words[at] = before;
      before += counts;
    }
    workgroupBarrier();
${each(size, (i) => `${count(i)}\n    rank[${i}] += (words[at] >> half) & 0xffffu;`)}
    let isLast = round + 1u == ${rounds};
${exchange(size, (i) => `select(lane * ITEMS + ${i}, ${finalPlace(i)}, isLast)`)}
  }`;
}
