/**
 * Marks template literals as WGSL for editors. Values are inserted as they are, so snippets and numbers
 * compose; problem sizes never belong here (each would compile another pipeline).
 */
export function wgsl(strings: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  return String.raw({ raw: strings.map((text) => text) }, ...values);
}

/** Invocations per workgroup of kernels that have no reason for another number. */
export const WORKGROUP_SIZE = 256;

/**
 * The arguments of `main` for kernels that are started with a count of workgroups:
 * `fn main(${linearBuiltins}) { let group = workgroup_index(workgroup, workgroups); ... }`
 */
export const linearBuiltins: string = [
  "@builtin(workgroup_id) workgroup: vec3<u32>",
  "@builtin(num_workgroups) workgroups: vec3<u32>",
  "@builtin(local_invocation_index) lane: u32",
].join(", ");

/** The place of a workgroup in a count that may have been folded to two dimensions. */
export const workgroupIndex: string = wgsl`
fn workgroup_index(workgroup: vec3<u32>, workgroups: vec3<u32>) -> u32 {
  return workgroup.y * workgroups.x + workgroup.x;
}
`;

/**
 * Half-precision numbers kept two to a u32 word, low half first, on any adapter.
 *
 * Reading is free of races at every offset: `half_at(words[i >> 1u], i)`. Writing is not: two elements share
 * a word, so each word must be written by one invocation that keeps the half it does not own. Kernels that
 * cannot arrange that write f32 to scratch and call `storeHalves`.
 *
 * half_bits rounds to nearest even by integer arithmetic, because pack2x16float leaves rounding and overflow
 * to the implementation. Overflow gives infinity, subnormals are kept. In the other direction every normal
 * number is exact in f32, so that unpack2x16float has no choice. It may flush subnormal ones, but none of the
 * adapters in docs/adapters.md does, and integer code takes nine instructions instead of one.
 */
export const halfFunctions: string = wgsl`
fn half_at(word: u32, index: u32) -> f32 {
  return unpack2x16float(word >> ((index & 1u) * 16u)).x;
}

fn quad_of(words: vec2u) -> vec4f {
  return vec4f(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn half_bits(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  // Normal numbers first, by one comparison: from 2^-14 to 2^16, where 65520 and more round to infinity.
  if (magnitude - 0x38800000u < 0x0f000000u) {
    return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u)) >> 13u);
  }
  if (magnitude > 0x38800000u) {
    return sign | select(0x7c00u, 0x7e00u, magnitude > 0x7f800000u);
  }
  // Multiples of 2^-24. A shift by 25 leaves nothing of the 24 bits, whatever the rounding.
  let shift = min(126u - (magnitude >> 23u), 25u);
  let significand = (magnitude & 0x7fffffu) | 0x800000u;
  return sign | ((significand + (1u << (shift - 1u)) - 1u + ((significand >> shift) & 1u)) >> shift);
}

fn pack_halves(low: f32, high: f32) -> u32 {
  return half_bits(low) | (half_bits(high) << 16u);
}

/// The word with one of its halves (index & 1) replaced.
fn with_half(word: u32, index: u32, value: f32) -> u32 {
  let shift = (index & 1u) * 16u;
  return (word & ~(0xffffu << shift)) | (half_bits(value) << shift);
}
`;

/** `count` lines of generated text, numbered from 0. */
export function lines(count: number, line: (i: number) => string): string {
  return Array.from({ length: count }, (_, i) => line(i)).join("\n");
}
