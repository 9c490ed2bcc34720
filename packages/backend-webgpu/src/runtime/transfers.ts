import {
  input,
  linearBuiltins,
  output,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../program/index.js";
import type { BufferRegion, KernelContext } from "./context.js";

/**
 * Moves of arbitrary bytes. WebGPU's own commands move whole words only, end the open compute pass, and
 * are slower than kernels (copyBufferToBuffer reaches a fifth of the bandwidth on an H200). In all of
 * these, one invocation writes a word, and every other byte keeps its bits.
 */

/** The means by which moves are recorded. */
export interface Mover extends Pick<KernelContext, "features" | "dispatch"> {
  /** A copy of a region in scratch, at the same place modulo 16 bytes. */
  detached(region: BufferRegion): BufferRegion;
}

/** Bits of word `word` whose bytes lie in [start, end), all counted from the start of a region. */
const byteMask = wgsl`
fn byte_mask(word: u32, start: u32, end: u32) -> u32 {
  var mask = 0u;
  for (var i = 0u; i < 4u; i++) {
    let place = 4u * word + i;
    if (place >= start && place < end) { mask |= 0xffu << (8u * i); }
  }
  return mask;
}
`;

/** Changes some bytes of one word. */
const mergeWord = program({
  name: "merge_word",
  bindings: { words: output("u32") },
  parameters: { mask: "u32", value: "u32" },
  body: wgsl`
@compute @workgroup_size(1)
fn main() {
  let word = parameters.words_offset;
  words[word] = (words[word] & ~parameters.mask) | (parameters.value & parameters.mask);
}
`,
});

/**
 * One word per invocation. Both regions start with the word in which the first byte lies, and `start`,
 * `end` and `source_start` count bytes from there.
 */
const copyBytes = program({
  name: "copy_bytes",
  bindings: { source: input("u32"), bytes: output("u32") },
  parameters: { start: "u32", end: "u32", source_start: "u32" },
  body: wgsl`
${workgroupIndex}
${byteMask}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let word = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (4u * word >= parameters.end) { return; }
  let own = parameters.bytes_offset + word;
  let mask = byte_mask(word, parameters.start, parameters.end);
  if (mask == 0xffffffffu) {
    let place = 4u * word - parameters.start + parameters.source_start;
    let shift = 8u * (place & 3u);
    let first = parameters.source_offset + place / 4u;
    var value = source[first] >> shift;
    if (shift != 0u) { value |= source[first + 1u] << (32u - shift); }
    bytes[own] = value;
    return;
  }
  var value = bytes[own];
  for (var i = 0u; i < 4u; i++) {
    if (((mask >> (8u * i)) & 1u) == 0u) { continue; }
    let place = 4u * word + i - parameters.start + parameters.source_start;
    let byte = (source[parameters.source_offset + place / 4u] >> (8u * (place & 3u))) & 0xffu;
    value = (value & ~(0xffu << (8u * i))) | (byte << (8u * i));
  }
  bytes[own] = value;
}
`,
});

/** Sixteen bytes per invocation, if both regions start at a multiple of that. */
const copyBlocks = program({
  name: "copy_blocks",
  bindings: { source: input("vec4u"), blocks: output("vec4u") },
  parameters: { words: "u32" },
  body: wgsl`
${workgroupIndex}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let block = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (4u * block >= parameters.words) { return; }
  let value = source[parameters.source_offset + block];
  let left = parameters.words - 4u * block;
  if (left >= 4u) {
    blocks[parameters.blocks_offset + block] = value;
    return;
  }
  for (var i = 0u; i < left; i++) { blocks[parameters.blocks_offset + block][i] = value[i]; }
}
`,
});

/** Whole words within one buffer, which can be bound but once. One word per invocation. */
const copyWithin = program({
  name: "copy_within",
  bindings: { words: output("u32") },
  parameters: { count: "u32", from_word: "u32", to_word: "u32" },
  body: wgsl`
${workgroupIndex}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let i = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (i >= parameters.count) { return; }
  words[parameters.words_offset + parameters.to_word + i] = words[parameters.words_offset + parameters.from_word + i];
}
`,
});

/** Sixteen bytes per invocation. `start` and `end` count bytes from the block in which the first lies. */
const fillBytes = program({
  name: "fill_bytes",
  bindings: { blocks: output("vec4u") },
  parameters: { start: "u32", end: "u32", pattern: "u32" },
  body: wgsl`
${workgroupIndex}
${byteMask}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let block = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (16u * block >= parameters.end) { return; }
  let own = parameters.blocks_offset + block;
  if (16u * block >= parameters.start && 16u * block + 16u <= parameters.end) {
    blocks[own] = vec4<u32>(parameters.pattern);
    return;
  }
  for (var i = 0u; i < 4u; i++) {
    let mask = byte_mask(4u * block + i, parameters.start, parameters.end);
    if (mask != 0u) { blocks[own][i] = (blocks[own][i] & ~mask) | (parameters.pattern & mask); }
  }
}
`,
});

/** Any bytes; the regions do not overlap. */
export function copyRegion(mover: Mover, destination: BufferRegion, source: BufferRegion): void {
  for (const { start, end } of pieces(mover, destination.byteLength))
    copyPiece(mover, part(destination, start, end), part(source, start, end));
}

function copyPiece(mover: Mover, destination: BufferRegion, source: BufferRegion): void {
  const { memory, byteOffset, byteLength } = destination;
  const words = byteLength / 4;
  const isWhole = Number.isInteger(words);
  const sameBuffer = memory === source.memory;
  if (!sameBuffer && isWhole && byteOffset % 16 === 0 && source.byteOffset % 16 === 0) {
    mover.dispatch(copyBlocks, { source, blocks: destination }, { words }, groups(words / 4));
    return;
  }
  const first = Math.min(byteOffset, source.byteOffset);
  const span = Math.max(byteOffset, source.byteOffset) + byteLength - first;
  if (sameBuffer && isWhole && first % 4 === 0 && span % 4 === 0 && span <= pieceBytes(mover)) {
    mover.dispatch(
      copyWithin,
      { words: { memory, byteOffset: first, byteLength: span } },
      { count: words, from_word: (source.byteOffset - first) / 4, to_word: (byteOffset - first) / 4 },
      groups(words),
    );
    return;
  }
  // A word at an edge may belong to both regions, so the source must not be read while it is written.
  const from = widened(sameBuffer ? mover.detached(source) : source, 4);
  const to = widened(destination, 4);
  mover.dispatch(
    copyBytes,
    { source: from.region, bytes: to.region },
    { start: to.start, end: to.start + byteLength, source_start: from.start },
    groups(to.region.byteLength / 4),
  );
}

/** Writes a pattern that is aligned to the buffer, not to the region. */
export function fillRegion(mover: Mover, destination: BufferRegion, pattern: number): void {
  for (const piece of pieces(mover, destination.byteLength)) {
    const { region, start } = widened(part(destination, piece.start, piece.end), 16);
    const end = start + piece.end - piece.start;
    mover.dispatch(fillBytes, { blocks: region }, { start, end, pattern }, groups(region.byteLength / 16));
  }
}

/**
 * Writes bytes to the words that `destination` covers in part: at most one at each end. Returns the part in
 * between, which consists of whole words, as places within `source`.
 */
export function writeEdges(
  mover: Mover,
  destination: BufferRegion,
  source: Uint8Array<ArrayBufferLike>,
): { readonly start: number; readonly end: number } {
  const first = destination.byteOffset;
  const last = first + source.byteLength;
  const inner = { start: Math.ceil(first / 4) * 4, end: Math.floor(last / 4) * 4 };
  const places = new Set<number>();
  if (first < inner.start) places.add(inner.start - 4);
  if (last > inner.end) places.add(inner.end);
  for (const byteOffset of places) {
    let mask = 0;
    let value = 0;
    for (let i = 0; i < 4; i++) {
      const place = byteOffset + i;
      if (place < first || place >= last) continue;
      mask |= 0xff << (8 * i);
      value |= source[place - first]! << (8 * i);
    }
    const words = { memory: destination.memory, byteOffset, byteLength: 4 };
    mover.dispatch(mergeWord, { words }, { mask, value }, 1);
  }
  return { start: inner.start - first, end: Math.max(inner.start, inner.end) - first };
}

/** Returns the bytes that a binding shows wherever it starts. Multiples of it keep every alignment. */
function pieceBytes({ features }: Mover): number {
  const { maxStorageBufferBindingSize } = features.limits;
  return maxStorageBufferBindingSize - (maxStorageBufferBindingSize % 256) - 512;
}

/** [0, length) in ranges that can be bound. */
function* pieces(mover: Mover, length: number): Iterable<{ start: number; end: number }> {
  const step = pieceBytes(mover);
  for (let start = 0; start < length; start += step) yield { start, end: Math.min(start + step, length) };
}

function part({ memory, byteOffset }: BufferRegion, start: number, end: number): BufferRegion {
  return { memory, byteOffset: byteOffset + start, byteLength: end - start };
}

/**
 * Returns the whole units that contain a region, and the region's start in them, in bytes. Buffers end with a unit.
 */
function widened(
  { memory, byteOffset, byteLength }: BufferRegion,
  unit: 4 | 16,
): { readonly region: BufferRegion; readonly start: number } {
  const start = byteOffset % unit;
  const length = Math.ceil((start + byteLength) / unit) * unit;
  return { region: { memory, byteOffset: byteOffset - start, byteLength: length }, start };
}

function groups(invocations: number): number {
  return Math.ceil(invocations / WORKGROUP_SIZE);
}
