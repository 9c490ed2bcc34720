/** What a sequence of random words is made of; all words are unsigned, and the lowest come first. */
export interface Sequence {
  readonly key: readonly [number, number];
  readonly counter: Block;
  /** Words of the first block that are left out. */
  readonly skip: number;
}

export type Block = readonly [number, number, number, number];

const multipliers = [0xd2511f53, 0xcd9e8d57] as const;

/** What is added to the key from one round to the next: the golden ratio and the root of 3, less 1, in 32 bits. */
const steps = [0x9e3779b9, 0xbb67ae85] as const;

const usualRounds = 10;

/** The upper 32 bits of a product. */
function high(a: number, b: number): number {
  const low = (a & 0xffff) * b;
  return Math.floor(((a >>> 16) * b + Math.floor(low / 2 ** 16)) / 2 ** 16);
}

function low(a: number, b: number): number {
  return Math.imul(a, b) >>> 0;
}

function keysOf(key: Sequence["key"], round: number): readonly [number, number] {
  return [(key[0] + low(steps[0], round)) >>> 0, (key[1] + low(steps[1], round)) >>> 0];
}

/** Philox 4x32, after J. Salmon, M. Moraes, R. Dror and D. Shaw (2011), section 3.3. */
export function philox(key: Sequence["key"], counter: Block, rounds: number = usualRounds): Block {
  let [a, b, c, d] = counter;
  for (let round = 0; round < rounds; round++) {
    const [k, l] = keysOf(key, round);
    const [x, y] = [a, c];
    a = (high(multipliers[1], y) ^ b ^ k) >>> 0;
    b = low(multipliers[1], y);
    c = (high(multipliers[0], x) ^ d ^ l) >>> 0;
    d = low(multipliers[0], x);
  }
  return [a, b, c, d];
}

/** The inverses of the multipliers modulo 2^32. */
const inverses = multipliers.map((multiplier) => {
  // Newton's method doubles the bits that are right; an odd number is its own inverse modulo 8.
  let inverse: number = multiplier;
  for (let bits = 3; bits < 32; bits *= 2) inverse = low(inverse, 2 - low(multiplier, inverse));
  return inverse;
});

/** Returns the counter whose block is this one: there is exactly one for each key. */
export function counterOf(key: Sequence["key"], block: Block): Block {
  let [a, b, c, d] = block;
  for (let round = usualRounds - 1; round >= 0; round--) {
    const [k, l] = keysOf(key, round);
    const [x, y] = [low(inverses[0]!, d), low(inverses[1]!, b)];
    b = (high(multipliers[1], y) ^ a ^ k) >>> 0;
    d = (high(multipliers[0], x) ^ c ^ l) >>> 0;
    [a, c] = [x, y];
  }
  return [a, b, c, d];
}

/** The counter after this one. */
export function following(counter: Block): Block {
  const next: [number, number, number, number] = [...counter];
  for (let i = 0; i < 4; i++) {
    next[i] = (next[i]! + 1) >>> 0;
    if (next[i] !== 0) break;
  }
  return next;
}

/** Returns words of whole blocks, of which the one at `skip` is the first of `count`. */
export function words(
  { key, counter, skip }: Sequence,
  count: number,
  block: (key: Sequence["key"], counter: Block) => Block = philox,
  next: (counter: Block) => Block = following,
): Uint32Array {
  const all = new Uint32Array(4 * Math.ceil((skip + count) / 4));
  let at = counter;
  for (let first = 0; first < all.length; first += 4) {
    all.set(block(key, at), first);
    at = next(at);
  }
  return all;
}
