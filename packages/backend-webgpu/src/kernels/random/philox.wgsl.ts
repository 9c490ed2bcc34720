import { lines, wgsl } from "../../program/index.js";
import { KEY_STEPS, ROUNDS, UNIFORM_ROUNDS } from "./philox.js";

/** Blocks that are computed together. */
export const BLOCKS = 4;

/**
 * Blocks of Philox 4x32-10 whose counters differ in their first word alone: `random_blocks(n)`, n those words of four blocks.
 * It needs the parameters of `philoxParameters`. One after the other they take a tenth longer, as the key of each round is
 * then computed four times.
 *
 * WGSL has no products of 64 bits. With x = a 2^16 + b and a multiplier m = c 2^16 + d, the upper word of x m is
 * a c + floor((t + q) / 2^16), t = a d + b c = x c + a (d - c 2^16), and q, the upper half of b d. q is what is missing
 * between t and the upper half of the lower word, modulo 2^16: floor((t + q) / 2^16) = floor((t + r) / 2^16) with r,
 * the upper half of the lower word's complement, x (-m) - 1. That takes seven operations for both words, and nine in
 * which b d is computed. So rounds keep complements of lower words, and keys are complements too.
 *
 * t + r must fit into a word. For the second multiplier it does if c is taken less 2^16, so that it is -0x3262; x makes
 * up for that. 0x3262 2^16 is added to t, so that it is never negative. The upper word is then too large by 0x3262, which
 * (a + 1) c instead of a c takes back. With a + 1 in t, too, the number that is added to t becomes -d. NVIDIA's GPUs shift
 * and add in one instruction, so both sums are free: this word also takes seven operations, and a round takes sixteen and
 * two for its keys. That is 5% faster than with x added and 0x3262 subtracted at the end.
 */
export const philoxFunctions: string = wgsl`
fn high_of_0(x: vec4<u32>, not_low: vec4<u32>) -> vec4<u32> {
  let a = upper_half(x);
  let middle = x * 0xd251u + (a * 0x2daf1f53u + upper_half(not_low));
  return a * 0xd251u + upper_half(middle);
}

fn high_of_1(x: vec4<u32>, not_low: vec4<u32>) -> vec4<u32> {
  let next_a = upper_half(x) + 1u;
  let middle = x * 0xffffcd9eu + (next_a * 0x32628d57u + (upper_half(not_low) - 0x8d57u));
  return next_a * 0xffffcd9eu + (upper_half(middle) + x);
}

fn upper_half(x: vec4<u32>) -> vec4<u32> {
  return x >> vec4<u32>(16u);
}

fn random_blocks(n: vec4<u32>) -> array<vec4<u32>, ${BLOCKS}> {
  // The first two rounds, of which only what depends on n is left.
  let not_first = n * 0x2daee0adu - 1u;
  let second = high_of_0(n, not_first) ^ vec4<u32>(parameters.mixed0);
  var y = second * 0x326172a9u - 1u;
  var x = high_of_1(second, y) ^ vec4<u32>(parameters.mixed1);
  var z = not_first ^ vec4<u32>(parameters.mixed2);
  var w = vec4<u32>(parameters.mixed3);
${lines(ROUNDS - UNIFORM_ROUNDS, (i) => {
  const round = UNIFORM_ROUNDS + i;
  return wgsl`  let w${i} = x * 0x2daee0adu - 1u;
  let y${i} = z * 0x326172a9u - 1u;
  let x${i} = high_of_1(z, y${i}) ^ y ^ vec4<u32>(parameters.key0 - ${stepOf(0, round)});
  z = high_of_0(x, w${i}) ^ w ^ vec4<u32>(parameters.key1 - ${stepOf(1, round)});
  x = x${i};
  y = y${i};
  w = w${i};`;
})}
  return array<vec4<u32>, ${BLOCKS}>(
${lines(BLOCKS, (i) => `    vec4<u32>(x[${i}], ~y[${i}], z[${i}], ~w[${i}]),`)}
  );
}
`;

/** What keys have changed by in this round. */
function stepOf(word: 0 | 1, round: number): string {
  return `${Math.imul(KEY_STEPS[word], round) >>> 0}u`;
}
